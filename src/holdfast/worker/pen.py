"""What an execution writes and asks: everything it changes is fenced by its claim.

1. Every write goes through `task.fence`: a worker that lost its lease can write nothing. Only requests to
   cancel others are not its own, and may be repeated by anybody.
2. `unwritten` holds choices that are not durable yet. They are part of the next write, in the order in which
   they were made, before whatever is asked with it.
3. Once the claim is lost nothing more is asked.
4. A creation that the node refuses is among the `refused`: it has not happened, and the code must be told.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.client.interface import Client
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import FenceReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    CreateAction,
    PromiseCreate,
    PromiseSettle,
    Request,
    RequestData,
    SettleAction,
    TaskFence,
)
from holdfast.worker.execution_errors import ClaimGone

busy_statuses: Final = (429, 503)
busy_rest_s: Final = 0.1
request_count_max: Final = 500  # in one commit
refusals: Final = (400, 403, 413, 422)

Asked = tuple[str, RequestData]


class Pen:
    def __init__(self, client: Client, task_id: str, version: int, learn: Callable[[Promise], None]) -> None:
        self.version = version
        self.is_lost = False
        self.unwritten: list[CreateAction | SettleAction | Asked] = []
        self.refused: list[tuple[str, str]] = []  # ids of creations, and why
        self._client = client
        self._id = task_id
        self._learn = learn

    def note(self, creation: PromiseCreate) -> None:
        """To be written with the next write."""
        self.unwritten.append(CreateAction(creation))

    def cancel(self, promise_id: str) -> None:
        """To be cancelled with the next write, if it is there and pending."""
        self.unwritten.append(SettleAction(PromiseSettle(promise_id, "rejected_canceled")))

    def ask_to_cancel(self, requests: Sequence[Asked]) -> None:
        """To be asked with the next write."""
        self.unwritten += requests

    @property
    def has_cancellation(self) -> bool:
        return not all(isinstance(action, CreateAction) for action in self.unwritten)

    def write(self, creations: Sequence[PromiseCreate] = ()) -> Awaitable[list[Reply]]:
        """One commit: the choices so far, then these."""
        for creation in creations:
            self.note(creation)
        return self.write_and_ask([])

    async def write_and_ask(self, asked: Sequence[Asked]) -> list[Reply]:
        """In one commit: what is unwritten, fenced; then what is asked."""
        unwritten, self.unwritten = self.unwritten, []
        replies = await self.ask([*map(self._fenced, unwritten), *asked])
        for action, reply in zip(unwritten, replies, strict=False):
            if not isinstance(action, tuple):
                self._heed(action, reply)
        return replies[len(unwritten) :]

    def _fenced(self, action: CreateAction | SettleAction | Asked) -> Asked:
        if isinstance(action, tuple):
            return action
        return "task.fence", TaskFence(self._id, self.version, action)

    def _heed(self, action: CreateAction | SettleAction, reply: Reply) -> None:
        inner = reply.data
        if isinstance(inner, FenceReply):
            inner = inner.action.data
        elif reply.status not in refusals:
            raise ClaimGone(f"{self._id}: {reply.data}")
        if isinstance(inner, PromiseReply):
            self._learn(inner.promise)
        elif isinstance(action, CreateAction):  # of a cancellation: there was nothing to cancel
            self.refused.append((action.data.id, str(inner)))

    async def ask(self, asked: Sequence[Asked]) -> list[Reply]:
        """In one commit; when it is too much for one in several, and none is there before an earlier one."""
        replies: list[Reply] = []
        corr_id = f"{self._id}@{self.version}"
        requests = [Request(kind, corr_id, CURRENT_VERSION, "A", data) for kind, data in asked]
        while len(replies) < len(requests):
            if self.is_lost:
                raise ClaimGone(self._id)
            answered = await self._client.request(requests[len(replies) : len(replies) + request_count_max])
            taken = next(
                (n for n, each in enumerate(answered) if each.status in busy_statuses), len(answered)
            )
            replies += answered[:taken]
            if taken < len(answered):
                # Nothing was done, or nobody knows; everything asked here may be asked again.
                await asyncio.sleep(busy_rest_s)
        return replies
