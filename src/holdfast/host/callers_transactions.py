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
from holdfast.store.callers_database import Begun
from holdfast.store.interface import CannotJoin
from holdfast.store.place import StorePlace


class CallersTransactions:
    """`expect` is told that somebody is about to commit, and when what he wrote is due."""

    def __init__(self, place: StorePlace, now: Clock, expect: Callable[[Millis | None], None]) -> None:
        self._place = place
        self._now = now
        self._expect = expect

    def is_here(self, place: str) -> bool:
        """Is that, for certain, where the node keeps everything?"""
        return self._place.is_known(place)

    def request(
        self, connection: Any, asked: Sequence[RequestData], *, begun: Begun | None = None
    ) -> list[Reply]:
        """Raises BadOption if it cannot be done on this connection. `begun`: see node/callers_transaction."""
        requests = [*map(ask, asked)]
        check = self._place.check if self._place.is_certain else None
        try:
            return self._told(request_inside(connection, requests, self._now(), check, begun=begun))
        except CannotJoin as error:
            raise BadOption(str(error)) from None

    async def request_async(
        self, connection: Any, asked: Sequence[RequestData], *, begun: Begun | None = None
    ) -> list[Reply]:
        requests = [*map(ask, asked)]
        checks = (self._place.check, self._place.check_async) if self._place.is_certain else (None, None)
        try:
            return self._told(
                await request_inside_async(connection, requests, self._now(), *checks, begun=begun)
            )
        except CannotJoin as error:
            raise BadOption(str(error)) from None

    def _told(self, outcome: CommitOutcome) -> list[Reply]:
        if outcome.messages or outcome.next_due is not None:
            self._expect(outcome.next_due)
        return outcome.replies
