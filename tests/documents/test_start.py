"""docs/start/ten-minutes.md, followed literally: the programs, the kill, the tree, the server."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.documents.pages import DOCS, blocks

PAGE = (DOCS / "start" / "ten-minutes.md").read_text("utf-8")
SHOP = blocks(PAGE, "python")[0]
SHOWN = [block.splitlines() for block in blocks(PAGE, "text")]
PYTHON = [sys.executable, "-u"]
HOLDFAST = [sys.executable, "-u", "-m", "holdfast"]
patience_s = 120


def run(command: list[str], folder: Path, url: str = "") -> list[str]:
    env = {**os.environ, "HOLDFAST_URL": url} if url else None
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=patience_s
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def shown_after(command: str) -> list[list[str]]:
    """What the page shows under each occurrence of a command."""
    found: list[list[str]] = []
    for block in SHOWN:
        for place, line in enumerate(block):
            if line == f"$ {command}":
                below = block[place + 1 :]
                end = next((n for n, text in enumerate(below) if text.startswith("$ ")), len(below))
                found.append(below[:end])
    return found


def _accept_quit() -> None:
    """A shell has its background jobs ignore this signal, and what they start inherits that."""
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@contextmanager
def running(command: list[str], folder: Path, url: str = "") -> "Generator[subprocess.Popen[str]]":
    env = {**os.environ, "HOLDFAST_URL": url} if url else None
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=_accept_quit,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_first_workflow_prints_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    first, _killed, _again = shown_after("python shop.py")
    assert run([*PYTHON, "shop.py"], tmp_path) == first
    assert run([*PYTHON, "shop.py"], tmp_path) == first[-1:], "its result is read, and nothing is done again"


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="Ctrl-\\ is for terminals of Unix")
def test_a_killed_process_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    slower = SHOP.replace("time.sleep(0.5)", "time.sleep(3)").replace("order-17", "order-18")
    (tmp_path / "shop.py").write_text(slower, "utf-8")
    _first, killed, again = shown_after("python shop.py")
    assert killed[-1] == "^\\Quit"
    with running([*PYTHON, "shop.py"], tmp_path) as process:
        assert process.stdout
        assert [process.stdout.readline().strip() for _ in killed[:-1]] == killed[:-1]
        process.send_signal(signal.SIGQUIT)
        assert process.wait(patience_s) == -signal.SIGQUIT
    assert run([*PYTHON, "shop.py"], tmp_path) == again
    tree = run([*HOLDFAST, "tree", "order-18", "-S", "sqlite:///holdfast.db"], tmp_path)
    [shown] = shown_after("holdfast tree order-18 -S sqlite:///holdfast.db")
    assert [line.split(" (")[0] for line in tree] == [line.split(" (")[0] for line in shown]


def test_a_server_with_a_worker_runs_orders_from_the_shell_and_from_http(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    with running([*HOLDFAST, "serve", "--port", "0"], tmp_path) as server:
        assert server.stdout
        url = server.stdout.readline().split()[-1]
        with running([*HOLDFAST, "worker", "shop:app"], tmp_path, url) as worker:
            assert worker.stdout
            order = ["invoke", "order-19", "--func", "checkout", "--arg", "tea", "--arg", "1999", "--wait"]
            assert "receipt for 1999" in "\n".join(run([*HOLDFAST, *order, "--limit", "100s"], tmp_path, url))
            body = json.dumps({"workflow": "checkout", "args": ["tea", 1999], "id": "order-20"}).encode()
            with urllib.request.urlopen(f"{url}/v1/executions", body, timeout=patience_s) as answer:
                assert answer.status < 300
            with urllib.request.urlopen(f"{url}/console/", timeout=patience_s) as page:
                assert b"<html" in page.read()
            lines = [worker.stdout.readline().strip() for _ in range(6)]
            assert lines == ["reserve tea", "charge 1999", "ship tea"] * 2
