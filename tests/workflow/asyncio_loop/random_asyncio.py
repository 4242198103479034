"""Random workflows that use asyncio's spellings and ours side by side.

A program is a list of moves, drawn from a seed. What it returns is a trace of everything it saw, so two runs
that differ in any order differ in their outcome.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import holdfast as hf

depth_max = 3

who: ContextVar[str] = ContextVar("who", default="nobody")


async def work(name: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return name


def quick(name: str) -> str:
    return name


def failing(name: str) -> str:
    raise ValueError(name)


class Program:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.trace: list[str] = []
        self._count = 0
        self._queue: asyncio.Queue[str] = asyncio.Queue(2)
        self._lock = asyncio.Lock()
        self._permits = asyncio.Semaphore(2)
        self._ours: hf.Queue[str] = hf.Queue()

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def _see(self, what: object) -> None:
        self.trace.append(f"{who.get()}:{what}")

    async def run(self, depth: int = 0) -> str:
        for _ in range(self._random.randint(1, 3)):
            moves = self._leaves if depth >= depth_max else self._leaves + self._branches
            move = self._random.choice(moves)
            try:
                self._see(await move(self, depth + 1))
            except (ValueError, TimeoutError, ExceptionGroup) as error:
                self._see(type(error).__name__)
        return self._name()

    # --- leaves ----------------------------------------------------------------------------------------

    async def _step(self, depth: int) -> str:
        return await hf.run(quick, self._name())

    async def _slow(self, depth: int) -> str:
        return await hf.run(work, self._name(), self._random.choice([0.5, 1, 2]))

    async def _fails(self, depth: int) -> str:
        return await hf.run(failing, self._name())

    async def _sleep(self, depth: int) -> str:
        await asyncio.sleep(self._random.choice([0, 0.25, 1, 3]))
        return self._name()

    async def _our_sleep(self, depth: int) -> str:
        await hf.sleep(self._random.choice([0.25, 1]))
        return self._name()

    async def _note(self, depth: int) -> str:
        return str(round(await hf.random(), 6))

    async def _locked(self, depth: int) -> str:
        async with self._lock, self._permits:
            return await hf.run(quick, self._name())

    async def _generated(self, depth: int) -> str:
        async def numbers() -> AsyncIterator[str]:
            try:
                for _ in range(4):
                    yield await hf.run(quick, self._name())
            finally:
                self._see("closed")

        async for number in numbers():
            if self._random.random() < 0.5:
                return number
        return "all"

    # --- branches --------------------------------------------------------------------------------------

    def _child(self, depth: int) -> Any:
        name = self._name()

        async def child() -> str:
            who.set(name)
            return await self.run(depth)

        return child()

    async def _gather(self, depth: int) -> str:
        inputs: list[Any] = [self._child(depth), hf.run(quick, self._name()), self._child(depth)]
        got = await asyncio.gather(*inputs, return_exceptions=True)
        return ",".join(map(str, got))

    async def _our_gather(self, depth: int) -> str:
        found: Any = await hf.all_settled([hf.spawn(self._child(depth)), hf.run(work, self._name(), 1)])
        return ",".join(str(each.is_ok) for each in found)

    async def _group(self, depth: int) -> str:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(self._child(depth))
            other = group.create_task(self._child(depth))
        return str(one.result() + other.result())

    async def _our_scope(self, depth: int) -> str:
        async with hf.scope() as scope:
            one = scope.spawn(self._child(depth))
            scope.spawn(self._child(depth))
        return str(await one)

    async def _timeout(self, depth: int) -> str:
        async with asyncio.timeout(self._random.choice([0.3, 1.5, 10])):
            return str(await self._child(depth))

    async def _our_timeout(self, depth: int) -> str:
        async with hf.timeout(self._random.choice([0.3, 1.5, 10])):
            return str(await self._child(depth))

    async def _wait(self, depth: int) -> str:
        tasks: list[Any] = [asyncio.ensure_future(self._child(depth)) for _ in range(3)] + [
            hf.run(quick, self._name())
        ]
        when = self._random.choice([asyncio.FIRST_COMPLETED, asyncio.ALL_COMPLETED])
        done, pending = await asyncio.wait(tasks, timeout=self._random.choice([None, 1]), return_when=when)
        for each in pending:
            each.cancel()
        return ",".join(
            [str(each.result()) for each in done if each.exception() is None] + [str(len(pending))]
        )

    async def _completed(self, depth: int) -> str:
        inputs: list[Any] = [self._child(depth), self._child(depth), hf.run(work, self._name(), 1)]
        found = [str(await each) for each in asyncio.as_completed(inputs)]
        return ",".join(found)

    async def _race(self, depth: int) -> str:
        return str(await hf.race(hf.spawn(self._child(depth)), hf.sleep(1), cancel_losers=True))

    async def _pipe(self, depth: int) -> str:
        count = self._random.randint(1, 4)

        async def fill() -> None:
            for _ in range(count):
                await self._queue.put(await hf.run(quick, self._name()))

        filling = asyncio.create_task(fill())
        got = [await self._queue.get() for _ in range(count)]
        await filling
        return ",".join(got)

    async def _shielded(self, depth: int) -> str:
        inner = asyncio.ensure_future(self._child(depth))
        try:
            return await asyncio.wait_for(asyncio.shield(inner), self._random.choice([0.3, 5]))
        except TimeoutError:
            return f"late {await inner}"

    _leaves: list[Callable[..., Awaitable[str]]] = [
        _step,
        _slow,
        _fails,
        _sleep,
        _our_sleep,
        _note,
        _locked,
        _generated,
    ]
    _branches: list[Callable[..., Awaitable[str]]] = [
        _gather,
        _our_gather,
        _group,
        _our_scope,
        _timeout,
        _our_timeout,
        _wait,
        _completed,
        _race,
        _pipe,
        _shielded,
    ]
