"""Random programs of fibers, in both spellings, and the trace of running one.

A program is data: a tree of operations drawn from a seed. The same program is run as generators and as
coroutines, against a world that completes, fails and cancels in an order drawn from another seed. What was
seen, by which fiber, in which order, is the trace. Two runs from the same seeds must give the same trace.

Run as a script it prints one digest for a range of seeds, for comparing interpreters and hash seeds.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Coroutine, Generator
from random import Random
from typing import Any, Literal, cast

from holdfast.runtime import (
    Channel,
    Deadlock,
    Fiber,
    Operation,
    Queue,
    Semaphore,
    Signal,
    Step,
    all_settled,
    any_of,
    as_completed,
    current_fiber,
    gather,
    map_over,
    named,
    operation,
    race,
    run,
    scoped,
    select,
    shield,
    sleep,
    spawn,
    within,
)
from holdfast.runtime.testing import Hand, ManualPromise, promise
from tests.runtime.bodies import work

Form = Literal["async", "generator"]
Op = tuple[Any, ...]

LEAVES = (
    "wait",
    "wait",
    "wait",
    "sleep",
    "send",
    "receive",
    "put",
    "get",
    "join",
    "interrupt",
    "sleep",
    "fail",
    "step",
    "gets",
    "permits",
    "foreign",
)
COMBINATORS = ("gather", "race", "any", "settled", "select", "cancel_losers", "as_completed")
BLOCKS = (
    *("spawn", "spawn", "spawn", "shield", "within", "within", "scope", "permit", "map", "operation"),
    *("shield", "shielded step", "shielded scope", "timed scope", "timed shield"),
)


def draw_body(random: Random, depth: int) -> tuple[Op, ...]:
    return tuple(draw(random, depth) for _ in range(random.randint(1, 4)))


def draw(random: Random, depth: int) -> Op:
    caught = random.random() < 0.7
    kind = random.choice(LEAVES + (COMBINATORS + BLOCKS + BLOCKS if depth else ()))
    number = random.randint(0, 3)
    if kind in COMBINATORS:
        return kind, caught, tuple(draw_body(random, depth - 1) for _ in range(random.randint(1, 3)))
    if kind in ("scope", "map", "shielded scope", "timed scope"):
        return kind, caught, number, tuple(draw_body(random, depth - 1) for _ in range(random.randint(1, 3)))
    if kind in BLOCKS:
        return kind, caught, number, draw_body(random, depth - 1)
    return kind, caught, number


async def _other() -> None:
    await promise("of another execution")


class Run:
    """One run of one program in one spelling."""

    def __init__(self, seed: int, form: Form) -> None:
        self.form = form
        self.trace: list[str] = []
        self.tasks: list[Fiber[Any]] = []
        self.boxes: list[Channel[int]] = [Channel(f"box{number}") for number in range(4)]
        self.queues: list[Queue[int]] = [
            Queue(None if number % 2 else 1, f"queue{number}") for number in range(4)
        ]
        self.gates = [Semaphore(1 + number % 2, f"gate{number}") for number in range(4)]
        self.program = draw_body(Random(seed), 3)
        self.signals: dict[str, Signal] = {}
        other = Hand(_other)
        self.foreign = other.scheduler.issue(ManualPromise("foreign"))
        other.close()
        self.world = Random(seed + 1_000_003)

    def see(self, text: str) -> None:
        self.trace.append(f"{current_fiber().path}: {text}")

    def body(self, ops: tuple[Op, ...]) -> Coroutine[Any, Any, Any] | Generator[Any, Any, Any]:
        return self.as_coroutine(ops) if self.form == "async" else self.as_generator(ops)

    async def as_coroutine(self, ops: tuple[Op, ...]) -> Any:
        result: Any = None
        try:
            for op in ops:
                self.see(f"begins {op[0]}")
                try:
                    for wait in self.begin(op):
                        result = await wait
                        self.see(f"{op[0]} gave {show(result)}")
                except Exception as error:
                    self.see(f"{op[0]} raised {show(error)}")
                    if not op[1]:
                        raise
            return result
        finally:
            self.see("left")

    def as_generator(self, ops: tuple[Op, ...]) -> Generator[Any, Any, Any]:
        result: Any = None
        try:
            for op in ops:
                self.see(f"begins {op[0]}")
                try:
                    for wait in self.begin(op):
                        result = yield from cast("Generator[Any, Any, Any]", wait)
                        self.see(f"{op[0]} gave {show(result)}")
                except Exception as error:
                    self.see(f"{op[0]} raised {show(error)}")
                    if not op[1]:
                        raise
            return result
        finally:
            self.see("left")

    def begin(self, op: Op) -> Any:
        """Do the part of an operation that does not wait; return what is to be waited for, in order."""
        kind: str = op[0]
        rest: Any = op[2]
        if kind == "wait":
            return [promise(f"p{rest}")]
        if kind == "sleep":
            return [sleep(rest)]
        if kind == "fail":
            raise ValueError(f"failed {rest}")
        if kind == "send":
            self.boxes[int(rest)].send(int(rest))
            return []
        if kind == "receive":
            return [self.boxes[int(rest)].receive]
        if kind == "put":
            return [self.queues[int(rest)].put(int(rest))]
        if kind == "get":
            return [self.queues[int(rest)].get()]
        if kind == "step":
            return [run(named(f"s{rest}", work))]
        if kind == "gets":
            queue = self.queues[int(rest)]
            return [within(rest, gather(queue.get(), queue.get()))]
        if kind == "permits":
            gate = self.gates[int(rest)]
            return [race(gather(gate.acquire(), gate.acquire()), sleep(rest))]
        if kind == "foreign":
            return [self.foreign]
        if kind == "join":
            return self.tasks[rest : rest + 1]
        if kind == "interrupt":
            for task in self.tasks[rest : rest + 1]:
                task.interrupt()
            return []
        if kind in COMBINATORS:
            return self.combine(kind, [self.body(each) for each in rest])
        return self.block(kind, rest, op[3])

    def combine(self, kind: str, bodies: list[Any]) -> Any:
        if kind == "gather":
            return [gather(bodies)]
        if kind == "race":
            return [race(bodies)]
        if kind == "cancel_losers":
            return [race(bodies, cancel_losers=True)]
        if kind == "any":
            return [any_of(bodies)]
        if kind == "settled":
            return [all_settled(bodies)]
        if kind == "as_completed":
            return as_completed(bodies)
        return [select({f"branch{number}": each for number, each in enumerate(bodies)})]

    def block(self, kind: str, number: int, inner: Any) -> Any:
        if kind == "spawn":
            self.tasks.append(spawn(self.body(inner)))
            return []
        if kind == "operation":
            return [Operation(self.body, inner)]
        if kind == "shield":
            return [shield(self.body(inner))]
        if kind == "within":
            return [within(number, self.body(inner))]
        if kind == "map":
            return [map_over(self.body, list(inner), limit=1 + number % 2)]
        if kind == "permit":
            return [self.gates[number].acquire(), self.body_then_release(inner, number)]

        if kind == "shielded step":
            return [shield(gather(run(named(f"s{number}", work)), self.body(inner)))]
        if kind == "timed shield":
            return [within(number, shield(self.body(inner)))]

        def in_scope(tasks: Any) -> Any:
            for each in inner:
                self.tasks.append(tasks.spawn(self.body(each)))
            return self.body(inner[0])

        if kind == "shielded scope":
            return [shield(scoped(in_scope))]
        if kind == "timed scope":
            return [within(number, scoped(in_scope))]
        return [scoped(in_scope)]

    def body_then_release(self, inner: tuple[Op, ...], number: int) -> Any:
        return operation(self.releasing)(inner, number)

    async def releasing(self, inner: tuple[Op, ...], number: int) -> Any:
        try:
            return await Operation(self.body, inner)
        finally:
            self.gates[number].release()

    def drive(self) -> list[str]:
        with Hand(self.body(self.program)) as hand:
            for _ in range(60):
                waiting = hand.waiting
                self.trace.append(f"world: done {hand.done}, waiting {waiting}")
                if hand.done:
                    break
                self.act(hand, waiting)
                self.watch_steps(hand)
            self.trace.append(hand.scheduler.dump())
        try:
            self.trace.append(f"world: result {show(hand.result())}")
        except (Exception, Deadlock) as error:
            self.trace.append(f"world: raised {show(error)}")
        self.trace.extend(f"world: {report.trouble.name} {report.fiber}" for report in hand.reports)
        self.trace.append(f"world: issued {list(hand.issued)}")
        return self.trace

    def watch_steps(self, hand: Hand) -> None:
        """Which steps were told, and when, is part of the trace."""
        for name, issued in hand.issued.items():
            if isinstance(issued, Step) and name not in self.signals:
                signal = self.signals[name] = issued.signal
                signal.on_set(lambda name=name: self.trace.append(f"world: {name} is told"))  # type: ignore[misc]

    def act(self, hand: Hand, waiting: tuple[str, ...]) -> None:
        chance = self.world.random()
        chosen = self.world.choice(waiting)
        if chance < 0.08:
            self.trace.append("world: cancels")
            hand.cancel()
        elif chance < 0.25:
            self.trace.append(f"world: rejects {chosen}")
            hand.reject(chosen, KeyError(chosen))
        elif chance < 0.45:
            self.trace.append("world: time passes")
            hand.elapse(1)
        else:
            self.trace.append(f"world: resolves {chosen}")
            hand.resolve(chosen, chosen)


def show(value: Any) -> str:
    """A value without addresses or line numbers."""
    if isinstance(value, ExceptionGroup):
        return f"group({', '.join(show(each) for each in cast(Any, value).exceptions)})"
    if isinstance(value, Deadlock):
        return "Deadlock"
    if isinstance(value, Exception):
        return f"{type(value).__name__}({value})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(show(each) for each in cast(Any, value))}]"
    return str(value)


def without_lines(trace: list[str]) -> list[str]:
    """The trace without the file lines of dumps: those differ between the two spellings."""
    kept: list[str] = []
    for entry in trace:
        kept.extend(line for line in entry.splitlines() if not line.startswith("    File"))
    return [line.replace("as_coroutine", "body").replace("as_generator", "body") for line in kept]


def trace_of(seed: int, form: Form) -> list[str]:
    return Run(seed, form).drive()


if __name__ == "__main__":
    digest = hashlib.sha256()
    for each_seed in range(int(sys.argv[1]), int(sys.argv[2])):
        for each_form in ("async", "generator"):
            digest.update("\n".join(trace_of(each_seed, each_form)).encode())
    print(digest.hexdigest())
