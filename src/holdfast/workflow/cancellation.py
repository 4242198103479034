"""Asking an execution to cancel itself: what is sent, by whoever asks.

A request to cancel is a promise beside the execution, `root:cancel`, that is resolved. It is part of the
execution's branch, so whoever claims the execution is given it; and the execution is registered with it, so
that one which is suspended is woken, and one which is held hears of it (`check_woken` in docs/protocol.md).

1. Asking twice is asking once. Asking an execution that has ended changes nothing.
2. The execution itself decides when it sees the request, and records that (journal.py).
"""

from holdfast.protocol import limits, tags
from holdfast.protocol.cancelling import cancel_creation, cancel_id, origin_of
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseSettle,
    RequestData,
    TaskCancel,
)


def cancel_promise(root: Promise) -> PromiseCreate:
    """The promise of the request, before anybody has asked: for an execution that wants to listen."""
    return cancel_creation(root.id, origin_of(root), root.timeout_at)


def cancel_requests(promise: Promise, *, now: bool) -> list[RequestData]:
    """What cancels it: asking, if it is an execution, which can clean up; else, and if `now`, ending it."""
    if promise.state != "pending":
        return []
    if now or tags.TARGET not in promise.tags or tags.JOB in promise.tags:
        return [PromiseSettle(promise.id, "rejected_canceled")]
    return ask_to_cancel(promise.id, origin_of(promise), promise.timeout_at)


def cancel_called(called: Promise, origin: str) -> list[RequestData]:
    """What a cancelled execution sends for what it had called: a task that has begun refuses it."""
    if tags.JOB in called.tags:
        return [TaskCancel(called.id)]
    return ask_to_cancel(called.id, origin)


def ask_to_cancel(root: str, origin: str, timeout_at: int = limits.instant_ms_max) -> list[RequestData]:
    """To be sent in this order, best in one commit."""
    name = cancel_id(root)
    return [
        cancel_creation(root, origin, timeout_at),
        PromiseRegisterCallback(name, root),
        PromiseSettle(name, "resolved"),
    ]
