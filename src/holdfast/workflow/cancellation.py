"""Asking an execution to cancel itself: what is sent, by whoever asks.

A request to cancel is a promise beside the execution, `root:cancel`, that is resolved. It is part of the
execution's branch, so whoever claims the execution is given it; and the execution is registered with it, so
that one which is suspended is woken, and one which is held hears of it (`check_woken` in the
protocol).

1. Asking twice is asking once. Asking an execution that has ended changes nothing.
2. The execution itself decides when it sees the request, and records that (journal.py).
"""

from holdfast.protocol import tags
from holdfast.protocol.cancelling import ask_to_cancel, cancel_creation, origin_of
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import PromiseCreate, RequestData, TaskCancel
from holdfast.runtime import ExecutionClosed
from holdfast.workflow.journal import Journal
from holdfast.workflow.operations import CallOperation


def cancel_promise(root: Promise) -> PromiseCreate:
    """The promise of the request, before anybody has asked: for an execution that wants to listen."""
    return cancel_creation(root.id, origin_of(root), root.timeout_at)


def out_of_time(root: Promise) -> str:
    """What the code of an execution is told at its deadline."""
    grace_s = (tags.grace_of(root.tags) or 0) / 1000
    return f"the execution did not end in time: it is ended {grace_s:g} s after its deadline"


class UnwantedCalls(list[str]):
    """The ids of calls of one execution whose result nobody wants any more: they are to be cancelled too."""

    def __init__(self, root: Promise, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def watch(self, promise_id: str, call: CallOperation) -> None:
        call.watch(lambda: self._add(call.awaits or promise_id, call))

    def _add(self, promise_id: str, call: CallOperation) -> None:
        """A replay asks again, which is idempotent."""
        if isinstance(call.called_off_because, ExecutionClosed) or not call.is_ours:
            return
        if self._journal.is_pending(promise_id):
            self.append(promise_id)

    def take(self) -> list[RequestData]:
        """What cancels those that are there. A task that has begun refuses it."""
        requests: list[RequestData] = []
        for record in map(self._journal.records.get, self):
            if record is not None and tags.JOB in record.tags:
                requests.append(TaskCancel(record.id))
            elif record is not None:
                requests += ask_to_cancel(record.id, origin_of(record))
        self.clear()
        return requests
