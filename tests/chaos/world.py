"""A world under faults: a deployment, its nodes, workers behind proxies, and roots that must end well."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import Counter, defaultdict
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self, cast

from msgspec import Struct

import holdfast as hf
from holdfast.client.errors import ClientError
from tests.chaos.deployments import Deployment
from tests.chaos.processes import Node, Process, start_worker
from tests.chaos.proxy import FaultProxy
from tests.chaos.scribe import Scribe, envelope, post
from tests.chaos.workload import (
    KINDS,
    LEASE_S,
    TICK_MS,
    Ledger,
    approves,
    are_effects_of,
    arguments_of,
    open_app,
    result_of,
    schedule_of,
    tasks_of,
)
from tests.processes import eventually

WORKERS = 3
OUTSTANDING = 10
root_s_max = 90.0  # after the last fault
tick_late_ms_max = 15_000  # on a machine that may be crowded


class Tally(Struct):
    """What a round did and found."""

    roots: int = 0
    acknowledged: int = 0
    unknown: int = 0
    steps: int = 0
    repeated_tries: int = 0
    checks: int = 0
    ticks: int = 0  # of the schedule


class World:
    def __init__(
        self, deployment: Deployment, folder: Path, chance: random.Random, lease_s: float = LEASE_S
    ) -> None:
        self.deployment = deployment
        self._lease_s = lease_s
        self.folder = folder
        self.chance = chance
        self.nodes = [
            Node(f"node{index}", folder, deployment.store) for index in range(deployment.node_count)
        ]
        self.proxies = [FaultProxy(("127.0.0.1", node.port)) for node in self.nodes]
        self.ledger = Ledger(folder / "ledger.db")
        self.workers: list[Process] = []
        self.scribe = Scribe(self.nodes)
        self.roots = Roots(",".join(node.url for node in self.nodes), self.ledger)
        self.tally = Tally()

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        for proxy in self.proxies:
            proxy.__enter__()
        self._insist("schedule.create", schedule_of(self.roots.app))
        self._ticks_since_ms = _now_ms()
        self.workers = [self.new_worker() for _ in range(WORKERS)]
        self.scribe.start()
        self.roots.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.roots.abandon()
        self.scribe.stop()
        for worker in self.workers:
            worker.thaw()
            worker.kill()
        for proxy in self.proxies:
            proxy.__exit__()
        for node in self.nodes:
            node.stop()
        self.deployment.close()

    def new_worker(self) -> Process:
        urls = [proxy.url for proxy in self.proxies]
        self.chance.shuffle(urls)
        return start_worker(
            ",".join(urls), self.folder / "ledger.db", self.folder / "workers.log", self._lease_s
        )

    def held_by(self, worker: Process) -> dict[str, int]:
        """What a worker holds; its pid is part of the name under which it claims."""
        return {task: version for task, version, pid in self.deployment.held() if f"-{worker.pid}-" in pid}

    def busy_worker(self, within_s: float = 30.0) -> tuple[int, dict[str, int]]:
        """A worker that holds something, and what."""

        def look() -> Any:
            places = [*range(len(self.workers))]
            self.chance.shuffle(places)
            for place in places:
                if held := self.held_by(self.workers[place]):
                    return place, held
            return None

        found: tuple[int, dict[str, int]] = eventually(look, within_s)
        return found

    def in_flight(self) -> int:
        """Leases held and requests of the scribe under way."""
        return len(self.deployment.held()) + self.scribe.in_flight

    def takeover(self, held: dict[str, int], since: float, within_s: float = 30.0) -> float:
        """Seconds until everything that a worker held is held by others, or done."""

        def moved() -> bool:
            now = self.deployment.task_states()
            left = {task: now[task] for task in held if task in now}
            return all(
                state == "suspended" or version > held[task] for task, (state, version, _) in left.items()
            )

        eventually(moved, within_s)
        return time.monotonic() - since

    # --- what must hold ----------------------------------------------------------------------------------

    def check_now(self) -> None:
        """After each fault: the invariants, and everything acknowledged so far."""
        # What is acknowledged while we look is not in what we saw; what was acknowledged before must be.
        created, settled = len(self.scribe.created), len(self.scribe.settled)
        states = self.deployment.states()
        seen = Scribe(self.nodes)
        seen.created, seen.settled = self.scribe.created[:created], self.scribe.settled[:settled]
        assert not (lost := seen.lost(states)), f"acknowledged and lost: {lost[:10]}"
        assert not (broken := self.deployment.violations()), "\n".join(broken[:20])
        self.tally.checks += 1

    def finish(self) -> Tally:
        """No more faults: everything must come to its right end."""
        for node in self.nodes:
            node.wait_until_ready()
        ended_ms = _now_ms()
        self._insist("schedule.delete", {"id": "tick"})
        self.roots.finish(root_s_max)
        assert not self.roots.open, f"stuck: {self._stuck()}"
        self.scribe.stop()
        eventually(lambda: not self._open_tasks(), root_s_max)
        states = self.deployment.states()
        assert not (lost := self.scribe.lost(states)), f"acknowledged and lost: {lost[:10]}"
        assert not (halves := self.scribe.halves(states)), f"half an array: {halves[:10]}"
        assert not (broken := self.deployment.violations()), "\n".join(broken[:20])
        self.tally.ticks = self._check_ticks(states, ended_ms)
        self._check_effects(states)
        tries, lines = self.ledger.counts()
        tally = self.tally
        tally.roots = len(self.roots.done)
        tally.acknowledged = len(self.scribe.created) + len(self.scribe.settled)
        tally.unknown = self.scribe.unknown
        tally.steps, tally.repeated_tries = lines, tries - lines
        return tally

    def _insist(self, kind: str, data: dict[str, Any]) -> None:
        """Ask until somebody has answered."""

        def is_done() -> bool:
            try:
                status = post(self.chance.choice(self.nodes), envelope(kind, data))["head"]["status"]
            except (OSError, HTTPException):
                return False
            return status in (200, 404)

        eventually(is_done, root_s_max)

    def _stuck(self) -> dict[str, Any]:
        """What is open of the roots that did not end: their tasks, and how long their promises were given."""
        open_for, tasks = self.deployment.open_for(), self.deployment.task_states()
        return {
            key: (open_ms, tasks.get(key))
            for key, open_ms in open_for.items()
            if key.partition(":")[0] in self.roots.open
        }

    def _open_tasks(self) -> dict[str, Any]:
        return {
            task: state for task, state in self.deployment.task_states().items() if not task.startswith("w")
        }

    def _check_ticks(self, states: dict[str, str], ended_ms: int) -> int:
        """It has fired at every second while it was there; a clock that was set may have skipped some."""
        fired = sorted(int(run.partition("-")[2]) for run in states if _is_tick(run))
        if not fired:
            assert ended_ms < self._ticks_since_ms + tick_late_ms_max, "the schedule never fired"
            return 0
        assert all(instant % TICK_MS == 0 for instant in fired), fired
        if not any(node.clock_was_set for node in self.nodes):
            assert fired == [*range(fired[0], fired[-1] + 1, TICK_MS)], f"the schedule left out some: {fired}"
            assert fired[-1] > ended_ms - tick_late_ms_max, (
                f"the last was at {fired[-1]}, and it is {ended_ms}"
            )
        return len(fired)

    def _check_effects(self, states: dict[str, str]) -> None:
        entered: dict[str, list[str]] = defaultdict(list)
        for execution, what in self.ledger.lines():
            entered[execution].append(what)
        sizes = Counter(task.partition(":")[0] for task in self.deployment.tasks())
        for tick in filter(_is_tick, states):
            assert states[tick] == "resolved", f"{tick} is {states[tick]}"
            assert entered.pop(tick, []) == ["tick"], f"{tick} had other effects"
        for root in self.roots.done:
            kind, number = root.split("-")
            found = entered.pop(root, [])
            assert are_effects_of(kind, int(number), found), f"{root} had the effects {sorted(found)}"
            assert sizes[root] == tasks_of(kind), f"{root} has {sizes[root]} tasks"
            assert states[root] == "resolved", f"{root} is {states[root]}"
        assert not entered, f"effects of nobody: {entered}"
        assert not (twice := self.ledger.tried_twice()), f"one holder began a step twice: {twice}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_tick(promise_id: str) -> bool:
    return promise_id.startswith("tick-") and ":" not in promise_id


class Roots(threading.Thread):
    """Starts executions, always a few at a time, and compares each result with its closed form."""

    def __init__(self, urls: str, ledger: Ledger) -> None:
        super().__init__(name="roots", daemon=True)
        self.app = open_app(urls, ledger, worker=False)
        self._feeding = threading.Event()
        self._feeding.set()
        self._abandoned = threading.Event()
        self.done: list[str] = []
        self.wrong: list[str] = []
        self.open: set[str] = set()
        self.troubles: Counter[str] = Counter()

    def run(self) -> None:
        logging.getLogger("holdfast").setLevel(logging.CRITICAL)
        asyncio.run(self._main())

    async def _main(self) -> None:
        async with self.app:
            tasks: set[asyncio.Task[None]] = set()
            number = 0
            while not self._abandoned.is_set() and (self._feeding.is_set() or tasks):
                while self._feeding.is_set() and len(tasks) < OUTSTANDING:
                    kind = KINDS[number % len(KINDS)]
                    tasks.add(asyncio.create_task(self._root(kind, number)))
                    number += 1
                done, tasks = await asyncio.wait(tasks, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _root(self, kind: str, number: int) -> None:
        root = f"{kind}-{number}"
        self.open.add(root)
        answering = asyncio.create_task(self._answer(root, number)) if kind == "approval" else None
        try:
            result = await self._result(kind, number, root)
        except Exception as error:  # whatever it is, it is not the right result
            self.wrong.append(f"{root} ended with {type(error).__name__}: {error}")
            return
        finally:
            if answering is not None:
                answering.cancel()
            self.open.discard(root)
        if result != result_of(kind, number):
            self.wrong.append(f"{root} is {result!r}, not {result_of(kind, number)!r}")
        self.done.append(root)

    async def _result(self, kind: str, number: int, root: str) -> Any:
        while True:
            try:
                if kind == "errand":
                    return await self._errand(number, root)
                return await self.app.start(kind, *arguments_of(kind, number), id=root)
            except ClientError as error:
                self.troubles[type(error).__name__] += 1
                await asyncio.sleep(0.1)

    async def _errand(self, number: int, root: str) -> Any:
        """A background task: the same id again is the same task."""
        while True:
            sent = (
                await cast("Any", self.app.tasks.find("errand")).with_options(id=root).try_send_async(number)
            )
            result = await sent.ok_value if sent.is_ok else None
            if result is not None and result.is_ok:
                return result.ok_value
            if result is not None and not isinstance(result.err_value.error_code, hf.codes.RetrievalCode):
                return result.err_value
            self.troubles["errand"] += 1
            await asyncio.sleep(0.1)

    async def _answer(self, root: str, number: int) -> None:
        while True:
            try:
                await self.app.resolve(f"{root}:2", approves(number))
                return
            except ClientError:
                await asyncio.sleep(0.05)

    def finish(self, within_s: float) -> None:
        self._feeding.clear()
        self.join(within_s)
        assert not self.wrong, "\n".join(self.wrong[:10])

    def abandon(self) -> None:
        self._abandoned.set()
        self._feeding.clear()
        if self.ident is not None:
            self.join(30)
