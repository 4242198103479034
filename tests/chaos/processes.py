"""The processes that are hurt: servers with a clock that can be set, workers, and their proxies."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.processes import environment

start_s_max = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A child that can be killed, frozen and thawed."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("a") as errors:
            self.popen = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def first_line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline()

    def kill(self) -> bool:
        """SIGKILL; whether it was alive until then."""
        self.popen.send_signal(signal.SIGKILL)
        ended = self.popen.wait(start_s_max)
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        return ended == -signal.SIGKILL

    def freeze(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 5
        while _state(self.pid) != "T":
            assert time.monotonic() < deadline, "it does not stand still"
            time.sleep(0.005)

    def thaw(self) -> None:
        self.popen.send_signal(signal.SIGCONT)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class Node:
    """One server, always at the same port, killed and started again."""

    def __init__(self, name: str, folder: Path, store: str) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        self._clock = folder / f"{name}.clock"
        self._clock.write_bytes(bytes(8))
        self._settings = {
            "port": self.port,
            "store": store,
            "log_level": "warning",
            "retry_ms": 1_500,
            "stream_keep_alive_s": 1.0,
        }
        self.process: Process | None = None
        self.clock_was_set = False

    def start(self) -> float:
        """Start it and wait until it is ready; the seconds that took."""
        began = time.monotonic()
        command = [sys.executable, "-m", "tests.chaos.serving", json.dumps(self._settings), str(self._clock)]
        self.process = Process(command, self.log)
        line = self.process.first_line()
        assert " at http" in line, f"{self.name} did not start: {line!r}\n{self.log.read_text()[-3_000:]}"
        return time.monotonic() - began

    @property
    def alive(self) -> Process:
        assert self.process is not None
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.thaw()
            self.process.kill()
            self.process = None

    def set_clock(self, offset_s: float) -> None:
        self.clock_was_set = True
        with self._clock.open("r+b") as file:
            file.write(struct.pack("<q", int(offset_s * 1e9)))

    @property
    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_until_ready(self, within_s: float = start_s_max) -> float:
        began = time.monotonic()
        while not self.is_ready:
            waited = time.monotonic() - began
            assert waited < within_s, f"{self.name} is not ready {waited:.1f} s after the fault"
            time.sleep(0.02)
        return time.monotonic() - began


def start_worker(url: str, ledger: Path, log: Path, lease_s: float) -> Process:
    """A worker; it is not waited for."""
    return Process([sys.executable, "-m", "tests.chaos.workload", url, str(ledger), str(lease_s)], log)


def descriptors(pid: int) -> tuple[int, int]:
    """How many a process has, and how many of them are sockets."""
    count = sockets = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed while we look
            sockets += os.readlink(entry.path).startswith("socket:")  # noqa: PTH115
            count += 1
    return count, sockets
