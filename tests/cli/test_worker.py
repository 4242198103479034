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
