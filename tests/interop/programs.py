"""Programs written with the official SDKs, each in a process of its own, told what to do line by line."""

import itertools
import json
import signal
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from tests.interop import installation
from tests.processes import environment

start_s_max = 60.0
answer_s_max = 30.0


class Sdk(Struct, frozen=True):
    """One published client: a language, a version, and for TypeScript one of its two engines."""

    language: str
    version: str
    engine: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, [self.language, self.version, self.engine])).replace(".", "_")

    def command(self, url: str, group: str, ttl_ms: int) -> list[str]:
        where = [url, group, str(ttl_ms)]
        if self.language == "ts":
            return [str(installation.node), "program.mjs", f"sdk-{self.version}", self.engine, *where]
        return [str(installation.python), "program.py", *where]


SDKS = [
    Sdk("py", "0.8.1"),
    Sdk("ts", "0.11.5", "gen"),
    Sdk("ts", "0.11.5", "async"),
    Sdk("ts", "0.11.4", "gen"),
    Sdk("ts", "0.11.4", "async"),
]


class Program:
    """A running program. `start` gives a future, so that a test can act while it works."""

    def __init__(
        self, sdk: Sdk, url: str, group: str, log: Path, ttl_ms: int = 60_000, token: str | None = None
    ) -> None:
        self.group = group
        self._numbers = itertools.count()
        self._answers: dict[int, Future[Any]] = {}
        self._ready = threading.Event()
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                sdk.command(url, group, ttl_ms),
                cwd=installation.here / sdk.language,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment({"RESONATE_TOKEN": token} if token else None),
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(start_s_max), f"{sdk.name} did not start: {log.read_text()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, op: str, **fields: Any) -> "Future[Any]":
        number = next(self._numbers)
        answer = self._answers[number] = Future()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'n': number, 'op': op, **fields})}\n")
        self._process.stdin.flush()
        return answer

    def ask(self, op: str, **fields: Any) -> Any:
        return self.start(op, **fields).result(answer_s_max)

    def kill(self) -> None:
        """At once, in the middle of whatever it does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # the SDKs also write for people
            said = json.loads(line)
            if said.get("ready"):
                self._ready.set()
            elif "error" in said:
                self._answers.pop(said["n"]).set_exception(ProgramError(said["error"]))
            else:
                self._answers.pop(said["n"]).set_result(said["value"])


class ProgramError(Exception):
    """What the SDK raised in the program."""
