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
5. What was taken for a fiber that never saw it (an item of a queue, a permit) goes back where it came from,
   and the combinator is undecided again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from holdfast.runtime.errors import TaskInterrupted
from holdfast.runtime.future import PENDING, REJECTED, RESOLVED, Future, leave
from holdfast.runtime.task import Task

T = TypeVar("T")


class Ok(NamedTuple, Generic[T]):
    """What succeeded: an input in the list `all_settled` gives, or something that was asked of a node."""

    value: T

    @property
    def is_ok(self) -> bool:
        return True

    @property
    def is_err(self) -> bool:
        return False

    @property
    def ok_value(self) -> T:
        return self.value

    @property
    def err_value(self) -> NoReturn:
        raise ValueError("It succeeded, so there is no error.")


class Failed(NamedTuple):
    """An input that failed, in the list `all_settled` gives."""

    error: Exception


class Selected(NamedTuple, Generic[T]):
    """The branch that settled first. Await `future` for its value or its error."""

    tag: str
    future: Future[T]


class Combinator(Future[T]):
    """Watches inputs; the kinds below say what an input that settled means."""

    __slots__ = ("_members", "_open", "_taken")

    _lazy = True
    _linked = True
    _returnable = True
    _verb = "combines"

    def __init__(self, members: Iterable[Future[Any]]) -> None:
        self._state = PENDING
        self._waiters = None
        self._members = tuple(members)
        self._open: dict[Future[Any], None] | None = None
        self._taken: list[Future[Any]] | None = None  # members with something to give back
        self._attach()

    def _seen(self, member: Future[Any]) -> bool:
        """A member has settled. True when that decides the outcome, which is then set."""
        raise NotImplementedError

    def _exhausted(self) -> None:
        """All members have settled and none has decided: set the outcome."""
        raise NotImplementedError

    def _attach(self) -> None:
        if self._open is not None:
            return
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
                    elif member._returnable:
                        self._take(member)
            if member._state == PENDING:
                watched[member] = None
                continue
            if member._state == REJECTED:
                member._observed()
            if self._seen(member):
                self._let_go()
                return
        if not watched:
            self._exhausted()

    def _fire(self, future: Future[Any], /) -> bool:
        watched = self._open
        if watched is None or future not in watched:
            return False  # decided or detached since: stale news
        del watched[future]
        if future._returnable:
            self._take(future)
        if self._seen(future):
            self._let_go()
        elif watched:
            return False
        else:
            self._exhausted()
        if type(self._waiters) is dict:
            self._taken = None  # several fibers will see it
        return True

    def _take(self, member: Future[Any]) -> None:
        if self._taken is None:
            self._taken = [member]
        else:
            self._taken.append(member)

    def _give_back(self) -> list[Future[Any]]:
        """The last one taken first, so that items stand in their queue as before."""
        taken, self._taken = self._taken or [], None
        for member in reversed(taken):
            member._unreceived()
        return taken

    def _unreceived(self) -> None:
        if any(member._state == PENDING for member in self._give_back()):
            self._state = PENDING
            self._open = None

    def _let_go(self) -> None:
        watched, self._open = self._open, {}
        for member in watched or ():
            leave(member, self)

    def _detached(self) -> Iterable[Future[Any]]:
        watched, self._open = self._open, None
        self._give_back()
        return watched or ()

    def _inputs(self) -> Iterable[Future[Any]]:
        return self._members if self._open is None else self._open

    def _describe(self) -> str:
        missing = [member._describe() for member in self._inputs() if member._state == PENDING]
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        return f"{self._verb} {len(self._members)}, still open: {shown or 'none'}"


class All(Combinator[Any]):
    """Every value in input order, or the first failure. A list, or a tuple for inputs given one by one."""

    __slots__ = ("_shape",)
    _verb = "all of"

    def __init__(
        self, members: Iterable[Future[Any]], shape: type[list[Any]] | type[tuple[Any, ...]]
    ) -> None:
        self._shape = shape
        super().__init__(members)

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

    def __init__(self, members: Iterable[Future[Any]], cancel_losers: bool) -> None:
        self._cancel_losers = cancel_losers
        super().__init__(members)

    def _seen(self, member: Future[Any]) -> bool:
        self._adopt(member)
        return True

    def _let_go(self) -> None:
        super()._let_go()
        if self._cancel_losers:
            for member in self._members:
                _call_off(member)


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
                Ok(member._value) if member._state == RESOLVED else Failed(member._value)
                for member in self._members
            ]
        )


class Select(Combinator[Selected[Any]]):
    """The tag and future of the first branch to settle."""

    __slots__ = ("_tags",)
    _verb = "a select of"

    def __init__(self, branches: dict[str, Future[Any]]) -> None:
        self._tags = tuple(branches)
        super().__init__(branches.values())

    def _seen(self, member: Future[Any]) -> bool:
        self._resolve(Selected(self._tags[self._members.index(member)], member))
        return True


def _call_off(loser: Future[Any]) -> None:
    """Interrupt a losing task, tell a losing step that its result is not wanted, look into combinators."""
    error = TaskInterrupted("another input of the race was first")
    stack = [loser]
    while stack:
        future = stack.pop()
        if future._state != PENDING:
            continue
        if isinstance(future, Task):
            future._interrupt(error)
        elif isinstance(future, Combinator):
            stack.extend(reversed(future._members))
        elif future._durable:
            call_off = getattr(cast(Any, future).operation, "call_off", None)
            if call_off is not None:
                call_off(error)
