"""Measures executions against what was promised of them: `make bench-executions`.

Every system runs in processes of its own, on the same disk, with no-op steps and fsync on. Rounds alternate
between the systems, so that a noisy machine disturbs all alike; ratios are taken within a round, and their
median counts. Peers are installed on demand (bench/peers).
"""

import argparse
import asyncio
import gc
import os
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench import peers
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.workflow import functions as hf

# Without a peer: as measured on such a machine (reference/performance.md), x32.
dbos_per_s = 206.0
restate_per_s = 867.0

many, steps = 32, 100
long_steps = 10_000
suspended = 100_000


async def no_op() -> None:
    pass


def app_of(url: str) -> App:
    app = App(url)

    @app.workflow
    async def sequence(count: int) -> int:
        for _ in range(count):
            await hf.run(no_op)
        return count

    @app.workflow
    async def sequence_then_wait(count: int) -> int:
        for _ in range(count):
            await hf.run(no_op)
        await hf.promise()
        return count

    @app.workflow
    async def wait() -> None:
        await hf.promise()

    return app


# --- what a child process does --------------------------------------------------------------------------


async def be_sequences(url: str, count: int, workflows: int) -> float:
    """Steps a second, from the first start to the last result."""
    async with app_of(url) as app:
        await app.start("sequence", 1)
        started = time.perf_counter()
        handles = [app.start("sequence", count) for _ in range(workflows)]
        assert [await handle for handle in handles] == [count] * workflows
        return workflows * count / (time.perf_counter() - started)


async def be_live(url: str, count: int, _: int) -> float:
    """Seconds a step, live. Leaves the execution `long` waiting."""
    async with app_of(url) as app:
        started = time.perf_counter()
        app.start("sequence_then_wait", count, id="long")
        await _until_suspended(url, ["long"])
        return (time.perf_counter() - started) / count


async def _until_suspended(url: str, ids: list[str]) -> None:
    """Looked up in the file itself, beside the node that writes it."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        query = "SELECT 1 FROM tasks WHERE id = ? AND state = 'suspended'"
        for task_id in ids:
            while file.execute(query, (task_id,)).fetchone() is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def be_replayed(url: str, count: int, _: int) -> float:
    """Seconds a step, from waking `long` in a new process to its end."""
    async with app_of(url) as app:
        await app.start("sequence", 1)
        started = time.perf_counter()
        await app.session.executions.settle(f"long:{count + 1}", None)
        assert await app.handle("long") == count
        return (time.perf_counter() - started) / count


async def be_suspended(url: str, count: int, _: int) -> float:
    """Resident bytes that each suspended execution costs, with the caches full: the last fifth of them."""
    async with app_of(url) as app:
        first = count * 4 // 5
        await _suspend(app, url, range(first))
        before = _resident_bytes()
        await _suspend(app, url, range(first, count))
        return (_resident_bytes() - before) / (count - first)


async def _suspend(app: App, url: str, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, 2_000):
        stop = min(start + 2_000, numbers.stop)
        for number in range(start, stop):
            app.start("wait", id=f"w{number}")
        await _until_suspended(url, [f"w{number}" for number in range(start, stop)])


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


roles: dict[str, Callable[[str, int, int], Coroutine[Any, Any, float]]] = {
    "sequences": be_sequences,
    "live": be_live,
    "replayed": be_replayed,
    "suspended": be_suspended,
}


def child(role: str, url: str, count: int, workflows: int = 1) -> float:
    command = [sys.executable, "-m", "bench.executions", "--be", role, "--url", url, "--count", str(count)]
    command += ["--workflows", str(workflows)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """`holdfast serve` on a fresh store."""
    store = f"sqlite:///{folder}/served-{time.time_ns()}.db"
    command = [sys.executable, "-m", "holdfast", "serve", "--store", store, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+:\d+", process.stdout.readline())
    assert found is not None, "the server did not start"
    try:
        yield found[0]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


# --- what is measured -----------------------------------------------------------------------------------


def fsyncs_per_s(folder: Path, count: int = 500) -> float:
    """Appends of a few hundred bytes, each followed by an fdatasync."""
    path = folder / "fsync"
    with path.open("ab", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(count):
            file.write(b"x" * 400)
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - started)


def fresh(folder: Path) -> str:
    return f"sqlite:///{folder}/embedded-{time.time_ns()}.db"


class Figures:
    """What the rounds gave, in steps a second."""

    def __init__(self) -> None:
        self.embedded: list[float] = []
        self.alone: list[float] = []
        self.served: list[float] = []
        self.fsyncs: list[float] = []
        self.dbos: list[float] = []
        self.restate: list[float] = []


def run_rounds(folder: Path, rounds: int) -> Figures:
    figures = Figures()
    for _ in range(rounds):
        figures.fsyncs.append(fsyncs_per_s(folder))
        figures.alone.append(child("sequences", fresh(folder), steps))
        figures.fsyncs[-1] = (figures.fsyncs[-1] + fsyncs_per_s(folder)) / 2
        figures.embedded.append(child("sequences", fresh(folder), steps, many))
        if peers.has_dbos():
            figures.dbos.append(peers.run_dbos(folder, many, steps // 4))
        if peers.restate_binary() is not None:
            with peers.restate(folder) as url:
                figures.restate.append(peers.run_restate(url, many, steps))
        with serving(folder) as url:
            figures.served.append(child("sequences", url, steps, many))
    return figures


def against(
    name: str, ours: Sequence[float], theirs: Sequence[float], required: float, reference: float
) -> Row:
    known = list(theirs) or [reference] * len(ours)
    ratio = statistics.median(one / other for one, other in zip(ours, known, strict=True))
    peer = f"{statistics.median(known):,.0f}" + ("" if theirs else " as of old: not installed")
    measured = f"{ratio:.1f}x ({statistics.median(ours):,.0f} to {peer} steps/s)"
    return Row(name, measured, f">= {required:g}x", ratio >= required)


def replay(folder: Path, rounds: int) -> Row:
    ratios: list[float] = []
    replayed: list[float] = []
    for _ in range(rounds):
        url = fresh(folder)
        live = child("live", url, long_steps)
        replayed.append(child("replayed", url, long_steps))
        ratios.append(replayed[-1] / live)
    ratio = statistics.median(ratios)
    measured = f"{ratio:.3f}x ({statistics.median(replayed) * 1e6:.0f} us)"
    return Row(
        f"replay of {long_steps:,} steps, a step against a live one", measured, "<= 0.1x", ratio <= 0.1
    )


def memory(folder: Path, count: int) -> Row:
    each = child("suspended", fresh(folder), count)
    name = f"{count:,} suspended executions, resident memory of each beyond the warm bound"
    return Row(name, f"{each:,.0f} B", "<= 100 B", each <= 100)


@contextmanager
def scratch() -> Generator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("HOLDFAST_BENCH_DIR", ".")) as name:
        yield Path(name).resolve()


def against_peers(rounds: int) -> list[Row]:
    missing = peers.install()
    if missing is not None:
        print(missing)
    with scratch() as folder:
        got = run_rounds(folder, rounds)
        what = f"{many} workflows of {steps} steps"
        return [
            against(f"{what}, embedded, against DBOS on SQLite", got.embedded, got.dbos, 60, dbos_per_s),
            against(f"{what}, embedded, against Restate", got.embedded, got.restate, 10, restate_per_s),
            against("one workflow of 100 steps, embedded, against fsyncs/s", got.alone, got.fsyncs, 0.6, 0),
            against(f"{what}, through HTTP, against Restate", got.served, got.restate, 6, restate_per_s),
        ]


def measure(rounds: int, count: int) -> list[Row]:
    rows = against_peers(rounds)
    with scratch() as folder:
        return [*rows, replay(folder, max(1, rounds // 2)), memory(folder, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suspended", type=int, default=suspended)
    parser.add_argument("--be", choices=[*roles], help="be the process that is measured")
    parser.add_argument("--url", default="")
    parser.add_argument("--count", type=int, default=steps)
    parser.add_argument("--workflows", type=int, default=1)
    given = parser.parse_args()
    if given.be:
        print(asyncio.run(roles[given.be](given.url, given.count, given.workflows)))
    else:
        rows = measure(given.rounds, given.suspended)
        print_table(f"executions, {os.cpu_count()} cores, Python {sys.version.split()[0]}", rows)


if __name__ == "__main__":
    main()
