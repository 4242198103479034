"""What code may know about the execution or task it is part of: in a workflow, in its steps, in a task."""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from holdfast.protocol.records import Promise
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import step_signal

never_ms: Final = 250_000_000_000_000  # later than any date that Python knows


class ExecutionInfo(Struct, frozen=True):
    """Where the code is running.

    `attempt`, inside a step or a task, is which attempt of it this is, from 1. In the code of a workflow it
    counts the claims so far, which differ from replay to replay: for the log, never for an `if`.
    `token` grows from one holder of the execution to the next: let the outside refuse a smaller one than it
    has seen. `step`, inside a step, is the same however often that is performed: an idempotency key. Inside a
    background task `workflow` is the task's name and `id` is its own.
    """

    id: str
    workflow: str
    attempt: int
    deadline: datetime | None
    token: int
    step: str | None = None

    @property
    def signal(self) -> Signal:
        """Inside a step or a task: is its result still wanted?"""
        return step_signal()


# Set in the Context of each step, when it starts: a step keeps the token it began with.
of_step: ContextVar[ExecutionInfo] = ContextVar("holdfast execution")


def describe(root: Promise, workflow: str, version: int) -> ExecutionInfo:
    deadline = datetime.fromtimestamp(root.timeout_at / 1000, UTC) if root.timeout_at < never_ms else None
    return ExecutionInfo(root.id, workflow, version, deadline, version)
