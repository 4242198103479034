"""What a transaction has to know of the step that is performed in it: how it is called and recorded.

How a database is opened, begun and committed is host/transactions.py's business.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holdfast.payloads.errors import NotRecorded, StepCalledOff
from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import FenceReply, PromiseReply, Reply
from holdfast.protocol.requests import CreateAction, PromiseGet, RequestData, TaskFence
from holdfast.steps.here import current_attempt
from holdfast.steps.middleware import Entered, call_inside
from holdfast.steps.providers import Provided
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow.errors import IdTaken
from holdfast.workflow.fenced_writer import is_foreign, refusals
from holdfast.workflow.operations import StepOperation

if TYPE_CHECKING:
    from holdfast.workflow.recording import Recorder


class Recorded(Struct, frozen=True):
    """What a step gives that has written its own result: the record."""

    promise: Promise


class TransactionalStep:
    """One step of one claim. Attempts of it may overlap: a thread that timed out cannot be stopped."""

    def __init__(
        self,
        promise_id: str,
        step: StepOperation,
        root: Promise,
        version: int,
        recorder: "Recorder",
        provided: Provided,
    ) -> None:
        self.name = step.name
        self.function = step.plain
        self.database = step.database
        self.key = promise_id, root.created_at
        self.commit_error: Exception | None = None
        self.around: Callable[..., Entered] | None = None  # goes inside the transaction
        self._step = step
        self._root = root
        self._version = version
        self._generation = generation_of(root).number or None
        self._recorder = recorder
        self._provided = provided
        self._began_s = time.monotonic()

    def call(self, connection: Any) -> Any:
        """The function gets the connection first, then its arguments."""
        args, kwargs = (connection, *self._step.args), self._step.kwargs
        placed = self._provided.place(self.function, args, kwargs)
        if placed is not None:
            args, kwargs = placed
        if self.around is None:
            return self.function(*args, **kwargs)
        return call_inside(self.around(self._step, args, kwargs, current_attempt()), self.function)

    def requests(self, value: Any) -> list[RequestData]:
        """Look whether it is recorded already; then record it, fenced by the claim."""
        outcome = StepOutcome(value, None, current_attempt(), time.monotonic() - self._began_s)
        creation = self._recorder.transacted(self.key[0], self._step, outcome)
        return [
            PromiseGet(self.key[0]),
            TaskFence(self._root.id, self._version, CreateAction(creation), self._generation),
        ]

    def read(self, replies: Sequence[Reply]) -> tuple[Promise, bool]:
        """What is recorded now, and was it there before?"""
        before, fenced = replies
        was_there = isinstance(before.data, PromiseReply) and before.data.promise.state != "pending"
        inner: Any = fenced.data
        if isinstance(inner, FenceReply):
            inner = inner.action.data
        elif fenced.status not in refusals:
            raise StepCalledOff(f"{self._root.id} is no longer held here: {fenced.data}")
        if not isinstance(inner, PromiseReply):
            raise NotRecorded(f"The node refused {self.key[0]}: {inner}")
        if is_foreign(self._recorder.local(self.key[0], self._step), inner.promise):
            raise IdTaken(f"The id {self.key[0]!r} was used by somebody else")
        return inner.promise, was_there


class Transactions(Protocol):
    """Performs transactional steps."""

    def check(self, database: Any) -> None:
        """Raises for what cannot be used as `on=`."""
        ...

    def wrap(self, step: TransactionalStep) -> Callable[..., Any]:
        """The step as a function without parameters: async if the user's is."""
        ...
