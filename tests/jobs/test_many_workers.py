"""Many workers on many nodes: PostgreSQL below, each worker a process with a node of its own, and kill -9.

Each task is handed out once at a time; what was killed is tried again under the right code; none is lost,
none is stuck; limits hold and do not leak. Chance comes from HOLDFAST_SEED.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import yard
from tests.jobs.test_defects import is_alive, sending_to
from tests.jobs.yard import Ledger, Line, Worker
from tests.postgres import database_url
from tests.processes import eventually
from tests.seeds import chosen_seed

SEED = chosen_seed()
KILLS = int(os.environ.get("HOLDFAST_KILLS", "6"))
within_s = 120.0


class Crowd:
    """Workers on one PostgreSQL, replaced when they are killed."""

    def __init__(self, folder: Path) -> None:
        self.url = database_url()
        self.path = folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.workers: list[Worker] = []
        self.chance = random.Random(SEED)
        self.killed: list[int] = []

    def add(self, *flags: str) -> Worker:
        worker = Worker(self.url, self.path, *flags, lease="2s")
        self.workers.append(worker)
        return worker

    def kill_one(self, *flags: str) -> None:
        """A worker that has begun something, and another in its place."""
        ready: list[Worker] = eventually(
            lambda: [worker for worker in self.workers if self.has_worked(worker)], within_s
        )
        victim = self.chance.choice(ready)
        if victim.kill():
            self.killed.append(victim.pid)
        self.workers.remove(victim)
        self.add(*flags)

    def kill_child(self) -> None:
        """Whatever child runs something."""

        def busy() -> list[Line]:
            ended = {(line.task, line.token) for line in self.ledger.lines("end")}
            begun = self.ledger.lines("begin")
            mine = {worker.pid for worker in self.workers}
            return [
                line
                for line in begun
                if (line.task, line.token) not in ended and line.pid not in mine and is_alive(line.pid)
            ]

        with suppress(ProcessLookupError, AssertionError):
            victim = self.chance.choice(eventually(busy, 5)).pid
            os.kill(victim, signal.SIGKILL)
            self.killed.append(victim)

    def has_worked(self, worker: Worker) -> bool:
        mine = {worker.pid, *worker.children()} if worker.process.poll() is None else set[int]()
        return any(line.pid in mine for line in self.ledger.lines("begin"))


@pytest.fixture
def crowd(tmp_path: Path) -> Generator[Crowd]:
    print(f"HOLDFAST_SEED={SEED}")
    found = Crowd(tmp_path)
    with sending_to(found.url):
        try:
            yield found
        finally:
            for worker in found.workers:
                worker.kill()


def results_of(handles: list[Any]) -> list[Any]:
    deadline = time.monotonic() + within_s
    return [handle.get(timeout=max(0.1, deadline - time.monotonic())) for handle in handles]


@pytest.mark.slow
def test_many_claimers_on_three_nodes_hand_each_task_out_exactly_once(crowd: Crowd) -> None:
    handles = yard.touch.send_many([(number,) for number in range(600)])
    for _ in range(3):
        crowd.add("--queues", "quick", "--concurrency", "16")
    assert [result.ok_value for result in results_of(handles)] == list(range(600))
    begun = Counter(line.task for line in crowd.ledger.lines("begin"))
    assert begun == {handle.id: 1 for handle in handles}
    assert len({line.pid for line in crowd.ledger.lines("begin")}) > 1


@pytest.mark.slow
def test_killed_workers_and_killed_children_lose_no_task_and_every_attempt_has_its_code(
    crowd: Crowd,
) -> None:
    flags = ("--queues", "quick,heavy", "--concurrency", "8", "--processes", "2", "--prefetch", "4")
    for _ in range(3):
        crowd.add(*flags)
    handles = [
        *yard.work.send_many([(0.3,)] * 100),
        *yard.crunch.send_many([(0.2,)] * 40),
    ]
    for number in range(KILLS):
        if number % 2:
            crowd.kill_child()
        else:
            crowd.kill_one(*flags)
    results = results_of(handles)
    assert all(result.is_ok for result in results), [result for result in results if result.is_err]
    check_attempts(crowd, handles)


def check_attempts(crowd: Crowd, handles: list[Any]) -> None:
    """What the ledger saw and what the queue remembers are one story."""
    begun = {(line.task, line.token): line for line in crowd.ledger.lines("begin")}
    ended = {(line.task, line.token) for line in crowd.ledger.lines("end")}
    assert len(begun) == len(crowd.ledger.lines("begin")), "one claim was run twice"
    crashes, hits = 0, 0
    for handle in handles:
        attempts = sorted(handle.info().attempts, key=lambda each: each.number)
        assert [each.number for each in attempts] == list(range(1, len(attempts) + 1))
        assert [each.error_code for each in attempts[:-1]] == ["WORKER_CRASHED"] * (len(attempts) - 1)
        assert attempts[-1].error_code is None
        assert (handle.id, attempts[-1].token) in ended
        crashes += len(attempts) - 1
        versions = {each.token for each in attempts}
        for (task, token), line in begun.items():
            if task == handle.id and (task, token) not in ended:
                assert token in versions, "a run that was cut off left no trace"
                assert line.pid in crowd.killed or not is_alive(line.pid)
                hits += 1
    print(f"{len(crowd.killed)} kills, {hits} runs cut off, {crashes} attempts crashed")
    assert crashes >= hits >= 1, "no kill hit a run: nothing was shown"


@pytest.mark.slow
def test_a_limit_holds_across_workers_and_does_not_leak_when_they_are_killed(crowd: Crowd) -> None:
    flags = ("--queues", "limited", "--concurrency", "8")
    handles = yard.narrow.send_many([(0.3,)] * 40)
    for _ in range(3):
        crowd.add(*flags)
    for _ in range(2):
        crowd.kill_one(*flags)
    assert all(result.is_ok for result in results_of(handles))
    assert most_at_once(crowd.ledger) <= yard.narrow_at_once
    assert most_at_once(crowd.ledger) == yard.narrow_at_once, "the limit was never reached"
    view = yard.limited.info()
    assert (view.pending, view.claimed, view.running) == (0, 0, 0)


def most_at_once(ledger: Ledger) -> int:
    """Of runs that came to their end, by the ledger."""
    ends = {(line.task, line.token): line.at for line in ledger.lines("end")}
    changes: list[tuple[float, int]] = []
    for line in ledger.lines("begin"):
        until = ends.get((line.task, line.token))
        if until is not None:
            changes += [(line.at, 1), (until, -1)]
    most = running = 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most
