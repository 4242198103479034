"""Checkpoints and items of LangGraph as promises: what their ids are, and how they are written and read.

    langgraph-t-THREAD-N                      a thread: pending for as long as it is there
    langgraph-t-THREAD-N:c.NS.CHECKPOINT      a checkpoint, without the values of its channels; newest first
    langgraph-t-THREAD-N:b.NS.CHANNEL.VERSION the value of a channel: checkpoints share what is the same
    langgraph-t-THREAD-N:w.NS.CHECKPOINT.TASK.NUMBER   what a node wrote before the next checkpoint
    langgraph-s-NS-NS--KEY-N                  an item: pending while this is its value, which is its param

1. All of one request is written in one commit, and what others point to comes before them. (A request that is
   too large for one commit is written in that order.)
2. A thread is one tree of promises. While it is there its root is pending, so retention leaves it alone. What
   is deleted or replaced is settled, and goes with the next pass of retention. An id is used once, hence the
   number N, which counts downwards: the newest comes first.
3. Ids are made of texts of others (threads, channels, keys): each is escaped, so that none can reach into
   another's records.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

from holdfast.app import App, bridge_of
from holdfast.client.caller import expect
from holdfast.protocol import limits
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import PromiseReply, PromisesReply
from holdfast.protocol.requests import PromiseCreate, PromiseGet, PromiseSearch, PromiseSettle, RequestData
from holdfast.protocol.requests.promises import Settle

T = TypeVar("T")

part_bytes_max: Final = 512 * 1024  # of data in one promise; what is longer is written in parts
name_bytes_max: Final = 200  # of a text in an id; of a longer one its digest is there
_page: Final = 200
_numbers_max: Final = 999_999_999
_not_found: Final = 404


class Stored(Struct, frozen=True, omit_defaults=True):
    """A value as LangGraph serializes it: a kind and bytes. If it is long, `parts` promises follow."""

    kind: str
    data: bytes = b""
    parts: int = 0


class GraphRecords:
    """The promises of one app, for LangGraph. Everything here runs on the loop of the app's session."""

    def __init__(self, app: App) -> None:
        self.bridge = bridge_of(app)

    def block(self, work: Coroutine[Any, Any, T]) -> T:
        return self.bridge.block(work)

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.bridge.bridge(work)

    # --- requests --------------------------------------------------------------------------------------

    async def ask(self, asked: Sequence[RequestData]) -> list[Promise | None]:
        """In order, and in one commit if it is not too much. None where there is no such promise."""
        replies = await self.bridge.session.executions.caller.replies(asked)
        return [
            None if reply.status == _not_found else expect(reply, PromiseReply).promise for reply in replies
        ]

    async def get(self, *ids: str) -> list[Promise | None]:
        return await self.ask([PromiseGet(each) for each in ids])

    async def newest(self, base: str) -> Promise | None:
        """The last promise of that name, open or not."""
        asked = PromiseSearch(prefix=f"{base}-", limit=1)
        found = (await self.bridge.session.executions.caller.ask(asked, PromisesReply)).promises
        return found[0] if found else None

    async def search(self, prefix: str, **filters: Any) -> AsyncIterator[Promise]:
        """By id."""
        cursor: str | None = None
        while True:
            asked = PromiseSearch(prefix=prefix, limit=_page, cursor=cursor, **filters)
            reply = await self.bridge.session.executions.caller.ask(asked, PromisesReply)
            for promise in reply.promises:
                yield promise
            cursor = reply.cursor
            if cursor is None:
                return

    def open_promise(self, promise_id: str, value: Any, tags: dict[str, str], key: str) -> PromiseCreate:
        param = self.bridge.payloads.encode(value)
        return PromiseCreate(promise_id, limits.instant_ms_max, param, tags, key)

    def settled(self, promise_id: str, value: Any) -> PromiseCreate:
        """Create it with a value. Under an id that exists nothing is changed."""
        settle = Settle("resolved", self.bridge.payloads.encode(value))
        return PromiseCreate(promise_id, limits.instant_ms_max, settle=settle)

    def ending(self, promise_id: str) -> PromiseSettle:
        return PromiseSettle(promise_id, "rejected_canceled")

    # --- values ----------------------------------------------------------------------------------------

    def decode(self, value: Value, type_: Callable[..., T]) -> T:
        found: T = self.bridge.payloads.decode(value, type_)
        return found

    def parts_of(self, promise_id: str, stored: tuple[str, bytes]) -> list[PromiseCreate]:
        """What writes it: its parts before itself."""
        parts, kept = self.split(promise_id, stored)
        return [*parts, self.settled(promise_id, kept)]

    def split(self, promise_id: str, stored: tuple[str, bytes]) -> tuple[list[PromiseCreate], Stored]:
        """What writes its parts, if it is long, and what stands for it in the promise itself."""
        kind, data = stored
        if len(data) <= part_bytes_max:
            return [], Stored(kind, data)
        pieces = [data[start : start + part_bytes_max] for start in range(0, len(data), part_bytes_max)]
        parts = [self.settled(part_id(promise_id, n), Stored("", piece)) for n, piece in enumerate(pieces)]
        return parts, Stored(kind, parts=len(pieces))

    async def whole(self, promise_id: str, stored: Stored) -> tuple[str, bytes]:
        if not stored.parts:
            return stored.kind, stored.data
        data = b""
        for number in range(stored.parts):  # one by one: nobody else should wait for megabytes
            [part] = await self.get(part_id(promise_id, number))
            assert part is not None, f"{promise_id} has lost its part {number}"
            data += self.decode(part.value, Stored).data
        return stored.kind, data


def part_id(promise_id: str, number: int) -> str:
    """Parts are not among what is searched for: they have a letter of their own."""
    root, _, rest = promise_id.partition(":")
    return f"{root}:p.{rest}.{number}"


def escaped(text: str) -> str:
    """For one part of an id: letters and digits as they are, everything else by its code."""
    found = quote(text, safe="").replace("-", "%2D").replace(".", "%2E").replace("~", "%7E")
    if len(found) > name_bytes_max:
        return f"%%{hashlib.sha256(text.encode()).hexdigest()}"
    return found


def numbered(base: str, number: int) -> str:
    """The id of the n-th promise of that name; later ones come earlier."""
    return f"{base}-{_numbers_max - number:09d}"


def number_of(promise_id: str) -> int:
    return _numbers_max - int(promise_id.partition(":")[0].rpartition("-")[2])


def newest_first(text: str) -> str:
    """So that a text that is greater comes earlier. Searches go by id, upwards."""
    return f"{bytes(255 - byte for byte in text.encode()).hex()}z"


def back_again(text: str) -> str:
    return bytes(255 - byte for byte in bytes.fromhex(text[:-1])).decode()
