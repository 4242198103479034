"""Callers that fight for the same promises through several nodes, and remember what they saw."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from holdfast.protocol.records import Value
from holdfast.protocol.requests import PromiseSettle, Request, TaskFulfill, TaskRelease
from holdfast.protocol.requests.promises import SettleAction
from tests.cluster.linearizability import NEVER, Operation
from tests.requests import acquire, ask, create, get, settle

History = dict[str, list[Operation]]

KINDS = (
    "create",
    "create",
    "get",
    "get",
    "acquire",
    "acquire",
    "acquire",
    "release",
    "release",
    "fulfil",
    "settle",
)


told_s = 25.0  # below every fallback: a task is offered again after 30 s, nodes look around after 60 s
SHORT = 12  # operations of a caller in a round


def request_of(kind: str, name: str, argument: Any, pid: str) -> Request:
    match kind:
        case "create":
            return create(name, target="poll://any@nobody")
        case "get":
            return get(name)
        case "settle":
            return settle(name, argument)
        case "acquire":
            return acquire(name, argument, pid=pid)
        case "release":
            return ask(TaskRelease(name, argument[0]))
        case _:
            action = SettleAction(PromiseSettle(name, "resolved", Value(data=argument[1])))
            return ask(TaskFulfill(name, argument[0], action))


def result_of(kind: str, reply: Any) -> tuple[Any, ...] | None:
    """What a caller saw; None when the node itself does not know (503)."""
    if reply.status >= 500:
        return None
    if reply.status != 200:
        return (reply.status,)
    if kind in ("acquire", "release"):
        return (200,)
    promise = reply.data.promise
    return (200, promise.state, promise.value.data if promise.state == "resolved" else None)


class Asked(Protocol):
    """A node, or a client of one."""

    async def request(self, requests: Sequence[Request]) -> Sequence[Any]: ...


class Caller:
    """Asks at random. What versions there are, callers tell each other; it may be old when it is used."""

    def __init__(
        self, name: str, node: Asked, chance: random.Random, history: History, versions: dict[str, int]
    ) -> None:
        self.name = name
        self._node = node
        self._chance = chance
        self._history = history
        self._versions = versions
        self._number = 0

    async def run(self, names: Sequence[str], count: int) -> None:
        for _ in range(count):
            name = self._chance.choice(names)
            kind = self._chance.choice(KINDS)
            ends = kind in ("fulfil", "settle")
            # A promise that settles early leaves nothing to fight for: the longer the round, the later.
            if (kind == "settle" and self._chance.random() < 0.7) or (
                ends and self._chance.random() > SHORT / count
            ):
                kind = "get"
            await self.ask(kind, name)

    async def ask(self, kind: str, name: str) -> None:
        self._number += 1
        version = max(0, self._versions[name] - (self._chance.random() < 0.1))
        value = f"{self.name}.{self._number}"
        argument: Any = {
            "acquire": version,
            "release": (version, None),
            "fulfil": (version, value),
            "settle": value,
        }.get(kind)
        asked_at = time.monotonic()
        [reply] = await self._node.request([request_of(kind, name, argument, self.name)])
        result = result_of(kind, reply)
        answered_at = NEVER if result is None else time.monotonic()
        self._history[name].append(Operation(kind, argument, result, asked_at, answered_at))
        if kind == "acquire" and result == (200,):
            self._versions[name] = version + 1


async def play(
    nodes: Sequence[Asked],
    seed: int,
    *,
    rounds: int,
    callers: int = 3,
    each: int = SHORT,
    until: asyncio.Event | None = None,
) -> History:
    """In every round all callers of all nodes work on the same few promises at once. With `until`, as many
    rounds more as it takes for that to happen."""
    history: History = defaultdict(list)
    versions: dict[str, int] = defaultdict(int)
    chance = random.Random(seed)
    for number in count():
        if number >= rounds and (until is None or until.is_set()):
            break
        names = [f"r{number}-{index}" for index in range(3)]
        await asyncio.gather(
            *(
                Caller(f"{position}.{index}", node, random.Random(chance.random()), history, versions).run(
                    names, each
                )
                for position, node in enumerate(nodes)
                for index in range(callers)
            )
        )
    return history
