"""What an execution is doing, what it waits for and what it did: records for people and programs.

Instants are datetimes in UTC.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from holdfast.payloads.durations import datetime_of
from holdfast.payloads.user_tags import RESERVED
from holdfast.protocol import limits, tags
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus, ExecutionView, Wait
from holdfast.protocol.failures import Failure
from holdfast.protocol.operations import OperationState
from holdfast.protocol.records import Millis
from holdfast.steps.info import StepProgress, read_progress


class WaitDetails(Struct, frozen=True):
    """One thing that a suspended execution waits for, and the line of code that does so.

    `what`: the operation, such as `sleep`, `promise`, `call pay`. `attempts`, `error`, `resumes_at`: of a
    step that waits for its next attempt: how many attempts there were, the last error, the time of the next.
    `held_by`, `held_since`: of a lock, the execution that has held it longest, and since when.
    `schema`: the JSON schema of the value, if the code declares a type.
    """

    id: str
    what: str
    file: str
    line: int
    function: str
    attempts: int = 0
    error: str | None = None
    resumes_at: datetime | None = None
    held_by: str | None = None
    held_since: datetime | None = None
    schema: Mapping[str, Any] | None = None


class ExecutionDetails(Struct, frozen=True):
    """An execution or a background task at an instant.

    `since`: when `state` began. `waits`: what a suspended one waits for, each with the line of code.
    `resumes_at`: when one that is `waiting` may continue. `attempts`: how often a worker has taken it up.
    `error`: why it failed, was halted or was given back. `error_code`: what `app.find(error=...)` compares.
    `crashes`: how often in a row its worker died or could not run it, without progress. `progress`: what
    running steps reported with `hf.progress`. `published`: its last value under each name, as plain data.
    `set_aside`: messages that were not of the type that the code receives, the first 100 of them.

    `published` and `set_aside` are filled in by `handle.info()`, not by `app.find`.
    """

    id: str
    kind: ExecutionKind
    name: str | None
    state: ExecutionStatus
    since: datetime
    created_at: datetime
    ended_at: datetime | None
    deadline: datetime | None
    resumes_at: datetime | None
    attempts: int
    worker: str | None
    queue: str | None
    tags: Mapping[str, str]
    error: str | None
    error_code: str | None
    waits: tuple[WaitDetails, ...] = ()
    generation: int = 0  # how often it has continued as new
    crashes: int = 0
    progress: Mapping[str, StepProgress] = {}  # by step, "" of a background task
    published: Mapping[str, Any] = {}
    set_aside: "tuple[MessageAside, ...]" = ()


class MessageAside(Struct, frozen=True):
    """A message that could not be read as what the code asked for, and why. Its promise has this `id`."""

    id: str
    number: int
    error: str


class OperationDetails(Struct, frozen=True):
    """One operation of an execution: a step, a sleep, a call, a promise, a note, a message to it.

    `took_s`: how long it took; None while it runs. `error`: its error as text. `failures`: of a step that
    was retried, the latest attempts before the last, each with a shortened traceback. `resumes_at`: the time
    of its next attempt, while it waits for that.
    """

    id: str
    kind: str
    name: str
    state: OperationState
    began_at: datetime
    took_s: float | None
    attempts: int
    worker: str | None
    error: str | None
    failures: tuple[Failure, ...] = ()
    resumes_at: datetime | None = None
    _value: Any = None

    def result(self) -> Any:
        """Its result, decoded from its record; None while it runs or if it failed."""
        return self._value() if self._value is not None else None


def datetime_unless_never(instant: Millis | None) -> datetime | None:
    """None also for what is as good as never."""
    return None if instant is None or instant >= limits.instant_ms_max else datetime_of(instant)


def _wait_of(wait: Wait) -> WaitDetails:
    return WaitDetails(
        wait.id,
        wait.what,
        wait.file,
        wait.line,
        wait.function,
        wait.attempts,
        wait.error or None,
        datetime_unless_never(wait.resumes_at or None),
        wait.held_by or None,
        datetime_unless_never(wait.held_since or None),
        wait.schema,
    )


def details_of(view: ExecutionView) -> ExecutionDetails:
    return ExecutionDetails(
        view.id,
        view.kind,
        view.name,
        view.status,
        datetime_of(view.since),
        datetime_of(view.created_at),
        datetime_unless_never(view.settled_at),
        datetime_unless_never(view.timeout_at - (tags.grace_of(view.tags) or 0)),
        datetime_unless_never(view.due_at) if view.status == "waiting" else None,
        view.attempts,
        view.worker,
        view.queue or view.group,
        {key: value for key, value in view.tags.items() if not key.startswith(RESERVED)},
        view.error,
        view.code,
        tuple(map(_wait_of, view.waits or ())),
        view.generation,
        view.crashes,
        {told.step: read_progress(told) for told in view.progress or ()},
    )
