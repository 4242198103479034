"""A simulated disk: what survives a node's death, and how long writing takes.

1. A commit takes place at one instant, between a wait before it and a wait before its caller hears of it. A
   node that dies in the first wait has written nothing, one that dies in the second everything.
2. A commit that fails has changed nothing, or everything and nobody knows: the caller hears the same.
3. The shared store is one that many nodes use: it judges the time, and its nodes call to each other by a bus
   that may lose, delay and double what is said. Its transactions are atomic; whose comes first is open.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.engine import Rules, WorkingSet
from holdfast.engine.view import view_promise
from holdfast.node.group import CommitOutcome
from holdfast.protocol.records import Millis
from holdfast.store.interface import Bus, LoadAll, Now, Result, Save, Step, StoreError, Work
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import SqliteFile
from holdfast.testing.faults import Faults
from holdfast.testing.loop import JumpingLoop, Process

slow_s = (0.2, 5.0)
parallel_groups_shared = 4


class _JudgingStore(MemoryStore):
    """As PostgreSQL does, it says itself what time it is."""

    def __init__(self, clock: Callable[[], Millis]) -> None:
        super().__init__()
        self._judge = clock

    async def open(self) -> Millis:
        return self._judge()

    def _perform(self, step: Step) -> Any:
        return self._judge() if isinstance(step, Now) else super()._perform(step)


class Disk:
    """What is left when every process is dead."""

    def __init__(self, loop: JumpingLoop, faults: Faults, folder: Path) -> None:
        self.loop = loop
        self.faults = faults
        self.kind = faults.plan.store
        self.path = folder / "holdfast.db"
        self.hub = Hub(loop, faults)
        self.memory = _JudgingStore(loop.millis) if self.kind == "shared" else MemoryStore()
        self.file: SqliteFile | None = None  # while a node has it open
        self.commits = 0
        self.latest: Millis = 0  # of the instants of commits

    def attach(self, process: Process) -> "AttachedStore":
        return AttachedStore(self, process)

    def read(self) -> MemoryStore:
        """Everything that is stored."""
        if self.kind != "sqlite":
            return self.memory
        if self.file is not None:  # a second connection would have to wait for the first
            return _copy(self.file.run(_load_all))
        file = SqliteFile(self.path, stopwatch=self.loop.time)
        file.open()
        try:
            return _copy(file.run(_load_all))
        finally:
            file.close()


def view_of(store: MemoryStore, now: Millis) -> MemoryStore:
    """As every caller sees it at this instant, for whoever looks later."""
    copy = MemoryStore()
    copy.promises = {
        key: view_promise(promise, now, store.tasks.get(key)) for key, promise in store.promises.items()
    }
    copy.tasks = dict(store.tasks)
    copy.branches = {branch: dict(members) for branch, members in store.branches.items()}
    return copy


def _load_all() -> Work[WorkingSet]:
    ws = WorkingSet(Rules())
    yield LoadAll(ws)
    return ws


def _copy(ws: WorkingSet) -> MemoryStore:
    """As a store of dictionaries, in the order of ids."""
    for key, promise in sorted(ws.promises.items()):
        if promise is not None:
            ws.changed_promises[key] = None
            ws.added_callbacks.update({(key, awaiter): None for awaiter in ws.callbacks.get(key, {})})
            listeners = ws.listeners.get(key, {})
            ws.added_listeners.update({(key, address): listener for address, listener in listeners.items()})
    ws.changed_tasks.update({key: False for key, task in sorted(ws.tasks.items()) if task is not None})
    ws.changed_schedules.update(dict.fromkeys(sorted(ws.schedules)))
    ws.changed_queues.update(dict.fromkeys(sorted(ws.queues)))
    copy = MemoryStore()
    copy.run(lambda: _save(ws))
    return copy


def _save(ws: WorkingSet) -> Work[None]:
    yield Save(ws, None)


class AttachedStore:
    """One process's way to the disk."""

    def __init__(self, disk: Disk, process: Process) -> None:
        shared = disk.kind == "shared"
        self.parallel_groups = parallel_groups_shared if shared else 1
        self.keeps_time = shared
        self.bus: Bus | None = SimulatedBus(disk.hub, process) if shared else None
        self._disk = disk
        self._process = process
        self._turns = asyncio.Semaphore(self.parallel_groups)
        self._file = SqliteFile(disk.path, stopwatch=disk.loop.time) if disk.kind == "sqlite" else None
        self._writing = 0
        self._answering = 0
        process.on_death.append(self._died)

    async def open(self) -> Millis:
        if self._file is None:
            return await self._disk.memory.open()
        self._disk.file = self._file
        return self._file.open()

    async def close(self) -> None:
        self._detach()

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        async with self._turns:
            faults, name = self._disk.faults, self._process.name
            wait_s = faults.plan.disk_s * faults.chance.random()
            if faults.strikes("disk slow", name):
                wait_s = faults.chance.uniform(*slow_s)
            self._writing += 1
            await asyncio.sleep(wait_s)
            self._writing -= 1
            if faults.strikes("commit failed", name):
                raise StoreError("The disk is full")
            result = self._file.run(work) if self._file is not None else self._disk.memory.run(work)
            self._disk.commits += 1
            if isinstance(result, CommitOutcome):
                self._disk.latest = max(self._disk.latest, result.now)
            if faults.strikes("commit unknown", name):
                raise StoreError("The disk did not say whether it has it")
            self._answering += 1
            await asyncio.sleep(faults.plan.disk_s * faults.chance.random())
            self._answering -= 1
            return result

    def _died(self) -> None:
        if self._writing:
            self._disk.faults.count("killed before a commit", self._process.name)
        if self._answering:
            self._disk.faults.count("killed between a commit and its reply", self._process.name)
        self._detach()

    def _detach(self) -> None:
        if self._file is not None:
            self._file.close()
            if self._disk.file is self._file:
                self._disk.file = None


class Hub:
    """Who listens to the calls of the nodes."""

    def __init__(self, loop: JumpingLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.buses: list[SimulatedBus] = []

    def carry(self, text: str, to: "SimulatedBus") -> None:
        faults, name = self.faults, to.process.name
        if faults.strikes("call lost", name):
            return
        for _ in range(2 if faults.strikes("call doubled", name) else 1):
            delay_s = faults.plan.latency_s * faults.chance.random()
            if faults.strikes("call delayed", name):
                delay_s = faults.chance.uniform(*slow_s)
            self.loop.call_later(delay_s, to.hear, text, context=to.process.context)


class SimulatedBus:
    text_bytes_max = 7_900

    def __init__(self, hub: Hub, process: Process) -> None:
        self.process = process
        self._hub = hub
        self._hear: Callable[[str], None] | None = None
        self._missed: Callable[[], None] | None = None
        process.on_death.append(self._leave)

    async def start(self, hear: Callable[[str], None], missed: Callable[[], None]) -> None:
        self._hear, self._missed = hear, missed
        self._hub.buses.append(self)

    def hear(self, text: str) -> None:
        if self._hear is not None:
            self._hear(text)

    async def say(self, texts: Sequence[str]) -> None:
        await asyncio.sleep(self._hub.faults.plan.latency_s)
        for text in texts:
            for bus in [*self._hub.buses]:
                self._hub.carry(text, bus)

    def reconnect(self) -> None:
        if self._missed is not None:
            self._hub.loop.call_later(1.0, self._missed)

    async def stop(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self._hear = None
        if self in self._hub.buses:
            self._hub.buses.remove(self)
