"""Apps under gunicorn and uvicorn: each of their processes opens its own, or is refused at once."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import Server, environment, eventually

ROOT = Path(__file__).parent.parent.parent
WSGI = "tests.integrations.wsgi_shop:application"
ASGI = "tests.integrations.asgi_shop:application"
SERVERS = {
    "gunicorn, workers that are forked": ["gunicorn", "--workers=2", WSGI],
    "gunicorn, preloaded": ["gunicorn", "--workers=2", "--preload", WSGI],
    "gunicorn, preloaded, threads": ["gunicorn", "--workers=2", "--threads=4", "--preload", WSGI],
    "gunicorn, preloaded, asyncio": [
        *("gunicorn", "--workers=2", "--preload", "--worker-class=uvicorn_worker.UvicornWorker", ASGI)
    ],
    "uvicorn, workers that are spawned": ["uvicorn", "--workers=2", ASGI],
}


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(command: list[str], folder: Path, url: str, **more: str) -> Generator[str]:
    """The server, until it has been told to stop; it must do so in order, whatever it served. `expects_kill`:
    the test kills it and all its processes, by the number in `server.pid`. `own_error`: the only one that it
    may log, because a workflow of the test raises it."""
    expects_kill, own_error = more.pop("expects_kill", None), more.pop("own_error", "\0")
    name, *words = command
    port = free_port()
    bind = [f"--bind=127.0.0.1:{port}"] if name == "gunicorn" else ["--host=127.0.0.1", f"--port={port}"]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", name, *bind, *words],
        cwd=ROOT,
        env=environment({"HOLDFAST_URL": url, **more}),
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    (folder / "server.pid").write_text(str(process.pid))
    try:
        eventually(lambda: process.poll() is not None or _answers(port))
        assert process.poll() is None, (folder / "server.log").read_text()
        yield f"http://127.0.0.1:{port}/"
        if expects_kill:
            process.wait(60)
            return
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM), (folder / "server.log").read_text()
        told = (folder / "server.log").read_text().split("Traceback")[1:]
        assert not [each for each in told if own_error not in each]
    finally:
        process.kill()
        process.wait()
        log.close()


def _answers(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


def ask_until_both_have_answered(url: str) -> None:
    """Both processes start, send and wait."""
    pids: set[str] = set()

    def ask_some() -> bool:
        with ThreadPoolExecutor(8) as pool:
            for number, (status, text) in enumerate(pool.map(get, [f"{url}?{n}" for n in range(16)])):
                pid, *answers = text.split()
                assert (status, answers) == (200, [str(2 * number), str(3 * number)]), text
                pids.add(pid)
        return len(pids) == 2

    eventually(ask_some)


@pytest.mark.parametrize("name", SERVERS)
def test_every_process_opens_its_own_on_one_sqlite_file(name: str, tmp_path: Path) -> None:
    with serving(SERVERS[name], tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as url:
        ask_until_both_have_answered(url)


@pytest.mark.parametrize("name", SERVERS)
def test_every_process_opens_its_own_connection_to_a_server(name: str, tmp_path: Path) -> None:
    with Server(tmp_path) as far, serving(SERVERS[name], tmp_path, far.url) as url:
        ask_until_both_have_answered(url)


def test_an_app_that_is_open_before_the_fork_is_refused_with_a_sentence(tmp_path: Path) -> None:
    command = SERVERS["gunicorn, preloaded"]
    with serving(command, tmp_path, f"sqlite:///{tmp_path}/holdfast.db", OPEN_EARLY="1") as url:
        status, text = get(f"{url}?4")
        assert status == 500
        assert "was open when os.fork() created this process. Open the app after the fork" in text
        assert "HF5206" in text


def test_an_app_that_is_open_before_the_fork_may_talk_to_a_server(tmp_path: Path) -> None:
    command = SERVERS["gunicorn, preloaded"]
    with Server(tmp_path) as far, serving(command, tmp_path, far.url, OPEN_EARLY="1") as url:
        ask_until_both_have_answered(url)


def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    command = SERVERS["gunicorn, preloaded, asyncio"]
    with serving(command, tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as url:
        status, text = get(f"{url}?4")
        assert status == 200
        os.kill(int(text.split()[0]), signal.SIGKILL)
        ask_until_both_have_answered(url)
