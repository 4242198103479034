"""Asking an execution to cancel itself: what is sent, by whoever asks.

A request to cancel is a promise beside the execution, `root:cancel`, that is resolved. It is part of the
execution's branch, so whoever claims the execution is given it; and the execution is registered with it, so
that one which is suspended is woken, and one which is held hears of it (`check_woken` in docs/protocol.md).

1. Asking twice is asking once. Asking an execution that has ended changes nothing.
2. The execution itself decides when it sees the request, and records that (journal.py).
"""

from holdfast.protocol import tags
from holdfast.protocol.cancelling import (
    ask_to_cancel as ask_to_cancel,
    cancel_creation,
    cancel_requests as cancel_requests,
    origin_of as origin_of,
)
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import PromiseCreate, RequestData, TaskCancel


def cancel_promise(root: Promise) -> PromiseCreate:
    """The promise of the request, before anybody has asked: for an execution that wants to listen."""
    return cancel_creation(root.id, origin_of(root), root.timeout_at)


def cancel_called(called: Promise, origin: str) -> list[RequestData]:
    """What a cancelled execution sends for what it had called: a task that has begun refuses it."""
    if tags.JOB in called.tags:
        return [TaskCancel(called.id)]
    return ask_to_cancel(called.id, origin)
