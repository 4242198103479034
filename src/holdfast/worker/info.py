"""What code may know about the execution it is part of, in the workflow and inside its steps."""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from holdfast.protocol.records import Promise

never_ms: Final = 250_000_000_000_000  # later than any date that Python knows


class ExecutionInfo(Struct, frozen=True):
    """Where the code is running.

    `token` grows from one holder of the execution to the next: let the outside refuse a smaller one than it
    has seen. `step`, inside a step, is the same however often that is performed: an idempotency key.
    """

    id: str
    workflow: str
    attempt: int
    deadline: datetime | None
    token: int
    step: str | None = None


# Set in the Context of each step, when it starts: a step keeps the token it began with.
of_step: ContextVar[ExecutionInfo] = ContextVar("holdfast execution")


def describe(root: Promise, workflow: str, version: int) -> ExecutionInfo:
    deadline = datetime.fromtimestamp(root.timeout_at / 1000, UTC) if root.timeout_at < never_ms else None
    return ExecutionInfo(root.id, workflow, version, deadline, version)
