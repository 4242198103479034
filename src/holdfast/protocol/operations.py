"""How an execution tells of its operations in its records: the names of its headers, and what they say.

A step, a sleep, a call, a promise or a note is a promise below the execution. Its param names the operation,
the headers of its value say at which place the execution saw it, and how a step ran. Whoever speaks the
protocol may have written such a record, so nothing here trusts one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Final, Literal, NamedTuple, Self

from msgspec import Struct

from holdfast.protocol import tags
from holdfast.protocol.failures import Tried, step_of
from holdfast.protocol.generations import base_of, generation_of_record
from holdfast.protocol.ids import below, lies_within
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.mending import SUPERSEDED
from holdfast.protocol.records import Millis, Promise, PromiseState
from holdfast.protocol.streams import MAILBOX

PLACE: Final = "holdfast:place"
LABEL: Final = "holdfast:op"
ARGUMENTS: Final = "holdfast:args"
OBSERVED: Final = "holdfast:observed"
AFTER: Final = "holdfast:canceled-after"
RAN: Final = "holdfast:ran"  # for people: when a step began, how long it took, its attempts, its worker

TIMED_OUT: Final = "HF5103"  # the code of what ended by its deadline: of `TimedOut`

_of_a_stream: Final = re.compile(r"(in|out\.[\w-]+|value\.[\w-]+)(?:\.(\d+)|[.~].*)", re.DOTALL)

OperationState = Literal["running", "completed", "failed", "cancelled", "timed_out"]
_STATES: Final[dict[PromiseState, OperationState]] = {
    "pending": "running",
    "resolved": "completed",
    "rejected": "failed",
    "rejected_canceled": "cancelled",
    "rejected_timedout": "timed_out",
}


class Ran(NamedTuple):
    """How a step ran, as one header of its result. No replay reads it.

    `1893456000123 0.42 1 host-17-3f2a`: the instant it began by the node's clock, milliseconds until its end
    with all attempts and the waits between them, the number of attempts, the worker.
    """

    began_at: Millis
    took_ms: float
    attempts: int
    worker: str

    def __str__(self) -> str:
        return ran_text(*self)

    @classmethod
    def of(cls, promise: Promise) -> Self | None:
        """What a record says, if it is one of a step."""
        words = (promise.value.headers or {}).get(RAN, "").split(" ", 3)
        try:
            began_at, took_ms, attempts, worker = words
            ran = cls(int(began_at), float(took_ms), int(attempts), worker)
        except ValueError:
            return None
        return ran if isfinite(ran.took_ms) else None


def ran_text(began_at: Millis, took_ms: float, attempts: int, worker: str) -> str:
    return f"{began_at} {took_ms:.3f} {attempts} {worker}"


class OperationView(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One operation of an execution, without its result. `took_ms` is there once it is over."""

    id: str
    kind: str  # step, sleep, promise, call, start, note, cancel, message
    name: str
    state: OperationState
    began_at: Millis
    took_ms: float | None = None
    attempts: int = 0
    worker: str | None = None
    code: str | None = None
    place: int | None = None  # in the order in which the execution saw completions
    resumes_at: Millis | None = None  # of a step that waits for its next attempt


def cancel_id(root: str) -> str:
    """The promise that asks an execution to cancel itself, once it is resolved."""
    return f"{below(root)}cancel"


def ended_by_deadline(promise: Promise) -> bool:
    """Of an execution that was asked to cancel: was it its deadline that asked? Its worker said so."""
    if promise.state != "rejected_canceled" or not promise.value.headers:
        return False
    return promise.value.headers.get(CODE_HEADER) == TIMED_OUT


def operations_of(root: str, records: Iterable[Promise], generation: int = 0) -> list[OperationView]:
    """The operations of one generation of an execution, in the order in which its code asked for them; then
    the others. Of streams, messages are among them; what it emits and publishes is not."""
    own = {record.id: record for record in records if _is_own(record, root)}
    own = {key: it for key, it in own.items() if generation_of_record(key, root) in (None, generation)}
    places = _places(own)
    tries = tries_of(own.values())
    found = [
        _view(record, places, tries.get(record.id, ()), number)
        for record in own.values()
        if not _is_note_to_itself(record, own) and (number := _message_number(record.id, root)) != ""
    ]
    return sorted(found, key=lambda view: _order(view, below(base_of(root, generation))))


def is_tried(record: Promise) -> bool:
    """May there be records of attempts beside this one? Of a step that is under way, or was tried again."""
    is_step = (record.param.headers or {}).get(LABEL, "").startswith("step ")
    ran = Ran.of(record)
    return is_step and (ran is None or ran.attempts > 1)


def tries_of(records: Iterable[Promise]) -> dict[str, list[Promise]]:
    """By the id of a step: the records that count its attempts and tell of its failures, in their order."""
    found: dict[str, list[tuple[int, Promise]]] = {}
    for record in records:
        step, tried = step_of(record.id), Tried.of(record)
        if step is not None and tried is not None:
            found.setdefault(step, []).append((tried.attempts, record))
    return {
        step: [each for _, each in sorted(tries, key=lambda item: item[0])] for step, tries in found.items()
    }


def _is_own(record: Promise, root: str) -> bool:
    """Not what the run before has called, which is kept for its version."""
    is_below = record.id != root and record.tags.get(tags.PARENT) == root and lies_within(record.id, root)
    return is_below and record.value != SUPERSEDED


def _places(own: Mapping[str, Promise]) -> dict[str, int]:
    places: dict[str, int] = {}
    for record in own.values():
        headers = record.value.headers or {}
        place = headers.get(PLACE, "")
        if place.isascii() and place.isdigit():
            places[headers.get(OBSERVED, record.id)] = int(place)
    return places


def _is_note_to_itself(record: Promise, own: Mapping[str, Promise]) -> bool:
    """That it saw some completion first; how often it tried a step; that it made a call which is here as
    well; or what a request to cancel it would resolve: none of these is an operation."""
    if record.id == cancel_id(record.tags.get(tags.PARENT, "")):
        return record.state != "resolved"
    headers = record.value.headers or {}
    return (
        step_of(record.id) is not None
        or (OBSERVED in headers and LABEL not in (record.param.headers or {}))
        or AFTER in headers
        or record.id.endswith("0~begun")
        or (record.id.endswith("~") and record.id[:-1] in own)
    )


def _message_number(record_id: str, root: str) -> str | None:
    """Of a message to it; "" of another record of a stream, None of anything else."""
    found = _of_a_stream.fullmatch(record_id.removeprefix(below(root)))
    if found is None:
        return None
    stream, number = found.groups()
    return number if stream == MAILBOX and number is not None else ""


def _view(
    record: Promise, places: Mapping[str, int], tries: Sequence[Promise], message: str | None
) -> OperationView:
    label = (record.param.headers or {}).get(LABEL, "")
    kind, _, name = label.partition(" ") if message is None else ("message", "", f"message {message}")
    ran = Ran.of(record)
    began_at = record.created_at if ran is None else ran.began_at
    took_ms: float | None = None if ran is None else ran.took_ms
    if took_ms is None and record.settled_at is not None:
        took_ms = float(record.settled_at - record.created_at)
    failed = record.state not in ("pending", "resolved")
    last = None
    if tries and record.state == "pending":
        last, tried = tries[-1], Tried.of(tries[-1])
        began_at = began_at if tried is None else tried.began_at
    return OperationView(
        record.id,
        kind or ("sleep" if tags.is_timer(record.tags) else "promise"),
        name or record.tags.get(tags.TASK) or record.tags.get(tags.WORKFLOW) or "",
        "timed_out" if ended_by_deadline(record) else _STATES[record.state],
        began_at,
        took_ms,
        max(_count(tries), 0 if ran is None else ran.attempts),
        None if ran is None else ran.worker,
        (record.value.headers or {}).get(CODE_HEADER) if failed else None,
        places.get(record.id),
        last.timeout_at if last is not None and last.state == "pending" else None,
    )


def _count(tries: Sequence[Promise]) -> int:
    tried = Tried.of(tries[-1]) if tries else None
    return 0 if tried is None else tried.attempts


def _order(view: OperationView, prefix: str) -> tuple[bool, int, Millis, str]:
    number = view.id.removeprefix(prefix).partition("~")[0]
    is_counted = number.isascii() and number.isdigit()
    return (not is_counted, int(number) if is_counted else 0, view.began_at, view.id)
