"""The examples of the web frameworks do what they say."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.test_web_servers import ROOT, free_port, serving
from tests.processes import Server, environment, eventually

httpx: Any = pytest.importorskip("httpx", reason="see conftest.py")
DJANGO = ROOT / "examples" / "web" / "django_shop.py"


def test_fastapi(tmp_path: Path) -> None:
    command = ["uvicorn", "examples.web.fastapi_shop:api"]
    with (
        serving(command, tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as url,
        httpx.Client(base_url=url) as c,
    ):
        answer = c.post("/api/checkout", json={"item": "tea", "cents": 500}, headers={"prefer": "wait=60"})
        assert answer.json()["result"] == {"item": "tea from shelf 7", "cents": 500, "approved_by": "nobody"}
        large = c.post("/api/checkout", json={"item": "piano", "cents": 900_000}).headers["location"]
        assert c.post(f"{large}/promises/approval", json="ada").status_code == 204
        assert eventually(lambda: c.get(large).json().get("result"))["approved_by"] == "ada"
        assert c.post("/orders/17?item=tea").json()["id"] == "order-17"
        described = c.get("/openapi.json").json()["paths"]["/api/checkout"]["post"]
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["cents"] == {"type": "integer"}
        assert described["description"].startswith("Reserve an item")


def test_starlette(tmp_path: Path) -> None:
    command = ["uvicorn", "examples.web.starlette_shop:asgi"]
    with serving(command, tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as url:
        answer = httpx.post(f"{url}report", json={"year": 2026}, headers={"prefer": "wait=60"}, timeout=60)
        assert answer.json()["result"] == "1278 orders in 2026"


def test_flask(tmp_path: Path) -> None:
    command = ["gunicorn", "--threads=8", "examples.web.flask_shop:application"]
    with (
        serving(command, tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as url,
        httpx.Client(base_url=url) as c,
    ):
        ada = {"x-user": "ada"}
        where = c.post("/api/invite", json={"to": "bob"}, headers=ada).headers["location"]
        assert c.get(where, headers={"x-user": "eve"}).status_code == 404
        assert c.post(f"{where}/promises/answer", json="gladly", headers=ada).status_code == 204
        assert eventually(lambda: c.get(where, headers=ada).json().get("result")) == "gladly"


def test_django(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(DJANGO), *words], cwd=tmp_path, env=environment())

    assert run("migrate", "--verbosity=0").wait(60) == 0
    port = free_port()
    processes = [run("holdfast", "worker"), run("runserver", "--noreload", f"127.0.0.1:{port}")]
    try:
        url = f"http://127.0.0.1:{port}"

        def order() -> Any:
            try:
                return httpx.post(f"{url}/orders?item=tea", timeout=60)
            except httpx.ConnectError:
                return None

        answer = eventually(order)
        assert answer.status_code == 202, answer.text
        where = f"{url}/api/executions/{answer.json()['id']}"
        assert eventually(lambda: httpx.get(where, timeout=60).json().get("result")) == "packed tea"
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(60)


def test_push(tmp_path: Path) -> None:
    port = free_port()
    flags = ["--push-hosts", f"127.0.0.1:{port}", "--push-private"]
    with Server(tmp_path, *flags, "--retry-ms", "1000") as server:
        more = {"FUNCTION_URL": f"http://127.0.0.1:{port}/run", "HOLDFAST_URL": server.url}
        command = [sys.executable, "-m", "uvicorn", "examples.web.push_function:application"]
        with subprocess.Popen(
            [*command, f"--port={port}", "--log-level=warning"],
            cwd=ROOT,
            env=environment(more),
        ) as function:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "examples.web.push_function"],
                    cwd=ROOT,
                    env=environment(more),
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
            finally:
                function.kill()
    assert done.stdout == "welcome, ada; how was your first day?\n", done.stderr
