"""Which executions are over and may be deleted: whole trees, or nothing.

The tree of an execution is every promise below its root id (`root`, `root:1`, `root.a:2`), every promise
whose origin it is, and so on from the roots of those. A running execution may ask again for anything in its
tree, however long ago that was settled. So a tree goes when all of it has been settled long enough.
"""

from collections.abc import Collection, Iterable

from holdfast.engine.view import is_live
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.events import read_wait_list
from holdfast.protocol.ids import root_of
from holdfast.protocol.locks import read_lock
from holdfast.protocol.records import Millis, Promise


def owner_of(promise: Promise) -> str:
    """The root of the tree that a promise belongs to, as far as it says itself."""
    return root_of(promise.tags.get(tags.ORIGIN) or promise.id)


def ended_before(promise: Promise, before: Millis | None, now: Millis) -> Millis | None:
    """Before which instant the tree of this promise must have ended to be deleted. None: it stays.

    `before` is what holds for all. The owner of a tree may say how long that is kept, shorter or longer.
    """
    keep_ms = tags.keep_of(promise.tags) if owner_of(promise) == promise.id else None
    return before if keep_ms is None else now - keep_ms


def is_over(promise: Promise, before: Millis, now: Millis) -> bool:
    """Settled, or past its deadline, since before that instant?"""
    if tags.LOCK in promise.tags:  # it stays pending; once nobody uses it, it is as good as settled
        idle_since = read_lock(promise).idle_since
        return idle_since is not None and idle_since < before
    if tags.WAITS in promise.tags:
        idle_since = read_wait_list(promise).idle_since
        return idle_since is not None and idle_since < before
    settled_at = promise.timeout_at if promise.settled_at is None else promise.settled_at
    return not is_live(promise, now) and settled_at < before


def may_go(promises: Iterable[Promise], roots: Collection[str], before: Millis, now: Millis) -> bool:
    """Are all of these over, and does none of them belong to a tree with another root?"""
    return all(is_over(promise, before, now) and owner_of(promise) in roots for promise in promises)


def order_of_leaving(members: Iterable[str], owner: str) -> list[str]:
    """Roots last, the owner last of all: whoever finds a root finds what is below it, or needs it no more."""
    return sorted(members, key=lambda member: (member == owner, root_of(member) == member, member))


def unsettled(promises: Iterable[Promise]) -> set[str]:
    """Those that only their deadline has ended: nothing about them was settled, and nobody was told."""
    return {promise.id for promise in promises if promise.state == "pending"}


def are_owed(promise_ids: Iterable[str], ws: WorkingSet) -> bool:
    """Does anybody still have to be told of one of these? Their obligations are known to the set."""
    return any(ws.is_watched(promise_id) for promise_id in promise_ids)
