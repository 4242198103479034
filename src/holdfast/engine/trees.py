"""What an execution has recorded, as the requests that mend it read it.

A request that needs this is preceded by a scan of the ids of the tree (`ws.found`). Which of them are records
of one execution, and not of one that it called, their ids say.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.engine.jobs import write_end as write_task_end
from holdfast.engine.kept_versions import is_superseded
from holdfast.engine.transitions import settle
from holdfast.engine.view import lapse
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import (
    BeingDeleted,
    HasCaller,
    HasContinued,
    NoSuchExecution,
    NotAJob,
    TooManyRecords,
)
from holdfast.protocol.generations import generation_of
from holdfast.protocol.ids import below, root_of
from holdfast.protocol.mending import is_being_deleted
from holdfast.protocol.operations import LABEL, OBSERVED, PLACE
from holdfast.protocol.records import NOTHING, Millis, Promise, Task


class Record(NamedTuple):
    """One record of an execution. `number`: of the operation that it is of, or beside; 0 for observations,
    None for what is not counted. `place`: in the order of completions."""

    promise: Promise
    number: int | None
    place: int | None
    label: str

    @property
    def observed(self) -> str | None:
        """Of what it says that the execution has seen it."""
        return (self.promise.value.headers or {}).get(OBSERVED)

    @property
    def is_note(self) -> bool:
        return self.label.startswith("note ")

    @property
    def is_step(self) -> bool:
        return self.label.startswith("step ")


def find_execution(execution_id: str, ws: WorkingSet) -> tuple[Promise, Task]:
    """Raises if it is none, or one whose records are being deleted."""
    promise, task = ws.promise(execution_id), ws.task(execution_id)
    if promise is None or task is None or is_superseded(promise):
        raise NoSuchExecution(execution_id)
    if task.job is not None:
        raise NotAJob(f"{execution_id!r} is a background task, not an execution")
    return promise, task


def check_whole(promise: Promise, ws: WorkingSet) -> None:
    """Are all of its records there?"""
    if len(ws.found) > limits.mended_records_max:
        raise TooManyRecords(
            f"More than {limits.mended_records_max} records lie below the execution {promise.id!r}"
        )
    owner = ws.promise(root_of(promise.tags.get(tags.ORIGIN) or promise.id))
    if is_being_deleted(promise) or (owner is not None and is_being_deleted(owner)):
        raise BeingDeleted(promise.id)


def check_first_generation(promise: Promise) -> None:
    """One that has continued as new keeps only its latest records."""
    if generation_of(promise).number:
        raise HasContinued(promise.id)


def check_uncalled(promise: Promise) -> None:
    """Nobody replays by how it has ended. What was only started is nobody's."""
    caller = promise.tags.get(tags.PARENT, promise.id)
    if caller != promise.id and not label_of(promise).startswith("start "):
        raise HasCaller(promise.id, caller)


def records_of(execution_id: str, ws: WorkingSet) -> list[Record]:
    """By id. Those of its streams are left out, and what is only kept for its version."""
    ids = [*_own_ids(execution_id, ws.found)]
    ws.need(ids)
    prefix = below(execution_id)
    found = (promise for key in ids if (promise := ws.promise(key)) is not None)
    return [
        Record(promise, number_of(promise.id, prefix), place_of(promise), label_of(promise))
        for promise in found
        if _is_record(promise, execution_id)
    ]


def _own_ids(execution_id: str, found: list[str]) -> Iterator[str]:
    prefix = below(execution_id)
    for key in sorted(found):
        if key.startswith(prefix):
            first, dot, _ = key[len(prefix) :].partition(".")
            if not (dot and first.isascii() and first.isdigit()):
                yield key


def _is_record(promise: Promise, execution_id: str) -> bool:
    is_of_stream = tags.STREAM in promise.tags or tags.DEPENDENT in promise.tags
    is_ours = promise.tags.get(tags.PARENT) == execution_id and not is_of_stream
    return is_ours and not is_superseded(promise)


def label_of(promise: Promise) -> str:
    return (promise.param.headers or {}).get(LABEL, "")


def number_of(record_id: str, prefix: str) -> int | None:
    text = record_id.removeprefix(prefix).partition("~")[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def place_of(promise: Promise) -> int | None:
    text = (promise.value.headers or {}).get(PLACE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def unreleased_lock(records: list[Record]) -> str | None:
    """A lock that an execution with these records takes for its own. Who has ended holds nothing."""
    held = Counter(
        each.promise.tags[tags.TICKET]
        for each in records
        if tags.TICKET in each.promise.tags and each.promise.state == "resolved"
    )
    released = Counter(each.label.removeprefix("note release ") for each in records if each.is_note)
    return next((name for name, count in held.items() if released[name] < count), None)


def write_end(promise: Promise, ws: WorkingSet, now: Millis) -> Promise:
    """If only its deadline has ended it, that is written down, and whoever waits is told."""
    task = ws.task(promise.id)
    if task is not None:
        return write_task_end(task, ws, now)
    if promise.state != "pending" or promise.timeout_at > now:
        return promise
    lapsed = lapse(promise)
    return settle(promise, lapsed.state, NOTHING, lapsed.timeout_at, None, ws, now)
