"""What stands beside us in bench/executions.py: other systems, from their registries, in their own processes.

They are installed on demand into bench/.cache, which git ignores. What cannot be installed is said in a
sentence, and its rows fall back on the figures of an earlier run on such a machine.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

programs = Path(__file__).parent / "programs"
cache = Path(__file__).parent.parent / ".cache"
environment = cache / "peers"
python = environment / "bin" / "python"
restate_folder = cache / "restate"
packages = ("dbos==3.3.0", "restate-sdk==1.2.0", "hypercorn==0.18.0")
restate_package = "@restatedev/restate-server@1.7.12"
ready_s_max = 60.0


def install() -> str | None:
    """Fetch what is missing. None, or the sentence that says what could not be had."""
    try:
        if not (environment / ".installed").exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages], check=True, stderr=subprocess.DEVNULL)
            (environment / ".installed").touch()
        if restate_binary() is None:
            npm = shutil.which("npm")
            if npm is None:
                return "npm was not found, so Restate's server cannot be installed"
            restate_folder.mkdir(parents=True, exist_ok=True)
            # Its install scripts only report usage; they are not run.
            options = ["--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]
            subprocess.run([npm, "install", *options, restate_package], cwd=restate_folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"a peer could not be installed: {error}"
    return None


def has_dbos() -> bool:
    return (environment / ".installed").exists()


def restate_binary() -> Path | None:
    return next(restate_folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"), None)


def run_dbos(folder: Path, workflows: int, steps: int, url: str | None = None) -> float:
    """Steps a second. Without a URL on a SQLite file of its own."""
    url = url or f"sqlite:///{folder / f'dbos-{time.time_ns()}.db'}"
    command: list[str | Path] = [python, programs / "dbos_steps.py", url, str(workflows), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return workflows * steps / float(done.stdout.split()[-1])


@contextmanager
def restate(folder: Path) -> Generator[str]:
    """A server and a service, both on loopback. Gives the address of the ingress."""
    binary = restate_binary()
    assert binary is not None
    ports = [free_port() for _ in range(4)]
    node, ingress, admin, service = ports
    settings = {
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_INGRESS__BIND_IP": "127.0.0.1",
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_IP": "127.0.0.1",
        "RESTATE_ADMIN__BIND_PORT": str(admin),
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "error",
    }
    base = folder / f"restate-{time.time_ns()}"
    base.mkdir()
    with (base / "log").open("w") as log:
        server = subprocess.Popen(
            [binary, "--base-dir", base], env=os.environ | settings, stdout=log, stderr=log, cwd=base
        )
        program: list[str | Path] = [python, programs / "restate_service.py", str(service)]
        worker = subprocess.Popen(program, stdout=log, stderr=log)
    try:
        _until_answered(f"http://127.0.0.1:{admin}/health")
        _until_listening(service)
        _post(f"http://127.0.0.1:{admin}/deployments", {"uri": f"http://127.0.0.1:{service}"})
        url = f"http://127.0.0.1:{ingress}"
        _until_answered(f"{url}/restate/health")
        _post(f"{url}/bench/flow", 1)
        yield url
    finally:
        for process in (worker, server):
            process.kill()
            process.wait()


def run_restate(url: str, workflows: int, steps: int) -> float:
    """Steps a second."""
    with ThreadPoolExecutor(workflows) as pool:
        started = time.perf_counter()
        counts = list(pool.map(_post, [f"{url}/bench/flow"] * workflows, [steps] * workflows))
        took = time.perf_counter() - started
    assert counts == [steps] * workflows, counts
    return workflows * steps / took


def run_restate_objects(url: str, keys: int, callers: int, calls: int) -> float:
    """Calls a second to virtual objects, by so many callers one after the other each."""

    def call_some(caller: int) -> None:
        for number in range(calls // callers):
            _post(f"{url}/account/k{(caller + number * callers) % keys}/deposit", 1)

    with ThreadPoolExecutor(callers) as pool:
        started = time.perf_counter()
        list(pool.map(call_some, range(callers)))
        return calls / (time.perf_counter() - started)


def _post(url: str, body: object) -> object:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read() or b"null")


def _until_answered(url: str) -> None:
    deadline = time.monotonic() + ready_s_max
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{url} did not answer")


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + ready_s_max
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
