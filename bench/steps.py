"""What performing a step costs, beside what asyncio takes for the same hop. Run it with `make bench-steps`.

Each round measures everything once, so that the machine's mood cancels out of the ratios; the best round
gives the times, the median round the ratios. The function does nothing: all of it is overhead. Nothing is
recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter
from typing import Any

from bench.table import Row, print_table
from holdfast.payloads.payloads import Payloads
from holdfast.runtime import Signal, Step
from holdfast.steps.runner import Mode, StepCall, StepOutcome, StepRunner

ROUNDS = 9
STEPS = 1000
PROCESS_STEPS = 100

Case = Callable[[int], Awaitable[Any]]


def nothing() -> int:
    return 1


async def nothing_async() -> int:
    return 1


def one_by_one(runner: StepRunner, function: Callable[[], Any], mode: Mode) -> Case:
    above = Signal()

    async def run(times: int) -> None:
        for _ in range(times):
            outcome: asyncio.Future[StepOutcome] = runner.loop.create_future()
            runner.start(StepCall(Step("nothing", function, (), {}, above), mode=mode), outcome.set_result)
            (await outcome).result()

    return run


def at_once(runner: StepRunner, function: Callable[[], Any], mode: Mode) -> Case:
    above = Signal()

    async def run(times: int) -> None:
        for _ in range(times):
            runner.start(
                StepCall(Step("nothing", function, (), {}, above), mode=mode),
                lambda outcome: outcome.result(),
            )
        await runner.drain()

    return run


async def executor(times: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(times):
        await loop.run_in_executor(None, nothing)


async def task(times: int) -> None:
    for _ in range(times):
        await asyncio.create_task(nothing_async())


async def payload(times: int) -> None:
    payloads = Payloads()
    for _ in range(times):
        payloads.decode(payloads.encode({"id": 7, "name": "tea"}), dict[str, int | str])


async def measure() -> dict[str, list[float]]:
    runner = StepRunner()
    cases: dict[str, tuple[Case, int]] = {
        "executor": (executor, STEPS),
        "task": (task, STEPS),
        "thread": (one_by_one(runner, nothing, "thread"), STEPS),
        "threads": (at_once(runner, nothing, "thread"), STEPS),
        "async": (one_by_one(runner, nothing_async, "async"), STEPS),
        "asyncs": (at_once(runner, nothing_async, "async"), STEPS),
        "inline": (at_once(runner, nothing, "inline"), STEPS),
        "process": (one_by_one(runner, nothing, "process"), PROCESS_STEPS),
        "payload": (payload, STEPS),
    }
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (case, times) in cases.items():
            began = perf_counter()
            await case(times)
            taken[name].append((perf_counter() - began) / times * 1e6)
    await runner.close()
    return taken


def main() -> None:
    taken = asyncio.run(measure())
    best = {name: min(times) for name, times in taken.items()}

    def ratio(name: str, unit: str) -> float:
        return median(mine / its for mine, its in zip(taken[name], taken[unit], strict=True))

    def at_most(what: str, name: str, limit_us: float) -> Row:
        return Row(what, f"{best[name]:.1f} us", f"<= {limit_us:g} us", best[name] <= limit_us)

    thread_ratio, task_ratio = ratio("thread", "executor"), ratio("async", "task")
    print_table(
        "Performing a step that does nothing",
        [
            at_most("in a thread, one by one", "thread", 60),
            at_most("in threads, 1000 at once", "threads", 30),
            at_most("as a task, one by one", "async", 30),
            at_most("as tasks, 1000 at once", "asyncs", 15),
            at_most("inline", "inline", 15),
            at_most("in a process, one by one", "process", 500),
            at_most("payload of a small dict, there and back", "payload", 10),
            Row("thread against run_in_executor", f"{thread_ratio:.2f}x", "<= 1x", thread_ratio <= 1),
            Row("task against a bare asyncio task", f"{task_ratio:.2f}x", "<= 3x", task_ratio <= 3),
        ],
    )


if __name__ == "__main__":
    main()
