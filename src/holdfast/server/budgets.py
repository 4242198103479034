"""Limits in bytes over all connections of a server: requests being received, responses not yet read.

1. Requests that are not complete yet hold at most `bytes_max` together. Past that the largest are refused
   until an eighth is free: who sends little suffers last.
2. Requests that are being answered hold at most `bytes_max` together. One that does not fit is refused,
   unless it is small or the only one: small ones are bounded by their number (`requests_max`).
3. Answers that clients have not read hold at most `bytes_max` together. Past that connections are dropped
   until an eighth is free, those first that have read nothing for longest. An answer that is larger than the
   bound is sent alone.
"""

from collections.abc import Callable
from typing import Final, Protocol

from holdfast.protocol.errors import Refusal
from holdfast.server.errors import TooManyBytes

small_bytes: Final = 16_384


class Peer(Protocol):
    """What a budget asks of a connection."""

    @property
    def unread_bytes(self) -> int: ...

    def refuse(self, refusal: Refusal) -> None: ...

    def abort(self) -> None: ...


class RequestBudget:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.read_bytes = 0
        self.answered_bytes = 0
        self._reading: dict[Peer, int] = {}

    def note_read(self, client: Peer, count: int) -> None:
        """So much of a request has come, and it is not complete."""
        self.read_bytes += count - self._reading.get(client, 0)
        self._reading[client] = count
        if self.read_bytes > self.bytes_max:
            self._refuse_largest()

    def forget(self, client: Peer) -> None:
        """Its request is complete, or will never be."""
        if self._reading:
            self.read_bytes -= self._reading.pop(client, 0)

    def begin(self, count: int) -> bool:
        """May a request of so many bytes be answered now? If so, `end` must follow."""
        if count > small_bytes and self.answered_bytes and self.answered_bytes + count > self.bytes_max:
            return False
        self.answered_bytes += count
        return True

    def end(self, count: int) -> None:
        self.answered_bytes -= count

    def refusal(self) -> Refusal:
        return TooManyBytes(
            f"The requests that are being read or answered hold more than {self.bytes_max} bytes"
        )

    def _refuse_largest(self) -> None:
        aim = self.bytes_max * 7 // 8
        for client in sorted(self._reading, key=self._reading.__getitem__, reverse=True):
            if self.read_bytes <= aim:
                return
            self.forget(client)
            client.refuse(self.refusal())


class AnswerBudget:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.on_drop: Callable[[], None]
        self._unread: dict[Peer, int] = {}  # who has read nothing for longest comes first
        self._unread_bytes = 0

    def note_unread(self, client: Peer, count: int) -> None:
        self._unread_bytes += count - self._unread.get(client, 0)
        self._unread[client] = count

    def note_progress(self, client: Peer, count: int) -> None:
        """It reads, and so much is left."""
        self.forget(client)
        self.note_unread(client, count)

    def forget(self, client: Peer) -> None:
        if self._unread:
            self._unread_bytes -= self._unread.pop(client, 0)

    def make_room(self, count: int) -> None:
        """So much is about to be written: drop who reads nothing, if there is no room for it."""
        if self._unread_bytes + count <= self.bytes_max or not self._unread:
            return
        for client in self._unread:  # some have read since they were counted
            self.note_unread(client, client.unread_bytes)
        if self._unread_bytes + count > self.bytes_max:
            self._drop_slowest(max(0, self.bytes_max * 7 // 8 - count))

    def _drop_slowest(self, aim: int) -> None:
        for client in [*self._unread]:
            if self._unread_bytes <= aim:
                return
            self.forget(client)
            self.on_drop()
            client.abort()
