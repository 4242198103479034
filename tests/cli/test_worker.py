"""`holdfast worker`: finds an App, works until it is told to stop, and says what is wrong."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Server, holdfast

SHOP = """
import holdfast as hf

app = hf.App()
other = 3


def greet(name: str) -> str:
    return f"Hello, {name}!"


@app.workflow
async def hello(name: str) -> str:
    return await hf.run(greet, name)
"""


def test_it_works_for_a_server_until_sigterm(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with Server(tmp_path) as server:
        command = [sys.executable, "-m", "holdfast", "worker", "shop:app", "-S", server.url, "-c", "4"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stderr is not None
            assert "hello" in worker.stderr.readline()
            done = holdfast("invoke", "h1", "--func", "hello", "--arg", "Ada", "--wait", "-S", server.url)
            assert "Hello, Ada!" in done.out, done.err
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
            assert worker.stderr.read().endswith("stopped\n")


def _log_until(worker_of: Path, url: str, sign: str) -> str:
    """What a worker logs until this appears, and then until it has stopped."""
    command = [sys.executable, "-m", "holdfast", "worker", "shop:app", "-S", url]
    with subprocess.Popen(command, cwd=worker_of, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        lines = [worker.stderr.readline()]
        while lines[-1] and sign not in lines[-1]:
            lines.append(worker.stderr.readline())
        worker.send_signal(signal.SIGTERM)
        return "".join(lines + worker.stderr.readlines())


def test_an_unknown_workflow_is_one_line_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with Server(tmp_path) as server:
        holdfast("invoke", "h2", "--func", "helo", "-S", server.url)
        said = _log_until(tmp_path, server.url, "HF5104")
    assert "Workflow 'helo' version 1 is not registered here (known: hello)" in said
    assert "Traceback" not in said


FAILING = """
import holdfast as hf

app = hf.App()


def refuse() -> None:
    raise ConnectionError("away" + chr(10) + "2030-01-01 INFO forged")


@app.task
def mail() -> None:
    refuse()


@app.workflow
async def pay() -> None:
    await hf.run(refuse)
"""


@pytest.mark.parametrize("words", [("tasks", "send", "--func", "mail"), ("invoke", "p", "--func", "pay")])
def test_a_traceback_in_the_log_is_indented_and_begins_with_the_error(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "shop.py").write_text(FAILING)
    with Server(tmp_path) as server:
        assert holdfast(*words, "-S", server.url).code == 0
        said = _log_until(tmp_path, server.url, "  ConnectionError: away")
    assert "\n  Traceback (most recent call last):\n" in said
    assert "uvloop" not in said
    assert "\n2030-01-01" not in said, "nobody can forge a line of the log"


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("shop", "write MODULE:APP"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop:ap", "module 'shop' has no 'ap'; did you mean shop:app?"),
        ("shop:other", "shop:other is a int, not a holdfast App; did you mean shop:app?"),
    ],
)
def test_a_bad_name_is_explained(where: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "holdfast", "worker", where]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
