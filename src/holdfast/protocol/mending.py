"""Where an execution has failed, as its worker tells it with the failure: what a retry goes back to."""

from typing import Final, Self

from msgspec import Struct

from holdfast.protocol.records import Promise, Value

FAILED_AT: Final = "holdfast:failed-at"  # a header of the value that an execution has failed with
# Of what an execution had called that began anew since. Whoever creates it again goes on from its version, so
# that who held it then can write nothing.
SUPERSEDED: Final = Value({"holdfast:superseded": "true"})
DELETING: Final = "holdfast:deleting"  # of one whose records are being deleted, a few at a time


class FailurePoint(Struct, frozen=True):
    """Before the place `place` in the order of completions the code had not failed, and had asked for `asked`
    operations. `operation`: the id of the one that failed; empty where a request to cancel was what ended it.

    As one header: `5 9 order-17:7`.
    """

    place: int
    asked: int
    operation: str

    def __str__(self) -> str:
        return f"{self.place} {self.asked} {self.operation}"

    @classmethod
    def of(cls, promise: Promise) -> Self | None:
        """What the value says, if it says anything that can be understood."""
        words = (promise.value.headers or {}).get(FAILED_AT, "").split(" ", 2)
        if len(words) < 3 or not all(_is_number(word) for word in words[:2]):
            return None
        return cls(int(words[0]), int(words[1]), words[2])


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 16


def being_deleted(value: Value) -> Value:
    return Value({**(value.headers or {}), DELETING: "true"}, value.data)


def is_being_deleted(promise: Promise) -> bool:
    return DELETING in (promise.value.headers or {})
