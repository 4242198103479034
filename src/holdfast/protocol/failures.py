"""Failed attempts at a step, as an execution keeps them.

Beside the record of a step, `ID:3`, lies one for each time that it was put off: `ID:3~again.2` says that two
attempts have been made, when the first one began, and, as its payload, with what the latest ones failed.
While the step waits for its next attempt this record is a timer, which resolves when the wait is over.
"""

from typing import Any, Final, NamedTuple, Self, cast

from msgspec import Struct

from holdfast.protocol.records import Millis, Promise

TRIED: Final = "holdfast:tried"  # a header of its param
AGAIN: Final = "~again."  # in the ids of such records
failures_max: Final = 10  # that are kept, the latest ones
message_chars_max: Final = 1_000
traceback_chars_max: Final = 2_000


class Failure(Struct, frozen=True, omit_defaults=True):
    """One attempt that failed. `traceback` is cut to its last lines."""

    attempt: int
    at: Millis
    code: str
    message: str
    traceback: str = ""


class Tried(NamedTuple):
    """So many attempts were made at a step, the first of them began then."""

    attempts: int
    began_at: Millis

    def __str__(self) -> str:
        return f"{self.attempts} {self.began_at}"

    @classmethod
    def of(cls, record: Promise) -> Self | None:
        words = (record.param.headers or {}).get(TRIED, "").split(" ")
        if len(words) != 2 or not all(
            each.isascii() and each.isdigit() and len(each) <= 16 for each in words
        ):
            return None
        return cls(int(words[0]), int(words[1]))


def again_id(step: str, attempts: int) -> str:
    return f"{step}{AGAIN}{attempts}"


def again_prefix(step: str) -> str:
    """What the ids of all such records of a step begin with."""
    return f"{step}{AGAIN}"


def step_of(record_id: str) -> str | None:
    """The step that such a record belongs to; None if it is none."""
    step, again, attempts = record_id.rpartition(AGAIN)
    return step if again and attempts.isascii() and attempts.isdigit() else None


def read_failures(decoded: Any) -> list[Failure]:
    """What the payload of such a record says. Whoever speaks the protocol may have written it."""
    told: list[Any] = []
    if isinstance(decoded, list):
        told += decoded
    found: list[Failure] = []
    for each in told[-failures_max:]:
        fields = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        attempt, at = fields.get("attempt"), fields.get("at")
        if isinstance(attempt, int) and isinstance(at, int):
            code, message, trace = (str(fields.get(name, "")) for name in ("code", "message", "traceback"))
            found.append(Failure(attempt, at, code, message, trace))
    return found
