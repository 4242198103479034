"""A server in a process of its own, as a user would run it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_script = """
import json, os, sys
from holdfast.server import load_settings, serve
serve(load_settings(json.loads(sys.argv[1]), {}, os.devnull))
"""


class ServerProcess:
    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit code and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

    @property
    def memory_bytes(self) -> int:
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def peak_bytes(self) -> int:
        """The most memory that was ever resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1_024


async def start_process(environment: dict[str, str] | None = None, **settings: Any) -> ServerProcess:
    given = {"port": 0, "log_level": "warning"} | settings
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _script,
        json.dumps(given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | (environment or {}),
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
    if " at http" not in line:
        _, errors = await process.communicate()
        raise AssertionError(f"the server did not start: {line!r} {errors.decode()}")
    return ServerProcess(process, line.rsplit(" ", 1)[1].strip())


@asynccontextmanager
async def server_process(**settings: Any) -> AsyncGenerator[ServerProcess]:
    server = await start_process(**settings)
    try:
        yield server
    finally:
        if server.process.returncode is None:
            await server.kill()
