"""What a test needs that follows a page: its programs, its commands, and what it shows under each."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.documents.pages import DOCS, blocks

PYTHON = [sys.executable, "-u"]
HOLDFAST = [sys.executable, "-u", "-m", "holdfast"]
patience_s = 120


class Walk:
    """A page of docs/."""

    def __init__(self, name: str) -> None:
        text = (DOCS / name).read_text("utf-8")
        self.programs = blocks(text, "python")
        self._shown = [block.splitlines() for block in blocks(text, "text")]

    def shown_after(self, command: str) -> list[list[str]]:
        """What the page shows under each occurrence of a command."""
        found: list[list[str]] = []
        for block in self._shown:
            for place, line in enumerate(block):
                if line == f"$ {command}":
                    below = block[place + 1 :]
                    end = next((n for n, text in enumerate(below) if text.startswith("$ ")), len(below))
                    found.append(below[:end])
        return found

    def shows(self, command: str) -> bool:
        """Whether a reader is told to type this; what follows behind `#` is a remark."""
        lines = [line.partition("  #")[0].strip() for block in self._shown for line in block]
        return f"$ {command}" in lines


def run(command: list[str], folder: Path, url: str = "") -> list[str]:
    env = {**os.environ, "HOLDFAST_URL": url} if url else None
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=patience_s
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


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


@contextmanager
def server(folder: Path, *options: str) -> "Generator[tuple[subprocess.Popen[str], str]]":
    """`holdfast serve`, and its URL."""
    with running([*HOLDFAST, "serve", "--port", "0", *options], folder) as process:
        assert process.stdout
        yield process, process.stdout.readline().split()[-1]
