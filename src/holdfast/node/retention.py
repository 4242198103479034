"""Deletes executions that ended long ago, a few at a time, so that nobody waits for it.

One pass walks all promises in the order of their ids, a page to a transaction. The rule itself is in
`engine.retention`.

1. A tree is judged when the walk meets its owner. (Where the owner does not exist: the first of its members.)
2. A transaction forgets at most `forgotten_max` promises. A tree that is larger goes in several, its roots
   last: if nobody comes to finish it, the next pass finds the root and goes on.
   One of more than `tree_promises_max`, such as an execution with many messages, is never seen whole: it is
   judged a page to a transaction, and then goes in the same way. That needs all of it to have one root.
3. A pass can be interrupted anywhere, and many may run at once: what goes is checked again while it is held.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine import Footprint, Rules, WorkingSet
from holdfast.engine.retention import (
    are_owed,
    ended_before,
    is_over,
    may_go,
    order_of_leaving,
    owner_of,
    unsettled,
)
from holdfast.engine.scans import Page, PromiseScan, TreeScan
from holdfast.node.reads import load_readable
from holdfast.protocol.ids import root_of
from holdfast.protocol.mending import being_deleted, is_being_deleted
from holdfast.protocol.records import Millis, Promise
from holdfast.store.interface import CorruptRecord, Find, Load, Now, Save, Work

page_promises: Final = 200
forgotten_max: Final = 1_000  # in one transaction
tree_promises_max: Final = 100_000
origins_max: Final = 16  # how far a tree may reach from root to root


class RetentionProgress(Struct, frozen=True, rename="camel"):
    """How far a pass has come: the last id it is done with (None: the end), and what it did so far."""

    after: str | None = ""
    judged: str | None = None  # the owner of a tree that is over and not yet gone
    judging: str | None = None  # the owner of a large one, of which a part was seen,
    judged_to: str = ""  # up to this id
    looked: int = 0
    trees: int = 0
    forgotten: int = 0
    too_large: int = 0  # trees that could not be seen whole, and stay


def collect_page(
    progress: RetentionProgress, older_than_ms: int | None, reading: Millis, *, dry_run: bool = False
) -> Work[RetentionProgress]:
    """Look at one page of promises and forget the trees among them that are over (or only count them).

    `older_than_ms` is for those that do not say themselves how long they are kept; None: these stay.
    """
    now: Millis = yield Now(reading)
    before = None if older_than_ms is None else now - older_than_ms
    pass_ = _Pass(progress, before, now, dry_run)
    ids: list[str] = yield Find(PromiseScan(Page(progress.after or "", "", page_promises), now, (), {}))
    readable = set((yield from load_readable(pass_.seen, ids)))
    for promise_id in ids:
        whole = True
        with suppress(CorruptRecord):  # the tree that it belongs to stays
            whole = promise_id not in readable or (yield from pass_.may_delete(promise_id))
        if not whole:  # the rest of this tree is for the next transaction, which begins with it
            return pass_.progress
        pass_.progress = replace(pass_.progress, after=promise_id, looked=pass_.progress.looked + 1)
        if pass_.room <= 0:
            return pass_.progress
    return pass_.progress if len(ids) == page_promises else replace(pass_.progress, after=None)


class _Pass:
    """One transaction of a pass."""

    def __init__(
        self, progress: RetentionProgress, before: Millis | None, now: Millis, dry_run: bool
    ) -> None:
        self.progress = progress
        self.seen = WorkingSet(Rules())  # what is only looked at
        self.room = forgotten_max
        self._before_all = before
        self._before: Millis = 0  # of the tree that is looked at
        self._now = now
        self._dry_run = dry_run
        self._ownerless: set[str] = set()

    def may_delete(self, promise_id: str) -> Work[bool]:
        """Forget the tree that this promise owns, if it is over. False: there is more of it."""
        promise = self.seen.promise(promise_id)
        before = None if promise is None else ended_before(promise, self._before_all, self._now)
        if promise is None or before is None or not is_over(promise, before, self._now):
            return True
        self._before = before
        owner = yield from self._highest_owner(promise)
        if owner is None:
            self._note_too_large()
            return True
        if owner != promise_id and (self.seen.promise(owner) is not None or owner in self._ownerless):
            return True
        self._ownerless.add(owner)
        if owner == self.progress.judging:
            return (yield from self._judge_page(owner))
        members, roots = yield from self._tree_of(owner)
        if not members and owner == promise_id:
            return (yield from self._judge_page(owner))
        if not members:
            self._note_too_large()
        elif owner == promise_id or promise_id == min(members):
            return (yield from self._forget_tree(owner, members, roots))
        return True

    def _note_too_large(self) -> None:
        self.progress = replace(self.progress, too_large=self.progress.too_large + 1)

    def _highest_owner(self, promise: Promise) -> Work[str | None]:
        """An execution that another one started belongs to the tree of that one. None: too far away."""
        path: list[str] = []
        owner = owner_of(promise)
        while owner not in path:
            if len(path) == origins_max:
                return None
            path.append(owner)
            yield Load(self.seen, Footprint(views={owner}))
            above = self.seen.promise(owner)
            if above is None:
                return owner
            owner = owner_of(above)
        return min(path[path.index(owner) :])  # itself, or the first of those that name each other

    def _tree_of(self, owner: str) -> Work[tuple[list[str], set[str]]]:
        """The members of a tree in the order of leaving, and its roots; none if too large to be sure."""
        roots, new, members = {owner}, {owner}, set[str]()
        for _ in range(origins_max):
            found: list[str] = yield Find(TreeScan(tuple(sorted(new)), tree_promises_max))
            members.update(found)
            new = {root_of(member) for member in found} - roots
            if len(members) >= tree_promises_max:
                break
            if not new:
                return order_of_leaving(members, owner), roots
            roots |= new
        return [], roots

    def _judge_page(self, owner: str) -> Work[bool]:
        """One page of a tree that is too large to be seen whole; or, once all of it was, of its leaving."""
        if self.progress.judged == owner:
            return (yield from self._forget_page(owner))
        after = self.progress.judged_to if self.progress.judging == owner else ""
        page: list[str] = yield Find(TreeScan((owner,), forgotten_max, after))
        over = yield from self._are_over(page, {owner})
        if any(root_of(member) != owner for member in page):
            self._note_too_large()
            over = False
        if not over:
            self.progress = replace(self.progress, judging=None, judged_to="")
            return True
        self.room = 0  # looking takes its time, too: the next page is for the next transaction
        is_last = len(page) < forgotten_max
        self.progress = replace(
            self.progress,
            judging=owner,
            judged_to=page[-1] if page else after,
            judged=owner if is_last else None,
        )
        if self._dry_run:
            self._note_gone(len(page), None if is_last else owner)
            self.progress = replace(self.progress, judged=None, judging=None if is_last else owner)
            return is_last
        return False

    def _forget_page(self, owner: str) -> Work[bool]:
        if self.room < forgotten_max:
            return False
        page: list[str] = yield Find(TreeScan((owner,), forgotten_max + 1, ""))
        leaving = order_of_leaving(page, owner)[:forgotten_max]
        is_whole = len(leaving) == len(page)
        gone = yield from self._forget(leaving, {owner}, None if is_whole else owner)
        if gone:
            self._note_gone(len(leaving), None if is_whole else owner)
        else:
            is_whole, self.progress = True, replace(self.progress, judged=None)
        if is_whole:
            self.progress = replace(self.progress, judging=None, judged_to="")
        return is_whole

    def _forget_tree(self, owner: str, members: list[str], roots: set[str]) -> Work[bool]:
        if self.progress.judged != owner:
            for start in range(0, len(members), forgotten_max):
                over = yield from self._are_over(members[start : start + forgotten_max], roots)
                if not over:
                    return True
        if self._dry_run:
            self._note_gone(len(members), None)
            return True
        if self.room < min(len(members), forgotten_max):
            return False  # what fits into one transaction goes in one
        leaving = members[: self.room]
        is_whole = len(leaving) == len(members)
        gone = yield from self._forget(leaving, roots, None if is_whole else owner)
        if not gone:
            self.progress = replace(self.progress, judged=None)
            return True
        self._note_gone(len(leaving), None if is_whole else owner)
        return is_whole

    def _note_gone(self, count: int, judged: str | None) -> None:
        self.room -= count
        self.progress = replace(
            self.progress,
            forgotten=self.progress.forgotten + count,
            trees=self.progress.trees + (judged is None),
            judged=judged,
        )

    def _are_over(self, members: Sequence[str], roots: set[str]) -> Work[bool]:
        """As far as can be seen without holding them."""
        seen = WorkingSet(Rules())
        yield Load(seen, Footprint(views=set(members)))
        promises = [promise for key in members if (promise := seen.promise(key)) is not None]
        return may_go(promises, roots, self._before, self._now)

    def _forget(self, members: Sequence[str], roots: set[str], staying: str | None) -> Work[bool]:
        """`staying`: the owner of a tree of which more is left. It says so, and is not retried any more."""
        held = WorkingSet(Rules())
        yield Load(held, Footprint(promises={*members, *(() if staying is None else (staying,))}))
        promises = [promise for key in members if (promise := held.promise(key)) is not None]
        owner = None if staying is None else held.promise(staying)
        if owner is not None and not is_over(owner, self._before, self._now):
            return False  # it was retried meanwhile
        lapsed = unsettled(promises)
        if lapsed:
            yield Load(held, Footprint(obligations=lapsed))
        if not may_go(promises, roots, self._before, self._now) or are_owed(lapsed, held):
            return False
        for promise in promises:
            held.forget(promise.id)
        if owner is not None and owner.state != "pending" and not is_being_deleted(owner):
            held.put_promise(replace(owner, value=being_deleted(owner.value)))
        yield Save(held, None)
        return True
