"""Random workflows full of races: what they do next depends on everything they have seen so far.

Every durable operation is given the trace of all observations as an argument, so an execution that takes
another path than its record shows it at the very next operation.
"""

import asyncio
import random
import zlib
from contextlib import suppress
from typing import Any

from holdfast.app import App
from holdfast.runtime import (
    Channel,
    Queue,
    Semaphore,
    all_settled,
    any_of,
    gather,
    race,
    scope,
    select,
    spawn,
    timeout,
)
from holdfast.workflow import functions as hf

app = App()
DELAYS = (0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0)


class Oops(Exception):
    pass


EXPECTED: tuple[type[Exception], ...] = (Oops, TimeoutError, ExceptionGroup)


async def slow(tag: int, seen: int, delay: float, fails: bool) -> int:
    if delay:
        await asyncio.sleep(delay)
    if fails:
        raise Oops(str(tag))
    return tag


def quick(tag: int, seen: int) -> int:
    return tag


@app.workflow
async def child(seed: int, seen: int) -> list[str]:
    return await Program(seed, 1, calls=False).run()


@app.workflow
async def parent(seed: int) -> list[str]:
    return await Program(seed, 4, calls=True).run()


class Program:
    def __init__(self, seed: int, size: int, *, calls: bool) -> None:
        self.calls = calls
        self.chance = random.Random(seed)
        self.size = size
        self.trace: list[str] = []
        self.channel: Channel[int] = Channel()
        self.queue: Queue[int] = Queue()
        self.semaphore = Semaphore(1)
        self.ops = 0

    def see(self, what: object) -> None:
        self.trace.append(str(what))

    @property
    def seen(self) -> int:
        return zlib.crc32("|".join(self.trace).encode())

    async def run(self) -> list[str]:
        for number in range(self.size):
            await self.block(2, number)
        return self.trace

    def tag(self) -> int:
        self.ops += 1
        return self.ops

    def single(self) -> Any:
        """A future of one durable operation."""
        tag, pick = self.tag(), self.chance.random()
        delay = self.chance.choice(DELAYS)
        if pick < 0.35:
            return hf.run(slow, tag, self.seen, delay, self.chance.random() < 0.15)
        if pick < 0.5:
            return hf.run(quick, tag, self.seen)
        if pick < 0.65:
            return hf.sleep(delay)
        if pick < 0.75 and self.calls:
            return hf.call(child, self.chance.randrange(1000), self.seen)
        if pick < 0.85:
            return hf.random()
        if pick < 0.9 and self.calls:
            return hf.start(child, self.chance.randrange(1000), self.seen)
        return hf.promise(int, timeout=self.chance.choice((0.5, 1.0, 5.0)))

    async def watched(self, depth: int, number: int) -> str:
        """Do something and tell the trace about it, whatever comes of it."""
        self.see(f"+{number}")
        try:
            result = await self.block(depth - 1, number)
        except EXPECTED as error:
            result = type(error).__name__
        self.see(f"-{number}:{result}")
        return str(result)

    async def block(self, depth: int, number: int) -> Any:
        try:
            result = await self._block(depth, number)
        except EXPECTED as error:
            result = type(error).__name__
        self.see(result)
        return result

    async def _block(self, depth: int, number: int) -> Any:
        pick = self.chance.randrange(13) if depth > 0 else 0
        count = self.chance.randint(2, 3)
        if pick == 0:
            return await self.single()
        if pick == 1:
            return await gather(*[self.watched(depth, n) for n in range(count)])
        if pick == 2:
            return await race(*[self.watched(depth, n) for n in range(count)])
        if pick == 3:
            return await race(*[self.single() for _ in range(count)])
        if pick == 4:
            name, value = await select(a=self.single(), b=self.single(), c=hf.sleep(1.0))
            return f"{name}={value}"
        if pick == 5:
            return [type(each).__name__ for each in await all_settled(*[self.single() for _ in range(count)])]
        if pick == 6:
            return await any_of(*[self.single() for _ in range(count)])
        if pick == 7:
            async with timeout(self.chance.choice((0.5, 1.0, 1.5))):
                return await self.watched(depth, 7)
        if pick == 8:
            spawn(self.sender(count))
            return [await self.queue.get() for _ in range(count)]
        if pick == 9:
            async with scope() as inner:
                for n in range(count):
                    inner.spawn(self.watched(depth, n))
            return "joined"
        if pick == 10:
            return await gather(*[self.guarded(depth, n) for n in range(count)])
        if pick == 11:
            pending = [self.single() for _ in range(count)]
            await hf.run(quick, self.tag(), self.seen)
            self.chance.shuffle(pending)
            return [await each for each in pending]
        spawn(self.watched(depth, 12))
        await self.single()
        return "spawned"

    async def sender(self, count: int) -> None:
        for _ in range(count):
            with suppress(*EXPECTED):
                await self.single()
            self.see("sent")
            await self.queue.put(len(self.trace))

    async def guarded(self, depth: int, number: int) -> Any:
        async with self.semaphore:
            return await self.watched(depth, number)
