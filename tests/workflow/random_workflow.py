"""Random workflows, and what must hold of them however often they are interrupted.

A program is data, drawn from a seed: fibers, races, queues, timeouts, steps of random length, timers,
promises that somebody settles at some time, calls, notes. While it runs it keeps a digest of everything it
has seen, in order, and passes it to every effect. So two runs that took different paths give different
arguments to the same effect, and an effect begun on a path that a later incarnation does not take is found.
"""

import asyncio
import hashlib
from random import Random
from typing import Any, cast

from holdfast.runtime import (
    Fiber,
    Queue,
    all_settled,
    any_of,
    gather,
    race,
    scoped,
    select,
    shield,
    spawn,
    within,
)
from holdfast.workflow import functions as hf
from tests.workflow.world import World

Op = tuple[Any, ...]

LEAVES = (
    "step",
    "step",
    "step",
    "step",
    "sleep",
    "promise",
    "promise",
    "note",
    "note",
    "call",
    "start",
    "put",
    "get",
    "join",
    "interrupt",
    "cancel",
    "fail",
)
COMBINATORS = ("gather", "race", "any", "settled", "select", "cancel_losers")
BLOCKS = ("spawn", "spawn", "shield", "within", "scope")


def draw_body(random: Random, depth: int) -> tuple[Op, ...]:
    return tuple(draw(random, depth) for _ in range(random.randint(1, 4)))


def draw(random: Random, depth: int) -> Op:
    caught = random.random() < 0.8
    kind = random.choice(LEAVES + (COMBINATORS + BLOCKS) * 2 if depth else LEAVES)
    number = random.randint(0, 3)
    if kind in COMBINATORS or kind == "scope":
        return kind, caught, number, tuple(draw_body(random, depth - 1) for _ in range(random.randint(1, 3)))
    if kind in BLOCKS:
        return kind, caught, number, draw_body(random, depth - 1)
    return kind, caught, number


class Ledger:
    """Every effect that was ever begun: by execution and number, what it was given."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.begun: dict[str, str] = {}
        self.performed = 0
        self.faults: list[str] = []

    async def perform(self, promise_id: str, digest: str, fails: bool) -> int:
        self.performed += 1
        stored = self.world.store.promises.get(promise_id)
        if stored is not None and stored.state != "pending":
            self.faults.append(f"{promise_id} was performed again after it was recorded")
        if self.begun.setdefault(promise_id, digest) != digest:
            self.faults.append(f"{promise_id} was begun on two different paths")
        await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.1, 1, 5)))
        if fails:
            raise ValueError(promise_id)
        return self.random.randrange(1_000_000)


class Incarnation:
    """One run of the code of one execution, from its beginning."""

    def __init__(self, program: tuple[Op, ...], ledger: Ledger) -> None:
        self.program = program
        self.ledger = ledger
        self.trace: list[str] = []
        self.digest = hashlib.sha256()
        self.root = hf.current().id
        self.issued = 0
        self.tasks: list[Fiber[Any]] = []
        self.promises: list[str] = []
        self.queues = [Queue[Any](None if number % 2 else 1, f"queue{number}") for number in range(4)]

    def see(self, text: str) -> None:
        self.trace.append(text)
        self.digest.update(text.encode())

    def next_id(self) -> str:
        self.issued += 1
        separator = "." if ":" in self.root else ":"
        return f"{self.root}{separator}{self.issued}"

    async def run(self) -> str:
        result = await self.body(self.program, "0")
        return f"{show(result)} after {self.digest.hexdigest()}"

    async def body(self, ops: tuple[Op, ...], path: str) -> Any:
        result: Any = None
        try:
            for index, op in enumerate(ops):
                self.see(f"{path} begins {op[0]}")
                try:
                    result = await self.perform(op, f"{path}.{index}")
                    self.see(f"{path} {op[0]} gave {show(result)}")
                except Exception as error:
                    self.see(f"{path} {op[0]} raised {type(error).__name__}")
                    if not op[1]:
                        raise
            return result
        finally:
            self.see(f"{path} left")

    async def perform(self, op: Op, path: str) -> Any:
        kind, number = op[0], op[2]
        if kind in COMBINATORS:
            return await self.combine(kind, [self.body(each, f"{path}/{n}") for n, each in enumerate(op[3])])
        if kind in BLOCKS:
            return await self.block(kind, number, op[3], path)
        return await self.leaf(kind, number)

    async def leaf(self, kind: str, number: int) -> Any:
        match kind:
            case "step":
                promise_id = self.next_id()
                return await hf.run(
                    self.ledger.perform,
                    promise_id,
                    self.digest.hexdigest(),
                    number == 3 and self.issued % 2 == 0,
                )
            case "sleep":
                self.next_id()
                return await hf.sleep(int(self.digest.hexdigest()[:3], 16) / 500)
            case "promise":
                self.promises.append(self.next_id())
                return await hf.promise(timeout=60 if number == 0 else None)
            case "note":
                self.next_id()
                return await hf.random() if number % 2 else (await hf.now()).timestamp()
            case "call":
                self.next_id()
                return await hf.call("child", self.digest.hexdigest(), number)
            case "start":
                self.next_id()
                return await hf.start("child", self.digest.hexdigest(), number)
            case "put":
                return await self.queues[number].put(self.issued)
            case "get":
                return await self.queues[number].get()
            case "join":
                return await self.tasks[number] if number < len(self.tasks) else None
            case "interrupt":
                for task in self.tasks[number : number + 1]:
                    task.interrupt()
                return None
            case "cancel":
                if number < len(self.promises):
                    self.next_id()
                    return await hf.cancel(self.promises[number])
                return None
            case _:
                raise ValueError(f"failed {number}")

    async def combine(self, kind: str, bodies: list[Any]) -> Any:
        match kind:
            case "gather":
                return await gather(bodies)
            case "race":
                return await race(bodies)
            case "cancel_losers":
                return await race(bodies, cancel_losers=True)
            case "any":
                return await any_of(bodies)
            case "settled":
                return await all_settled(bodies)
            case _:
                return await select({f"branch{number}": each for number, each in enumerate(bodies)})

    async def block(self, kind: str, number: int, inner: Any, path: str) -> Any:
        if kind == "spawn":
            self.tasks.append(spawn(self.body(inner, f"{path}/s")))
            return None
        if kind == "shield":
            return await shield(self.body(inner, f"{path}/h"))
        if kind == "within":
            self.next_id()  # of its timer
            return await within(number + 0.5, self.body(inner, f"{path}/w"))

        def in_scope(tasks: Any) -> Any:
            for index, each in enumerate(inner):
                self.tasks.append(tasks.spawn(self.body(each, f"{path}/c{index}")))
            return self.body(inner[0], f"{path}/r")

        return await scoped(in_scope)


def show(value: Any) -> str:
    if isinstance(value, Exception):
        return type(value).__name__
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(show, cast('list[Any]', value)))}]"
    if hasattr(value, "value"):
        return f"{type(value).__name__}({show(value.value)})"
    if hasattr(value, "error"):
        return f"{type(value).__name__}({show(value.error)})"
    return str(value)
