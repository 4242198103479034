"""How an execution is asked to cancel itself: by a promise beside it, `root:cancel`, that is resolved.

It is part of the execution's branch, so whoever claims the execution is given it.
"""

from typing import Final

from holdfast.protocol import tags
from holdfast.protocol.ids import below
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.requests import PromiseCreate

LABEL: Final = "holdfast:op"  # the header of a record that names the operation it is of


def cancel_id(root: str) -> str:
    """The promise that asks an execution to cancel itself, once it is resolved."""
    return f"{below(root)}cancel"


def cancel_creation(root: str, origin: str, timeout_at: int) -> PromiseCreate:
    entries = {tags.ORIGIN: origin, tags.BRANCH: root, tags.PARENT: root, tags.SCOPE: "global"}
    return PromiseCreate(cancel_id(root), timeout_at, Value({LABEL: "cancel"}), entries)


def origin_of(promise: Promise) -> str:
    return promise.tags.get(tags.ORIGIN, promise.id)
