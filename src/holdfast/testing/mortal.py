"""A client whose process can be killed at an exact point: before or after one of its durable writes.

A killed client answers nobody: whoever waits for it waits until it is taken down. Nothing more is written.
Counting goes on from one process to the next, so a point has the same number whoever reaches it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal

from msgspec import Struct

from holdfast.client.interface import Client, MessageStream
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    AppendAction,
    CreateAction,
    NextAction,
    Request,
    SettleAction,
    TaskFence,
)
from holdfast.workflow.journal import LABEL

# What changes an execution or its task. A claim is one: whoever dies right after it leaves a lease behind.
WRITES: Final = {
    "task.claim",
    "task.start",
    "task.fence",
    "task.suspend",
    "task.fulfill",
    "task.restart",
    "task.fail",
    "task.release",
    "task.halt",
}

Side = Literal["before", "after"]


class CrashPoint(Struct, frozen=True):
    """The worker dies just before, or just after, the n-th durable write (from 1)."""

    write: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side}:{self.write}"

    @staticmethod
    def parse(text: str) -> "CrashPoint":
        """Read `before:3` or `after:3`."""
        side, _, number = text.partition(":")
        if side not in ("before", "after") or not number.isdigit():
            raise ValueError(f"{text!r} is not a crash point: write before:3 or after:3")
        return CrashPoint(int(number), "before" if side == "before" else "after")


class Fuse:
    """Counts the writes of all processes of a world, and says at which of them one dies."""

    def __init__(self, points: Sequence[CrashPoint] = ()) -> None:
        self.writes: list[str] = []  # what each one was, for people
        self._points = {(point.write, point.side) for point in points}

    def count(self, requests: Sequence[Request]) -> int:
        self.writes.append(describe(requests))
        return len(self.writes)

    def burns(self, write: int, side: Side) -> bool:
        return (write, side) in self._points


class MortalClient:
    def __init__(self, client: Client, fuse: Fuse, died: Callable[[], None]) -> None:
        self._client = client
        self._fuse = fuse
        self._died = died
        self._dead = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self._dead:
            await self._silence()
        if not any(request.kind in WRITES for request in requests):
            return await self._client.request(requests)
        write = self._fuse.count(requests)
        if self._fuse.burns(write, "before"):
            await self._die()
        replies = await self._client.request(requests)
        if self._fuse.burns(write, "after"):
            await self._die()
        if self._dead:
            await self._silence()
        return replies

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        return self._client.messages(group, member)

    async def close(self) -> None:
        self._dead = True
        await self._client.close()

    async def _die(self) -> None:
        if not self._dead:
            self._dead = True
            self._died()
        await self._silence()

    async def _silence(self) -> None:
        await asyncio.get_running_loop().create_future()


def describe(requests: Sequence[Request]) -> str:
    return ", ".join(_word(request) for request in requests)


def _word(request: Request) -> str:
    data = request.data
    if isinstance(data, TaskFence):
        action = data.action
        if isinstance(action, CreateAction):
            label = (action.data.param.headers or {}).get(LABEL, "observation")
            return f"{'record' if action.data.settle else 'create'} {action.data.id} ({label})"
        if isinstance(action, AppendAction):
            return f"append to {action.data.stream} of {action.data.id}"
        if isinstance(action, NextAction):
            return f"await {action.data.stream}.{action.data.number} of {action.data.id}"
        verb = "settle" if isinstance(action, SettleAction) else "change"
        return f"{verb} {action.data.id}"
    return f"{request.kind} {getattr(data, 'id', '')}".strip()
