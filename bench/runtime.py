"""What the runtime costs, as ratios taken within one run so that the machine's mood cancels out.

Every round measures everything once, one thing after the other; a ratio is formed within each round and the
median over the rounds is reported. The unit is a bare `generator.send`: the least that any switch between two
strands of Python code can cost. Run it with `make bench-runtime`.

Not measured here: recording anything. The world of this bench hands out ids and forgets.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Generator
from statistics import median
from time import process_time

from bench.table import Row, print_table
from holdfast.runtime import Channel, Future, Report, Scheduler, current, gather, spawn

ROUNDS = 15


IDS = [str(number) for number in range(50_000)]


class Oblivious:
    """A world that only hands out ids."""

    def __init__(self) -> None:
        self._next = iter(IDS).__next__

    def issue(self, operation: object, /) -> str:
        return self._next()

    def report(self, report: Report, /) -> None:
        raise AssertionError(report)


def promise() -> Future[int]:
    return current().issue("promise")


def bare_send(times: int) -> None:
    def strand() -> Generator[None, None, None]:
        while True:
            yield

    send = strand().send
    send(None)
    for _ in range(times):
        send(None)


def durable_awaits(times: int) -> None:
    async def strand() -> None:
        for _ in range(times):
            await promise()

    scheduler = Scheduler(Oblivious())
    scheduler.start(strand)
    resolve = scheduler.resolve
    for promise_id in IDS[:times]:
        resolve(promise_id, 1)
    assert scheduler.done
    scheduler.close()


def spawns_and_joins(times: int) -> None:
    async def child(number: int) -> int:
        return number

    async def parent() -> int:
        tasks = [spawn(child, number) for number in range(times)]
        return sum(await gather(tasks))

    scheduler = Scheduler(Oblivious())
    scheduler.start(parent)
    assert scheduler.result() == times * (times - 1) // 2
    scheduler.close()


def settled_awaits(times: int) -> None:
    async def strand() -> None:
        channel = Channel[int]()
        channel.send(1)
        future = channel.receive
        for _ in range(times):
            await future

    scheduler = Scheduler(Oblivious())
    scheduler.start(strand)
    assert scheduler.done
    scheduler.close()


def parked_fibers(fibers: int) -> None:
    async def child() -> int:
        return await promise()

    async def parent() -> int:
        return sum(await gather([spawn(child) for _ in range(fibers)]))

    scheduler = Scheduler(Oblivious())
    scheduler.start(parent)
    for promise_id in IDS[:fibers]:
        scheduler.resolve(promise_id, 1)
    assert scheduler.result() == fibers
    scheduler.close()


def asyncio_awaits(times: int) -> None:
    async def strand() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(times):
            future: asyncio.Future[int] = loop.create_future()
            loop.call_soon(future.set_result, 1)
            await future

    asyncio.run(strand())


def nanoseconds(measure: Callable[[int], None], times: int, repeat: int = 1) -> float:
    """CPU time of one unit. The collector is emptied first, then left on, as in production."""
    gc.collect()
    began = process_time()
    for _ in range(repeat):
        measure(times)
    return (process_time() - began) / times / repeat * 1e9


def measure() -> tuple[list[Row], str]:
    """The rows, and what each thing took."""
    rounds: list[tuple[float, ...]] = []
    costs: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        send = nanoseconds(bare_send, 200_000)
        durable = nanoseconds(durable_awaits, 20_000)
        join = nanoseconds(spawns_and_joins, 1_000, 10)
        settled = nanoseconds(settled_awaits, 50_000)
        parked_1k = nanoseconds(parked_fibers, 1_000, 10)
        parked_10k = nanoseconds(parked_fibers, 10_000)
        theirs = nanoseconds(asyncio_awaits, 10_000)
        costs.append((send, durable, join, settled, parked_1k, parked_10k, theirs))
        rounds.append((durable / send, join / send, settled / send, parked_10k / parked_1k, durable / theirs))
    names = (
        ("one durable await: park, dispatch, wake, advance", 40.0),
        ("spawn + join, per fiber", 55.0),
        ("await of a settled local future", 12.0),
        ("per fiber, 10,000 parked against 1,000", 1.3),
        ("one durable await against asyncio's call_soon", 0.6),
    )
    rows = [
        Row(name, f"{value:.2f}x", f"at most {most}x", value <= most)
        for (name, most), value in zip(names, map(median, zip(*rounds, strict=True)), strict=True)
    ]
    labels = ("send", "durable await", "spawn + join", "settled await", "parked 1k", "parked 10k", "asyncio")
    medians = (f"{median(column):.0f}" for column in zip(*costs, strict=True))
    return rows, "in ns: " + ", ".join(f"{label} {cost}" for label, cost in zip(labels, medians, strict=True))


def main() -> int:
    rows, costs = measure()
    print_table(f"runtime, CPython {sys.version.split()[0]}, median of {ROUNDS} rounds", rows)
    print(costs)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
