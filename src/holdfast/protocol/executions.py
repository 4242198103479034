"""Executions and background tasks as one looks at them: a status, since when, and what they wait for.

An execution here is a promise with a target, seen together with its task. One vocabulary serves both kinds; a
background task is one whose promise has the tag `holdfast:job`.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.protocol import limits
from holdfast.protocol.reported import ReportedProgress
from holdfast.protocol.text import check_integer, check_text

ExecutionKind = Literal["execution", "task"]
ExecutionStatus = Literal[
    "pending",  # a worker may take it now
    "waiting",  # nobody may take it before an instant: a delayed start, a rest before the next try
    "claimed",  # a worker has taken the background task, and has not begun
    "running",
    "suspended",  # it waits for something outside
    "halted",  # nobody may take it until it is continued
    "completed",
    "failed",
    "cancelled",
    "timed_out",
    "expired",  # the background task was not begun in time
]

STATUSES: Final[dict[ExecutionKind, tuple[ExecutionStatus, ...]]] = {
    "execution": (
        "pending", "waiting", "running", "suspended", "halted",
        "completed", "failed", "cancelled", "timed_out",
    ),
    "task": (
        "pending", "waiting", "claimed", "running", "halted", "completed", "failed", "cancelled", "expired",
    ),
}  # fmt: skip

ENDED: Final = frozenset({"completed", "failed", "cancelled", "timed_out", "expired"})


class Wait(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One promise that a suspended execution waits for, and the line of code that does so.

    `since`: when the promise was created; `due_at`: when it settles by itself, as a timer or at its deadline;
    `held_by`: of a lock, the execution that has held it longest. These are looked up, and never told."""

    id: str
    what: str = ""  # the operation: `sleep`, `promise`, `call pay`
    file: str = ""
    line: int = 0
    function: str = ""
    fiber: str = ""
    held_by: str = ""
    held_since: int = 0
    since: int = 0
    due_at: int = 0
    schema: dict[str, Any] | None = None  # JSON schema of the value, where the code declares a type
    attempts: int = 0  # of a step that waits for its next one, at `resumes_at`; `error`: of the last
    error: str = ""
    resumes_at: int = 0

    def __post_init__(self) -> None:
        check_text("waits.id", self.id)
        for name, text in (
            ("what", self.what),
            ("file", self.file),
            ("function", self.function),
            ("fiber", self.fiber),
            ("heldBy", self.held_by),
            ("error", self.error),
        ):
            check_text(f"waits.{name}", text, limits.wait_text_bytes_max, empty=True)
        for name, number in (
            ("line", self.line),
            ("attempts", self.attempts),
            ("resumesAt", self.resumes_at),
        ):
            check_integer(f"waits.{name}", number, 0)


_encode_waits: Final = msgspec.json.Encoder().encode
_decode_waits: Final = msgspec.json.Decoder(list[Wait]).decode


class _BoundWait(Wait, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The first of them, as it is kept. `bound`: the tickets and executions that are all it waits for."""

    bound: list[str] = []


class _Bound(Struct, gc=False):
    bound: list[str] = []


_decode_bound: Final = msgspec.json.Decoder(list[_Bound]).decode


def waits_text(waits: list[Wait] | None, bound: list[str] | None = None) -> str | None:
    """As they are kept with a task."""
    if not waits:
        return None
    if bound:
        told = {name: getattr(waits[0], name) for name in Wait.__struct_fields__}
        waits = [_BoundWait(**told, bound=bound), *waits[1:]]
    return _encode_waits(waits).decode()


def read_bound(text: str) -> list[str]:
    """What the execution waits for, if those are tickets and executions only."""
    kept = _decode_bound(text) if '"bound":' in text else []
    return kept[0].bound if kept else []


def read_waits(text: str) -> list[Wait]:
    """Also those that an older version has kept, which spelt one name otherwise."""
    return _decode_waits(text.replace('"resumes_at":', '"resumesAt":'))


class LostClaim(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A claim that did not end well: its lease lapsed, or the worker could not run the execution.

    `until`: when the lease ended, or when it was given back. `taken_by`, `taken_at`: who took it up next.
    """

    worker: str
    since: int
    until: int
    end: Literal["lapsed", "given_back"]
    taken_by: str | None = None
    taken_at: int | None = None


_encode_lost: Final = msgspec.json.Encoder().encode
_decode_lost: Final = msgspec.json.Decoder(list[LostClaim]).decode


def lost_claims_text(lost: list[LostClaim]) -> str:
    """As they are kept with a task."""
    return _encode_lost(lost).decode()


def read_lost_claims(text: str) -> list[LostClaim]:
    return _decode_lost(text)


class ExecutionView(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """An execution or a background task, without its payloads.

    `since` is the instant at which its status began. `due_at`: of one that waits, when it may be taken; of
    one that a worker holds, when the lease ends. `attempts`: how often a worker has taken the execution, or
    begun the background task.
    """

    id: str
    kind: ExecutionKind
    status: ExecutionStatus
    since: int
    created_at: int
    timeout_at: int
    tags: dict[str, str]
    attempts: int = 0
    name: str | None = None
    group: str | None = None
    queue: str | None = None
    worker: str | None = None
    settled_at: int | None = None
    due_at: int | None = None
    retries: int = 0
    error: str | None = None  # told when it was given back or halted
    code: str | None = None  # of what it failed with, or of why it was halted
    waits: list[Wait] | None = None
    generation: int = 0  # how often it has continued as new
    crashes: int = 0  # in a row: its worker died or could not run it, without progress
    lost_claims: list[LostClaim] | None = None  # the last ones, of an execution, in order
    progress: list[ReportedProgress] | None = None  # of the steps that are under way, or of the task


class PageEnd(Struct, frozen=True, gc=False):
    """Where in the order from new to old a page ended. Without an id: before everything of that instant."""

    created_at: int
    id: str | None = None

    def __str__(self) -> str:
        return str(self.created_at) if self.id is None else f"{self.created_at}/{self.id}"


def parse_place(cursor: str) -> PageEnd:
    """ValueError when it is no cursor of ours."""
    instant, slash, record_id = cursor.partition("/")
    if not (instant.isascii() and instant.isdigit() and len(instant) <= 16) or (slash and not record_id):
        raise ValueError(f"cursor {cursor[:40]!r} was not given by a search of executions")
    return PageEnd(int(instant), record_id if slash else None)
