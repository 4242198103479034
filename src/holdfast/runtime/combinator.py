# pyright: reportPrivateUsage=false
"""Combinators as counters: futures that are told when their inputs settle. No fiber runs inside one.

Because nothing runs in a combinator, it costs no fiber and no turn of the queue, and a cancellation has
nothing to hide in: it is thrown at the fiber that waits.

1. Eager: a combinator watches its inputs from its creation on.
2. Inputs settled at creation are looked at in input order; after that the order of settlement decides.
   The input that decides the outcome ends the watching.
3. A future may be listed twice in one combinator and may be in many.
4. Once decided, or once its last waiter was thrown out, a combinator is registered nowhere. If it is
   awaited again while undecided, it registers again.
5. What was taken (an item of a queue, a permit) and is seen by no fiber goes back where it came from: because
   the fiber was thrown out, because another input decided, or because one failed. A combinator that had
   settled with it is undecided again.
6. Nothing here recurses into nested combinators, however deep.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from holdfast.runtime.errors import FiberInterrupted
from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import (
    PENDING,
    REJECTED,
    RESOLVED,
    Future,
    drop,
    leave_all,
    unclaim,
    waiter_count,
)
from holdfast.runtime.outcome import Err, Ok, Selected

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")

described_depth_max: Final = 3  # combinators inside combinators, in a description


class Combinator(Future[T]):
    """Watches inputs; the kinds below say what an input that settled means."""

    __slots__ = ("_claims", "_members", "_open", "_taken")

    _lazy = True
    _linked = True
    _returnable = True
    _verb = "combines"

    def __init__(self, members: Iterable[Future[Any]], scheduler: Scheduler) -> None:
        self._state = PENDING
        self._waiters = None
        self.scheduler = scheduler
        self._members = tuple(members)
        self._open: dict[Future[Any], None] | None = None
        self._taken: list[Future[Any]] | None = None  # members with something to give back
        self._claims = 0
        self._watch()

    def _seen(self, member: Future[Any]) -> bool:
        """A member has settled. True when that decides the outcome, which is then set."""
        raise NotImplementedError

    def _exhausted(self) -> None:
        """All members have settled and none has decided: set the outcome."""
        raise NotImplementedError

    def _attach(self) -> None:
        """Watch again, the innermost first."""
        if self._open is not None:
            return
        found: dict[Combinator[Any], None] = {self: None}
        stack: list[Combinator[Any]] = [self]
        while stack:
            for member in stack.pop()._members:
                if isinstance(member, Combinator) and member._state == PENDING and member._open is None:
                    found.pop(member, None)
                    found[member] = None
                    stack.append(member)
        for each in reversed(found):
            each._watch()

    def _watch(self) -> None:
        watched: dict[Future[Any], None] = {}
        self._open = watched
        for member in self._members:
            if member in watched:
                continue
            if member._state == PENDING:
                if member._waiters is not None:
                    member._add(self)
                else:
                    if member._lazy:
                        member._attach()
                    if member._state == PENDING:
                        member._waiters = self
            if member._state == PENDING:
                watched[member] = None
                continue
            if member._returnable:
                self._take(member)
            if member._state == REJECTED:
                member._observed()
            if self._seen(member):
                self._let_go()
                self._return_all_but(member)
                for unwatched in self._members[self._members.index(member) + 1 :]:
                    if unwatched is not member:
                        drop(unwatched)
                return
        if not watched:
            self._exhausted()

    def _fire(self, future: Future[Any], /) -> bool:
        watched = self._open
        if watched is None or future not in watched:
            if future._returnable:
                unclaim([future])
            return False  # decided or detached since: this wake-up is out of date
        del watched[future]
        if future._returnable:
            if self._taken is None:
                self._taken = [future]
            else:
                self._taken.append(future)
        if self._seen(future):
            self._claims = waiter_count(self)
            self._let_go()
            self._return_all_but(future)
        elif watched:
            return False
        else:
            self._claims = waiter_count(self)
            self._exhausted()
        return True

    def _take(self, member: Future[Any]) -> None:
        cast(Any, member)._claims += 1
        if self._taken is None:
            self._taken = [member]
        else:
            self._taken.append(member)

    def _return_all_but(self, decisive: Future[Any]) -> None:
        """One input decided: what the others gave is of no use."""
        taken = self._taken
        if taken is not None and (len(taken) > 1 or taken[0] is not decisive):
            self._taken = [member for member in taken if member is decisive]
            unclaim([member for member in taken if member is not decisive])

    def _unclaimed(self) -> Iterable[Future[Any]]:
        self._claims -= 1
        return () if self._claims > 0 else self._taken or ()

    def _taken_back(self) -> Iterable[Future[Any]]:
        taken, self._taken = self._taken or (), None
        return taken

    def _restored(self) -> None:
        if self._claims <= 0 and any(member._state == PENDING for member in self._taken_back()):
            self._state = PENDING
            self._open = None

    def _let_go(self) -> None:
        watched, self._open = self._open, {}
        if watched:
            leave_all(watched, self)

    def _detached(self) -> Iterable[Future[Any]]:
        watched, self._open = self._open, None
        return watched or ()

    def _inputs(self) -> Iterable[Future[Any]]:
        return self._members if self._open is None else self._open

    def _describe(self) -> str:
        return self._described(described_depth_max)

    def _described(self, depth: int) -> str:
        title = f"{self._verb} {len(self._members)}"
        if not depth:
            return title
        missing = [member for member in self._inputs() if member._state == PENDING]
        shown = ", ".join(
            member._described(depth - 1) if isinstance(member, Combinator) else member._describe()
            for member in missing[:3]
        )
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"{title}, still open: {shown or 'none'}{more}"


class All(Combinator[Any]):
    """Every value in input order, or the first failure. A list, or a tuple for inputs given one by one."""

    __slots__ = ("_shape",)
    _verb = "all of"

    def __init__(
        self,
        members: Iterable[Future[Any]],
        scheduler: Scheduler,
        shape: type[list[Any]] | type[tuple[Any, ...]],
    ) -> None:
        self._shape = shape
        super().__init__(members, scheduler)

    def _seen(self, member: Future[Any]) -> bool:
        if member._state == RESOLVED:
            return False
        self._adopt(member)
        return True

    def _exhausted(self) -> None:
        self._resolve(self._shape([member._value for member in self._members]))


class Race(Combinator[Any]):
    """The first to settle, whichever way."""

    __slots__ = ("_cancel_losers",)
    _verb = "a race of"

    def __init__(self, members: Iterable[Future[Any]], scheduler: Scheduler, cancel_losers: bool) -> None:
        self._cancel_losers = cancel_losers
        super().__init__(members, scheduler)

    def _seen(self, member: Future[Any]) -> bool:
        self._adopt(member)
        return True

    def _let_go(self) -> None:
        super()._let_go()
        if self._cancel_losers:
            for member in self._members:
                call_off(member, FiberInterrupted("another input of the race was first"))


class AnyOf(Combinator[Any]):
    """The first to succeed; if none does, all errors in input order."""

    __slots__ = ()
    _verb = "any of"

    def _seen(self, member: Future[Any]) -> bool:
        if member._state == REJECTED:
            return False
        self._adopt(member)
        return True

    def _exhausted(self) -> None:
        errors = [member._value for member in self._members]
        self._reject(ExceptionGroup(f"none of the {len(errors)} alternatives succeeded", errors))


class AllSettled(Combinator[Any]):
    """What became of each input, in input order. Never fails because of one."""

    __slots__ = ()
    _verb = "all settled of"

    def _seen(self, member: Future[Any]) -> bool:
        return False

    def _exhausted(self) -> None:
        self._resolve(
            [
                Ok(member._value) if member._state == RESOLVED else Err(member._value)
                for member in self._members
            ]
        )


class Select(Combinator[Selected[Any]]):
    """The tag and future of the first branch to settle."""

    __slots__ = ("_tags",)
    _verb = "a select of"

    def __init__(self, branches: dict[str, Future[Any]], scheduler: Scheduler) -> None:
        self._tags = tuple(branches)
        super().__init__(branches.values(), scheduler)

    def _seen(self, member: Future[Any]) -> bool:
        self._resolve(Selected(self._tags[self._members.index(member)], member))
        return True


def call_off(loser: Future[Any], error: Exception) -> None:
    """Interrupt a losing fiber, tell a losing step that its result is not wanted, look into combinators."""
    stack = [loser]
    while stack:
        future = stack.pop()
        if future._state != PENDING:
            continue
        if isinstance(future, Fiber):
            future._interrupt(error)
        elif isinstance(future, Combinator):
            stack.extend(reversed(future._members))
        elif future._durable:
            revoke = getattr(cast(Any, future).operation, "call_off", None)
            if revoke is not None:
                revoke(error)
