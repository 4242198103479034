"""Asking an execution to cancel itself: the requests that whoever asks sends.

A request to cancel is a promise beside the execution that is resolved; `workflow/cancellation.py` says what
becomes of it.
"""

from msgspec.structs import replace

from holdfast.protocol import limits, tags
from holdfast.protocol.operations import LABEL, cancel_id
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseSettle,
    RequestData,
)


def ask_to_cancel(root: str, origin: str, timeout_at: int = limits.instant_ms_max) -> list[RequestData]:
    """To be sent in this order, best in one commit."""
    name = cancel_id(root)
    return [
        cancel_creation(root, origin, timeout_at),
        PromiseRegisterCallback(name, root),
        PromiseSettle(name, "resolved"),
    ]


def cancel_creation(root: str, origin: str, timeout_at: int) -> PromiseCreate:
    entries = {tags.ORIGIN: origin, tags.BRANCH: root, tags.PARENT: root, tags.SCOPE: "global"}
    return PromiseCreate(cancel_id(root), timeout_at, Value({LABEL: "cancel"}), entries)


def deadline_creation(promise: Promise, grace: int) -> PromiseCreate:
    """The same, if it is its deadline that asks: so long before it is ended."""
    creation = cancel_creation(promise.id, origin_of(promise), max(0, promise.timeout_at - grace))
    return replace(creation, tags={**creation.tags, tags.TIMER: "true"})


def asked_by_deadline(asked: Promise) -> bool:
    """Of a promise that has asked: was it the deadline, and not somebody?"""
    return tags.is_timer(asked.tags) and asked.state == "resolved" and asked.settled_at == asked.timeout_at


def origin_of(promise: Promise) -> str:
    return promise.tags.get(tags.ORIGIN, promise.id)
