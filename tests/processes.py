"""Real processes for tests: a server, and the console that talks to it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

start_s_max = 60.0


class Outcome(Struct, frozen=True):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what a developer may have set for themselves."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "RESONATE_"))
    }
    return kept | {"PYTHONUNBUFFERED": "1"} | dict(extra or {})


def holdfast(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Outcome:
    """Run the console once."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(env),
        cwd=cwd,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


class Server:
    """`holdfast serve` in a process of its own, on a port of its own. It can be killed and started again."""

    def __init__(self, directory: Path, *flags: str, command: str = "serve") -> None:
        self.directory = directory
        self._command = [command, *flags]
        if command == "serve":
            self._command += ["--store", f"sqlite:///{directory / 'holdfast.db'}"]
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with (self.directory / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *self._command, "--port", str(self.port)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                cwd=self.directory,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)", line)
        assert found, f"the server did not start: {line!r} {(self.directory / 'server.log').read_text()}"
        self.url, self.port = found[0], int(found[1])

    def kill(self) -> None:
        """As a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(number)
            process.wait(start_s_max)
            if process.stdout is not None:
                process.stdout.close()

    def console(self, *words: str) -> Outcome:
        """The console, talking to this server."""
        return holdfast(*words, env={"HOLDFAST_URL": self.url})


def eventually(look: Callable[[], Any], within_s: float = 60.0) -> Any:
    """The first true thing that `look` finds. For what another process does in its own time."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing came within {within_s} s"
        time.sleep(0.05)
    return found
