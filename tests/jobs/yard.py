"""A yard of tasks, as a user would write them, for workers in processes of their own.

Each attempt leaves lines in a ledger outside: `begin` and `end`, with the task's id, the attempt, the token
and the process. Workers are the console's: `holdfast worker tests.jobs.yard:app`. Where the store is and how
long a lease is comes from the environment.
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import holdfast as hf
from tests.processes import environment

lease = os.environ.get("YARD_LEASE", "1500ms")
app = hf.App(os.environ.get("YARD_URL", "sqlite:///yard.db"), lease=lease, worker=False)
patient = hf.Retry.fixed([0.05] * 20, jitter=0)


class Line(NamedTuple):
    task: str
    what: str
    attempt: int
    token: int
    pid: int
    at: float


class Ledger:
    """Outside of everything that is tested: a file that all processes write to."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        with closing(self._open()) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(
                "CREATE TABLE IF NOT EXISTS lines "
                "(task TEXT, what TEXT, attempt INTEGER, token INTEGER, pid INTEGER, at REAL)"
            )

    def _open(self) -> sqlite3.Connection:
        file = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        file.execute("PRAGMA synchronous = OFF")  # it must survive kills, not power cuts
        return file

    def enter(self, what: str) -> None:
        here = hf.current()
        line = Line(here.id, what, here.attempt, here.token, os.getpid(), time.time())
        with closing(self._open()) as file:
            file.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", line)

    def lines(self, what: str | None = None, task: str | None = None) -> list[Line]:
        with closing(self._open()) as file:
            found = [Line(*row) for row in file.execute("SELECT * FROM lines ORDER BY at")]
        return [line for line in found if what in (None, line.what) and task in (None, line.task)]


ledger = Ledger(os.environ["YARD_LEDGER"]) if "YARD_LEDGER" in os.environ else None


def note(what: str) -> None:
    assert ledger is not None
    ledger.enter(what)


@app.task(queue="quick")
async def double(number: int) -> int:
    return number * 2


@app.task(queue="quick")
async def touch(number: int) -> int:
    note("begin")
    return number


@app.task(queue="quick", retry=patient)
def work(seconds: float) -> int:
    """In a thread."""
    note("begin")
    time.sleep(seconds)
    note("end")
    return os.getpid()


@app.task(queue="quick", retry=hf.Retry(delay=0.05, attempts=5, retry_for=["SMTP_DOWN"]))
def mail(seconds: float) -> int:
    """The same, retried for a code that a death does not have."""
    return work.function(seconds)


@app.task(queue="quick")
def fragile(seconds: float) -> int:
    """The same without a retry."""
    return work.function(seconds)


@app.task(queue="quick", retry=patient)
async def wait(seconds: float) -> int:
    """On the loop."""
    note("begin")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("end")
    return os.getpid()


@app.workflow
async def delegate(seconds: float) -> int:
    """Who did the work."""
    return (await hf.call(work, seconds)).ok_value


@app.task(queue="heavy", mode="process", retry=patient)
def crunch(seconds: float) -> int:
    """In a child."""
    note("begin")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    note("end")
    return os.getpid()


@app.task(queue="heavy", mode="process")
def crunch_once(seconds: float) -> int:
    return crunch.function(seconds)


@app.task(queue="heavy", mode="process", time_limit=0.3)
def crunch_limited(seconds: float) -> int:
    return crunch.function(seconds)


@app.task(queue="heavy", mode="process")
def whoami() -> tuple[str, int, int, bool]:
    here = hf.current()
    return here.id, here.attempt, here.token, here.signal.is_set


class Oops(Exception):
    pass


@app.task(queue="heavy", mode="process", exception_codes={Oops: "OOPS"})
def oops() -> None:
    raise Oops("from a child")


narrow_at_once = 3
limited = app.queue("limited", concurrency=narrow_at_once)


@app.task(queue="limited", retry=patient)
def narrow(seconds: float) -> None:
    note("begin")
    time.sleep(seconds)
    note("end")


@app.task(queue="planned", retry=patient)
def planned() -> None:
    """Fails at first, each time it is due."""
    note("begin")
    if hf.current().attempt == 1:
        raise Oops("not yet")


if "YARD_PLANS" in os.environ:
    app.schedule(every="1s", id="plan")(planned)


class Worker:
    """`holdfast worker tests.jobs.yard:app`, in a process of its own."""

    def __init__(self, url: str, ledger: Path, *flags: str, lease: str = lease, **extra: str) -> None:
        command = [sys.executable, "-m", "holdfast", "worker", "tests.jobs.yard:app", *flags]
        env = environment({"YARD_URL": url, "YARD_LEDGER": str(ledger), "YARD_LEASE": lease, **extra})
        self._log = ledger.with_suffix(".log").open("a")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=self._log)

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> bool:
        """True if it was alive."""
        was_alive = self.process.poll() is None
        self.process.kill()
        self.process.wait()
        self._log.close()
        return was_alive

    def finish(self, within_s: float = 60.0) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(within_s)
        self._log.close()
        return code

    def children(self) -> list[int]:
        """The processes in which its tasks run."""
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in listed]
