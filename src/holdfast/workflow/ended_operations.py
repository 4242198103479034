"""What observers will be told of the operations of an execution, once the write that follows is durable.

1. A step is noted when its result is about to be written. So whoever writes the record tells of it.
2. Anything else is noted when the code sees it complete, unless what follows from that was recorded before:
   then the process that recorded it has told of it. So it is told after a write that leaves such a record,
   and after no other.
3. What the last wait of a generation was is told after the write that begins the next one.
4. If nobody looks (`is_wanted`), nothing is noted.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import CreateAction, RequestData, TaskFulfill
from holdfast.steps.observer import EndedOperation, Observers
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow.operations import Action, CallOperation, DurableOperation

untold: Final = frozenset({"note"})


class EndedOperations:
    def __init__(self, root: Promise, workflow: str, observers: Observers, now: Callable[[], int]) -> None:
        self._observers = observers.wanting_operations()
        self.is_wanted = bool(self._observers)
        self.noted: list[EndedOperation] = []
        self.of_before: list[EndedOperation] = []  # of the generation before
        self._root = root
        self._workflow = workflow
        self._now = now

    def step(self, promise_id: str, step: DurableOperation, outcome: StepOutcome) -> None:
        """Its result is about to be written."""
        now = self._now()
        began_at = now - outcome.duration_s * 1000
        self._note(promise_id, step, began_at, now, outcome.error, attempts=outcome.attempts)

    def seen(
        self,
        promise_id: str,
        operation: DurableOperation,
        record: Promise | None,
        error: Exception | None = None,
    ) -> None:
        """The code is about to see it complete."""
        if operation.completes_here:
            return
        now = self._now()
        began_at = record.created_at if record is not None and record.created_at else now
        ended_at = (record.settled_at if record is not None else None) or now
        headers = record.value.headers if record is not None and operation.is_read_once else None
        self._note(promise_id, operation, min(began_at, ended_at), ended_at, error, headers=headers)

    def follow(self, before: "EndedOperations") -> None:
        """The generation before is over: what it noted is told after the write that says so."""
        self.of_before = before.of_before + before.noted

    def take(self, unwritten: Sequence[Action], asked: Sequence[RequestData]) -> list[EndedOperation]:
        """What may be told after this write: all that a generation before has left, because this write ends
        that one; and what is noted since, if a replay will know by this write that the code went on from
        there. It knows records, and the end of the execution; not that somebody has waited or asked for the
        next message."""
        taken, self.of_before = self.of_before, []
        if any(isinstance(action, CreateAction) for action in unwritten) or any(
            isinstance(request, TaskFulfill) for request in asked
        ):
            taken += self.noted
            self.noted = []
        return taken

    async def tell_after(self, writing: Awaitable[list[Reply]], taken: list[EndedOperation]) -> list[Reply]:
        """What has ended for good is told after the commit."""
        replies = await writing
        self._tell(taken)
        return replies

    def tell_of_generation(self) -> None:
        """The end of this generation is written: tell all that it has noted."""
        self._tell(self.of_before + self.noted)
        self.of_before, self.noted = [], []

    def _tell(self, taken: Sequence[EndedOperation]) -> None:
        for ended in taken:
            self._observers.tell("operation_ended", ended)

    def _note(
        self,
        promise_id: str,
        operation: DurableOperation,
        began_at: float,
        ended_at: float,
        error: Exception | None,
        *,
        attempts: int = 1,
        headers: dict[str, str] | None = None,
    ) -> None:
        kind, _, name = operation.label.partition(" ")
        if kind in untold:
            return
        other = getattr(operation, "other", operation.awaits)
        if other is None and isinstance(operation, CallOperation):
            other = promise_id
        self.noted.append(
            EndedOperation(
                self._root,
                self._workflow,
                promise_id,
                kind,
                name,
                began_at,
                ended_at,
                attempts,
                error,
                other,
                headers,
            )
        )
