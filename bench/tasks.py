"""Measures background tasks against what was promised of them: `make bench-tasks`.

Every system runs in processes of its own beside one PostgreSQL with fsync on: two workers, no-op tasks, ours
with stored results. Rounds alternate between the systems, so that a noisy machine disturbs all alike; ratios
are taken within a round, and their median counts. Peers are installed on demand (bench/peers/queues.py).
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from bench.peers import queues
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.cli import worker
from tests.postgres import PostgresServer, execute

ours_count: Final = 20_000
procrastinate_count: Final = 2_000
celery_count: Final = 4_000
sends: Final = 2_000
callers: Final = 8
latencies: Final = 300
ahead_s: Final = 3.0
settle_s: Final = 1.5  # until PostgreSQL's statistics have seen everything
concurrency: Final = 500

begun: list[float] = []


def app_of(url: str, *, worker: bool) -> Any:
    app = App(url, worker=worker, concurrency=concurrency)

    @app.task(queue="bench", name="no_op")
    async def no_op(number: int) -> int:
        if not begun:
            begun.append(time.time())
            print(begun[0], flush=True)
        return number

    @app.task(queue="bench", name="tell_time")
    async def tell_time() -> float:
        return time.time()

    return app, no_op, tell_time


# --- what a child process does --------------------------------------------------------------------------


def be_worker(url: str) -> None:
    """As `holdfast worker` does."""
    app, *_tasks = app_of(url, worker=True)
    worker.run(app)


async def be_filler(url: str, count: int) -> None:
    """Seconds for sending so many in bulk."""
    app, no_op, _ = app_of(url, worker=False)
    async with app:
        started = time.perf_counter()
        for start in range(0, count, 1_000):
            await no_op.send_many_async([(number,) for number in range(start, min(start + 1_000, count))])
        print(time.perf_counter() - started, flush=True)


async def be_sender(url: str, count: int) -> None:
    """Seconds for sending so many one by one, by several callers."""
    app, no_op, _ = app_of(url, worker=False)
    numbers = iter(range(count))

    async def call() -> None:
        for number in numbers:
            await no_op.send_async(number)

    async with app:
        started = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        print(time.perf_counter() - started, flush=True)


async def be_asker(url: str, count: int) -> None:
    """The median of seconds from send to result, one after the other."""
    app, no_op, _ = app_of(url, worker=url.startswith("sqlite"))
    async with app:
        took: list[float] = []
        for number in range(count):
            started = time.perf_counter()
            result = await (await no_op.send_async(number))
            took.append(time.perf_counter() - started)
            assert result.ok_value == number, result
        print(statistics.median(took[count // 10 :]), flush=True)


async def be_planner(url: str, count: int) -> None:
    """The latest start after its instant, of tasks that were sent to begin some seconds later."""
    app, _, tell_time = app_of(url, worker=url.startswith("sqlite"))
    async with app:
        handles: list[Any] = []
        for _ in range(count):
            handles.append(await tell_time.schedule_async(ahead_s))
            await asyncio.sleep(0.05)
        late: list[float] = []
        for handle in handles:
            started_at = (await handle).ok_value
            late.append(started_at - (await handle.info_async()).enqueued_at.timestamp())
        assert min(late) >= 0, late
        print(max(late), flush=True)


roles: dict[str, Callable[[str, int], Coroutine[Any, Any, None]]] = {
    "filler": be_filler,
    "sender": be_sender,
    "asker": be_asker,
    "planner": be_planner,
}


def command(role: str, url: str, count: int = 0) -> list[str]:
    return [sys.executable, "-m", "bench.tasks", "--be", role, "--url", url, "--count", str(count)]


def child(role: str, url: str, count: int) -> float:
    done = subprocess.run(command(role, url, count), stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


class Workers:
    """Two worker processes."""

    def __init__(self, url: str) -> None:
        self.processes = [
            subprocess.Popen(command("worker", url), stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        queues.end(self.processes)

    def cpu_s(self) -> float:
        tick = os.sysconf("SC_CLK_TCK")
        fields = [Path(f"/proc/{process.pid}/stat").read_text().split() for process in self.processes]
        return sum(int(each[13]) + int(each[14]) for each in fields) / tick


# --- what is measured -----------------------------------------------------------------------------------


class Figures:
    """What the rounds gave, per second."""

    def __init__(self) -> None:
        self.completed: list[float] = []
        self.sent: list[float] = []
        self.sent_in_bulk: list[float] = []
        self.transactions: list[float] = []  # per task
        self.cpu_s: list[float] = []  # per task, of the workers
        self.procrastinate: list[float] = []
        self.procrastinate_sent: list[float] = []
        self.procrastinate_in_bulk: list[float] = []
        self.pgqueuer: list[float] = []
        self.celery: list[float] = []

    def tell(self) -> None:
        """The latest round, as it came."""
        shown = {name: round(values[-1], 6) for name, values in vars(self).items() if values}
        print("  ".join(f"{name} {value:,}" for name, value in shown.items()), file=sys.stderr, flush=True)


def schema_of(server: PostgresServer) -> str:
    name = f"ours{time.time_ns()}"
    execute(server.url(), f"CREATE SCHEMA {name}")
    return f"{server.url()}&{urlencode({'search_path': name})}"


def run_ours(server: PostgresServer, figures: Figures, count: int) -> None:
    url = schema_of(server)
    looker = queues.Looker(server.url())
    name = url.rpartition("=")[2]
    left = f"SELECT EXISTS (SELECT FROM {name}.tasks WHERE state <> 'fulfilled')"
    commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
    try:
        figures.sent_in_bulk.append(count / child("filler", url, count))
        time.sleep(settle_s)
        before = looker.ask(commits)
        with Workers(url) as workers:
            first = queues.first_begin(workers.processes)
            booted_s = workers.cpu_s()
            until = queues.until_none_is_left(lambda: bool(looker.ask(left)), workers.processes)
            figures.completed.append(count / (until - first))
            figures.cpu_s.append((workers.cpu_s() - booted_s) / count)
        time.sleep(settle_s)
        figures.transactions.append((looker.ask(commits) - before) / count)
        assert looker.ask(f"SELECT count(*) FROM {name}.promises WHERE state = 'resolved'") == count
        figures.sent.append(sends / child("sender", url, sends))
    finally:
        looker.close()


def run_peers(server: PostgresServer, folder: Path, figures: Figures, count: int) -> None:
    if queues.has("procrastinate"):
        peer = queues.procrastinate(server.url())
        figures.procrastinate_in_bulk.append(procrastinate_count / peer.say("fill", procrastinate_count))
        figures.procrastinate.append(peer.completed_per_s(procrastinate_count))
        figures.procrastinate_sent.append(sends / peer.say("send", sends))
    if queues.has("pgqueuer"):
        peer = queues.pgqueuer(server.url())
        peer.say("fill", count)
        figures.pgqueuer.append(peer.completed_per_s(count))
    if queues.has("celery"):
        with tempfile.TemporaryDirectory(dir=folder) as name, queues.redis(Path(name)) as url:
            figures.celery.append(queues.celery_completed_per_s(url, celery_count))


def against(name: str, ours: Sequence[float], theirs: Sequence[float], required: float) -> Row:
    if not theirs:
        return Row(name, "not installed", f">= {required:g}x", ok=False)
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    measured = f"{ratio:.2f}x ({statistics.median(ours):,.0f} to {statistics.median(theirs):,.0f}/s)"
    return Row(name, measured, f">= {required:g}x", ratio >= required)


def at_most(name: str, measured: float, limit: float, unit: str, scale: float = 1.0) -> Row:
    return Row(name, f"{measured * scale:.2f} {unit}", f"<= {limit * scale:g} {unit}", measured <= limit)


def waits(server: PostgresServer, folder: Path) -> list[Row]:
    on_file = f"sqlite:///{folder}/ours-{time.time_ns()}.db"
    rows = [
        at_most("send to result, p50, SQLite embedded", child("asker", on_file, latencies), 0.003, "ms", 1e3)
    ]
    url = schema_of(server)
    with Workers(url):
        asked = child("asker", url, latencies)
        late = child("planner", url, 20)
    rows.append(at_most("send to result, p50, PostgreSQL, idle workers", asked, 0.006, "ms", 1e3))
    rows.append(
        at_most("begins after its instant, scheduled 3 s ahead, the latest of 20", late, 0.020, "ms", 1e3)
    )
    return rows


def measure(rounds: int, count: int) -> list[Row]:
    for name in queues.packages:
        if (missing := queues.install(name)) is not None:
            print(missing)
    got = Figures()
    server = PostgresServer(durable=True).create()
    try:
        with tempfile.TemporaryDirectory(dir=os.environ.get("HOLDFAST_BENCH_DIR", ".")) as name:
            folder = Path(name).resolve()
            for _ in range(rounds):
                run_ours(server, got, count)
                run_peers(server, folder, got, count)
                got.tell()
            waited = waits(server, folder)
    finally:
        server.remove()
    transactions = statistics.median(got.transactions)
    return [
        against("completed on PostgreSQL, against procrastinate", got.completed, got.procrastinate, 8),
        against("completed, against pgqueuer (no results)", got.completed, got.pgqueuer, 1.1),
        against("completed, against Celery with Redis (not durable)", got.completed, got.celery, 3),
        against("sent one by one, 8 callers, against procrastinate", got.sent, got.procrastinate_sent, 2),
        against("sent in bulk, against procrastinate", got.sent_in_bulk, got.procrastinate_in_bulk, 3),
        *waited,
        at_most("database transactions a task, under load", transactions, 0.2, ""),
        at_most("CPU of the workers a task", statistics.median(got.cpu_s), 150e-6, "us", 1e6),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=ours_count)
    parser.add_argument("--be", choices=["worker", *roles], help="be the process that is measured")
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    if given.be == "worker":
        be_worker(given.url)
    elif given.be:
        asyncio.run(roles[given.be](given.url, given.count))
    else:
        rows = measure(given.rounds, given.count)
        print_table(f"tasks, {os.cpu_count()} cores, Python {sys.version.split()[0]}", rows)


if __name__ == "__main__":
    main()
