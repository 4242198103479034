"""Forgets executions that ended long ago, a little at a time, so that nobody waits for it.

One pass walks all promises in the order of their ids, a page to a transaction. The rule itself is in
`engine.retention`.
"""

from collections.abc import Set
from typing import Final

from msgspec import Struct

from holdfast.engine import Footprint, Rules, WorkingSet
from holdfast.engine.retention import is_over, owner_of
from holdfast.engine.scans import Page, PromiseScan, TreeScan
from holdfast.protocol.ids import root_of
from holdfast.protocol.records import Millis
from holdfast.store.interface import Find, Load, Now, Save, Work

page_promises: Final = 200
forgotten_max: Final = 1_000  # in one transaction, and one tree more
tree_promises_max: Final = 100_000
origins_max: Final = 16  # how far a tree may reach from root to root


class Progress(Struct, frozen=True):
    """How far a pass has come: the last id it looked at (None: the end), what it has decided on."""

    after: str | None
    owners: Set[str]
    forgotten: int


def collect_page(progress: Progress, older_than_ms: int, reading: Millis) -> Work[Progress]:
    """Look at one page of promises and forget the trees among them that are over."""
    now: Millis = yield Now(reading)
    before = now - older_than_ms
    ids: list[str] = yield Find(PromiseScan(Page(progress.after or "", "", page_promises), now, (), {}))
    seen = WorkingSet(Rules())
    yield Load(seen, Footprint(views=set(ids)))
    owners: set[str] = set()
    forgotten = 0
    after: str | None = None
    for promise_id in ids:
        promise = seen.promise(promise_id)
        if promise is not None and is_over(promise, before, now):
            owner = yield from _highest_owner(owner_of(promise), seen)
            if owner not in progress.owners and owner not in owners:
                owners.add(owner)
                forgotten += yield from _forget_tree(owner, before, now)
        after = promise_id
        if forgotten >= forgotten_max:
            break
    if len(ids) < page_promises and forgotten < forgotten_max:
        after = None
    return Progress(after, progress.owners | owners, progress.forgotten + forgotten)


def _highest_owner(owner: str, seen: WorkingSet) -> Work[str]:
    """An execution that another one started belongs to the tree of that one."""
    for _ in range(origins_max):
        yield Load(seen, Footprint(views={owner}))
        promise = seen.promise(owner)
        if promise is None or owner_of(promise) == owner:
            break
        owner = owner_of(promise)
    return owner


def _forget_tree(owner: str, before: Millis, now: Millis) -> Work[int]:
    members = yield from _tree_of(owner)
    tree = WorkingSet(Rules())
    yield Load(tree, Footprint(promises=members))
    promises = [promise for key in members if (promise := tree.promise(key)) is not None]
    if not members or not all(is_over(promise, before, now) for promise in promises):
        return 0
    for promise in promises:
        tree.forget(promise.id)
    yield Save(tree, None)
    return len(promises)


def _tree_of(owner: str) -> Work[set[str]]:
    """Every member of a tree; none if it is too large to be sure."""
    roots, new, members = {owner}, {owner}, set[str]()
    for _ in range(origins_max):
        found: list[str] = yield Find(TreeScan(tuple(sorted(new)), tree_promises_max))
        members.update(found)
        new = {root_of(member) for member in found} - roots
        if len(members) >= tree_promises_max:
            break
        if not new:
            return members
        roots |= new
    return set()
