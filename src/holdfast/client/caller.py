"""Asking a node: requests, replies, and asking again when it is busy. One rule for every caller.

A node answers 429 when it has no room, and 503 when it stops, when its store fails, or when the answers
before this one have taken all the room. Then:

1. What was answered before the first busy reply stays. From that reply on everything is asked again, so
   nothing is carried out before what was asked before it. Ask a caller only for what may be repeated.
2. Between two tries is a rest: `busy_rest_s`, doubled each time, at most `busy_rest_s_max`.
3. With `tries_max` a caller gives up when the same request was answered so often in a row that the node is
   busy, and returns the busy replies. Without it, it asks until the node answers.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from holdfast.client.errors import BadReply, Refused
from holdfast.client.interface import Client
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.limits import batch_envelopes_max
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import KINDS, Request, RequestData

Data = TypeVar("Data")

busy_statuses: Final = (429, 503)
busy_rest_s: Final = 0.1
busy_rest_s_max: Final = 1.0
busy_tries_max: Final = 5  # of a caller that may give up


def is_busy(reply: Reply) -> bool:
    return reply.status in busy_statuses


def is_whole(requests: Sequence[Request], answered: Sequence[Reply]) -> bool:
    """Was every request answered, and none with that the node is busy?"""
    if len(answered) != len(requests):
        return False
    for reply in answered:  # noqa: SIM110 - without a generator
        if reply.status in busy_statuses:
            return False
    return True


def _count_before_busy(replies: Sequence[Reply]) -> int:
    for number, reply in enumerate(replies):
        if reply.status in busy_statuses:
            return number
    return len(replies)


def rest_s(tries: int) -> float:
    """How long to rest after so many busy replies in a row."""
    return min(busy_rest_s * (1 << min(tries - 1, 10)), busy_rest_s_max)


class Caller:
    """Builds requests, sends them and reads the replies.

    `together_max`: at most so many in one commit. `check` is called before each try, and may raise to end it.
    """

    __slots__ = ("_check", "_together_max", "_tries_max", "client")

    def __init__(
        self,
        client: Client,
        *,
        tries_max: int | None = None,
        together_max: int = batch_envelopes_max,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self._tries_max = tries_max
        self._together_max = together_max
        self._check = check

    def unchecked(self) -> "Caller":
        """The same, without `check`."""
        return Caller(self.client, tries_max=self._tries_max, together_max=self._together_max)

    async def ask(self, data: RequestData, shape: type[Data]) -> Data:
        """The data of the reply; raises `Refused` when the node refuses."""
        [reply] = await self.replies([data])
        return expect(reply, shape)

    async def ask_all(self, asked: Sequence[RequestData], shape: type[Data]) -> list[Data]:
        """In one commit, in this order."""
        return [expect(reply, shape) for reply in await self.replies(asked)]

    async def replies(self, asked: Sequence[RequestData]) -> list[Reply]:
        """In one commit; what is too much for one in several, and none is done before an earlier one."""
        if not asked:
            return []
        requests = [ask(data) for data in asked]
        answered = await self.begin(requests)
        return answered if is_whole(requests, answered) else await self.go_on(requests, answered)

    def begin(self, requests: list[Request]) -> Awaitable[list[Reply]]:
        """Send them, or as many of them as go into one commit. Unless what comes back `is_whole`, `go_on`."""
        if self._check is not None:
            self._check()
        together_max = self._together_max
        return self.client.request(requests if len(requests) <= together_max else requests[:together_max])

    async def go_on(self, left: list[Request], answered: list[Reply]) -> list[Reply]:
        """Ask for what was not answered, or only that the node is busy."""
        replies: list[Reply] = []
        tries = 0
        while True:
            taken = _count_before_busy(answered)
            replies += answered[:taken]
            left = left[taken:]
            if not left:
                return replies
            if taken == len(answered):
                tries = 0
            else:
                tries = 1 if taken else tries + 1
                if tries == self._tries_max:
                    replies += answered[taken:]
                    return replies + [answered[taken]] * (len(left) - len(answered) + taken)
                await asyncio.sleep(rest_s(tries))
            answered = await self.begin(left)


# The first name of each kind is today's; the aliases of older dialects follow it.
_kind_of: Final[dict[type[RequestData], str]] = {data: kind for kind, data in reversed(KINDS.items())}
_counter: Final = itertools.count(1)


class _Process:
    """This one: a child of os.fork() has ids of its own."""

    def __init__(self) -> None:
        self.draw()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.draw)

    def draw(self) -> None:
        self.id = os.urandom(8).hex()


_process: Final = _Process()


def ask(data: RequestData) -> Request:
    """A request with a correlation id that no other request has, so that repeating it is recognisable."""
    return Request(_kind_of[type(data)], fresh_key(), CURRENT_VERSION, "A", data)


def fresh_key() -> str:
    """A text that nobody else has, in any process."""
    return f"{_process.id}-{next(_counter)}"


def expect(reply: Reply, shape: type[Data]) -> Data:
    """The data of a successful reply; `Refused` when it is none."""
    if isinstance(reply.data, shape) and reply.status < 400:
        return reply.data
    if isinstance(reply.data, str):
        raise Refused(reply.status, reply.data, reply.code)
    raise BadReply(f"The reply is a {type(reply.data).__name__} where {shape.__name__} was expected")
