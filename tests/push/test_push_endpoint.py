"""`app.push_endpoint()`: executions run within requests that a real server posts to a real ASGI server."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.processes import Server, environment, eventually

ROOT = Path(__file__).parent.parent.parent


class Endpoint:
    """uvicorn with the shop in a process of its own, on one port for all its lives."""

    def __init__(self, folder: Path, server: Server, port: int, token: str | None = None) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/run"
        self._port = port
        self._more = {"HOLDFAST_URL": server.url, "PUSHED_AT": self.url, "TRACES": str(folder / "traces")}
        self._more |= {"PUSH_TOKEN": token} if token else {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "--host=127.0.0.1", f"--port={self._port}"]
        command += ["--log-level=warning", "tests.push.pushed_shop:application"]
        with (self.folder / "endpoint.log").open("a") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment(self._more), stdout=log, stderr=log
            )
        eventually(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "endpoint.log").read_text()
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def traces(self) -> list[str]:
        file = self.folder / "traces"
        return [line.rpartition(" ")[0] for line in file.read_text().splitlines()] if file.exists() else []

    def post(self, body: bytes, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(self.url, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:  # Python 3.14 warns of one that is left open
                return error.code, json.loads(error.read())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(tmp_path: Path, port: int) -> Generator[Server]:
    flags = ["--push-hosts", f"127.0.0.1:{port}", "--push-private", "--retry-ms", "1000"]
    with Server(tmp_path, *flags) as server:
        yield server


@pytest.fixture
def endpoint(tmp_path: Path, server: Server, port: int) -> Generator[Endpoint]:
    endpoint = Endpoint(tmp_path, server, port)
    endpoint.start()
    yield endpoint
    if endpoint.process is not None and endpoint.process.poll() is None:
        endpoint.kill()


def caller(server: Server, endpoint: Endpoint) -> hf.App:
    """Somebody who starts what others run."""
    return hf.App(server.url, group=endpoint.url, worker=False)


def test_an_execution_runs_within_requests_and_waits_between_them(server: Server, endpoint: Endpoint) -> None:
    with caller(server, endpoint) as app:
        handle = app.start("ship", "17", id="order-17")
        eventually(lambda: handle.info().state == "suspended")
        assert endpoint.traces() == ["packed 17"]
        app.resolve("order-17", "approved", name="approval")
        assert handle.result(60) == ["packed 17", "approved", "42", "sent 17"]
    assert endpoint.traces() == ["packed 17", "sent 17"]
    assert endpoint.stop() in (0, -signal.SIGTERM)


def test_a_suspended_execution_needs_no_process_and_goes_on_in_the_next_one(
    server: Server, endpoint: Endpoint
) -> None:
    with caller(server, endpoint) as app:
        handle = app.start("ship", "17", id="order-17")
        eventually(lambda: handle.info().state == "suspended")
        endpoint.kill()
        app.resolve("order-17", "approved", name="approval")
        endpoint.start()
        assert handle.result(60) == ["packed 17", "approved", "42", "sent 17"]
    assert endpoint.traces() == ["packed 17", "sent 17"]


def test_a_process_that_dies_within_a_request_is_followed_by_another_request(
    server: Server, endpoint: Endpoint, tmp_path: Path
) -> None:
    with caller(server, endpoint) as app:
        handle = app.start("stay", str(tmp_path / "go"), id="s")
        eventually(lambda: endpoint.traces() == ["lingers"])
        endpoint.kill()
        (tmp_path / "go").touch()
        endpoint.start()
        assert handle.result(60) == "went on"
    assert endpoint.traces() == ["lingers", "lingers"]


def test_a_run_that_outlasts_the_post_keeps_its_lease_and_ends(tmp_path: Path, port: int) -> None:
    flags = ["--push-hosts", f"127.0.0.1:{port}", "--push-private", "--push-timeout-s", "0.2"]
    with Server(tmp_path, *flags, "--retry-ms", "300") as server:
        endpoint = Endpoint(tmp_path, server, port)
        endpoint.start()
        try:
            with caller(server, endpoint) as app:
                handle = app.start("stay", str(tmp_path / "go"), id="s")
                eventually(lambda: endpoint.traces() == ["lingers"])
                begun = handle.info().since
                # Two leases of 2 s: the post was given up long ago, and the claim is still the first one.
                eventually(lambda: _age_s(begun) > 4.5)
                assert handle.info().attempts == 1
                (tmp_path / "go").touch()
                assert handle.result(60) == "went on"
            assert endpoint.traces() == ["lingers"]
        finally:
            endpoint.kill()


def _age_s(since: datetime) -> float:
    return (datetime.now(UTC) - since).total_seconds()


def test_a_push_that_is_repeated_or_forged_runs_nothing(server: Server, endpoint: Endpoint) -> None:
    with caller(server, endpoint) as app:
        assert app.start("ship", "17", id="order-17").info().id == "order-17"
        eventually(lambda: endpoint.traces() == ["packed 17"])
        eventually(lambda: app.handle("order-17").info().state == "suspended")
    for task in ({"id": "order-17", "version": 0}, {"id": "nobody", "version": 0}):
        body = json.dumps({"kind": "execute", "head": {"serverUrl": "http://evil/"}, "data": {"task": task}})
        assert endpoint.post(body.encode()) == (200, {"outcome": "gone"})
    assert endpoint.traces() == ["packed 17"]


NO_MESSAGES = [b"", b"[]", b'{"kind": "unblock", "data": {}}', b'{"kind": "execute", "data": {"task": {}}}']


def test_what_is_no_message_is_refused_with_a_sentence(endpoint: Endpoint) -> None:
    for body in NO_MESSAGES:
        status, said = endpoint.post(body)
        assert status == 400, body
        assert "no message that asks to run a task" in said["error"], body
    assert endpoint.post(b" " * 70_000)[0] == 413, "too large"


def test_without_the_token_nobody_is_answered(server: Server, tmp_path: Path, port: int) -> None:
    endpoint = Endpoint(tmp_path, server, port, token="secret")
    endpoint.start()
    try:
        body = json.dumps({"kind": "execute", "data": {"task": {"id": "x", "version": 0}}}).encode()
        assert endpoint.post(body)[0] == 401
        assert endpoint.post(body, authorization="Bearer other")[0] == 401
        assert endpoint.post(body, authorization="Bearer secret") == (200, {"outcome": "gone"})
    finally:
        endpoint.kill()


def test_while_the_node_cannot_be_reached_the_caller_is_told_to_come_back(
    server: Server, endpoint: Endpoint
) -> None:
    server.kill()
    body = json.dumps({"kind": "execute", "data": {"task": {"id": "x", "version": 0}}}).encode()
    status, said = endpoint.post(body)
    assert (status, said["code"][:3]) == (503, "HF4")


@pytest.mark.slow
def test_many_orders_survive_an_endpoint_that_is_killed_again_and_again(
    server: Server, endpoint: Endpoint
) -> None:
    with caller(server, endpoint) as app:
        handles = [app.start("ship", str(number), id=f"order-{number}") for number in range(12)]
        for number, handle in enumerate(handles):
            app.resolve(handle.id, "approved", name="approval")
            if number % 4 == 3:
                endpoint.kill()
                endpoint.start()
        for number, handle in enumerate(handles):
            assert handle.result(60) == [f"packed {number}", "approved", "42", f"sent {number}"]
    assert {*endpoint.traces()} == {f"{word} {n}" for n in range(12) for word in ("packed", "sent")}


def test_a_group_is_a_name_or_the_url_of_an_endpoint() -> None:
    assert hf.App(group="https://fn.example.org/run").settings.group == "https://fn.example.org/run"
    for wrong in ("a/b", "ftp://x/", "http://", "https://a b/"):
        with pytest.raises(hf.HoldfastError, match="push endpoint"):
            hf.App(group=wrong)
