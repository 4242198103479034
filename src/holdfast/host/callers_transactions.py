"""What a session asks of its node inside transactions of others: on their connections, from any thread."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.client.caller import ask
from holdfast.jobs.errors import BadOption
from holdfast.node.callers_transaction import request_inside, request_inside_async
from holdfast.node.clock import Clock
from holdfast.node.group import CommitOutcome
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import RequestData
from holdfast.store.interface import CannotJoin
from holdfast.store.place import StorePlace


class CallersTransactions:
    """`expect` is told that somebody is about to commit, and when what he wrote is due."""

    def __init__(self, place: StorePlace, now: Clock, expect: Callable[[Millis | None], None]) -> None:
        self._place = place
        self._now = now
        self._expect = expect

    @property
    def engine(self) -> str | None:
        """Of the database that the node works on: "sqlite", "postgres", "memory"; None: nobody can tell."""
        return self._place.engine

    def is_here(self, place: str) -> bool:
        """Is that, for certain, where the node keeps everything?"""
        return self._place.is_known(place)

    def request(self, connection: Any, asked: Sequence[RequestData]) -> list[Reply]:
        """Raises BadOption if it cannot be done on this connection."""
        try:
            return self._told(request_inside(connection, [*map(ask, asked)], self._now(), self._place.check))
        except CannotJoin as error:
            raise BadOption(str(error)) from None

    async def request_async(self, connection: Any, asked: Sequence[RequestData]) -> list[Reply]:
        requests = [*map(ask, asked)]
        place = self._place
        try:
            return self._told(
                await request_inside_async(connection, requests, self._now(), place.check, place.check_async)
            )
        except CannotJoin as error:
            raise BadOption(str(error)) from None

    def _told(self, outcome: CommitOutcome) -> list[Reply]:
        if outcome.messages or outcome.next_due is not None:
            self._expect(outcome.next_due)
        return outcome.replies
