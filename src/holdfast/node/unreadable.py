"""Which records the node could not read lately.

It is told at most once a minute for each record, however often somebody asks for it, and a sweep leaves out
for as long whatever needs it: what is due besides goes on, and the node does not spin.
"""

import logging
from collections.abc import Iterable
from typing import Final, TypeVar

from holdfast.protocol.records import Millis
from holdfast.protocol.requests import RequestData
from holdfast.protocol.text import printable
from holdfast.store.interface import CorruptRecord

log = logging.getLogger("holdfast.node")

unreadable_rest_ms: Final = 60_000
unreadable_max: Final = 10_000
nothing: Final[frozenset[RequestData]] = frozenset()

Unread = tuple[RequestData, CorruptRecord]  # what could not be carried out, and why
Key = TypeVar("Key")


class Unreadable:
    def __init__(self) -> None:
        self._told: dict[str, Millis] = {}
        self._left_out: dict[RequestData, Millis] = {}

    def note(self, unread: Iterable[Unread], now: Millis) -> None:
        for _, error in unread:
            if _put(self._told, error.what, now):
                what, why = printable(error.what), printable(error.why)
                log.error("%s: %s [%s]", what, why, error.code, extra={"record": error.key})

    def leave_out(self, unread: Iterable[Unread], now: Millis) -> None:
        for data, _ in unread:
            _put(self._left_out, data, now)

    def left_out(self, now: Millis) -> frozenset[RequestData]:
        if not self._left_out:
            return nothing
        return frozenset(data for data, until in self._left_out.items() if until > now)


def _put(entries: dict[Key, Millis], key: Key, now: Millis) -> bool:
    """Keep it for a while. False: it is kept already, or there are too many."""
    if entries.get(key, now) > now:
        return False
    if len(entries) >= unreadable_max:
        for old in [old for old, until in entries.items() if until <= now]:
            del entries[old]
    if len(entries) >= unreadable_max:
        return False
    entries[key] = now + unreadable_rest_ms
    return True
