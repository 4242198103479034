"""Which executions are over and may be forgotten: whole trees, or nothing.

The tree of an execution is every promise below its root id (`root`, `root:1`, `root.a:2`), every promise
whose origin it is, and so on from the roots of those. A running execution may ask again for anything in its
tree, however long ago that was settled. So a tree goes when all of it has been settled long enough.
"""

from holdfast.engine.view import is_live
from holdfast.protocol import tags
from holdfast.protocol.ids import root_of
from holdfast.protocol.records import Millis, Promise


def owner_of(promise: Promise) -> str:
    """The root of the tree that a promise belongs to, as far as it says itself."""
    return root_of(promise.tags.get(tags.ORIGIN) or promise.id)


def is_over(promise: Promise, before: Millis, now: Millis) -> bool:
    """Settled, or past its deadline, since before that instant?"""
    settled_at = promise.timeout_at if promise.settled_at is None else promise.settled_at
    return not is_live(promise, now) and settled_at < before
