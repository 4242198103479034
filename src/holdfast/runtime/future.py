# pyright: reportPrivateUsage=false
"""Futures: settle-once values that fibers wait for, and the one way a settlement spreads.

There is one public type. Behind it a future is durable (settled by the world, see seam.py), a task, a
combinator or a local primitive; user code cannot tell and need not. Everything a fiber can wait for is
a `Future`, so a parked fiber always waits for exactly one object.

1. A future settles once and keeps its outcome: awaiting it again gives the same value or the same error.
2. Waiters are told in the order they registered. Being told never runs a fiber, it only queues one.
3. A waiter that stops waiting is removed. A pending future holds no waiter that is not waiting.
4. A settlement spreads without recursion, however deeply combinators are nested.
5. An error is delivered each time with the traceback it had when it was raised: it does not grow.

The waiter field is None, one waiter, or a dict used as an ordered set, because nearly every future has
exactly one waiter and a dict for each await would be the dearest part of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar, cast

from holdfast.runtime.errors import NotAwaited

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PENDING: Final = 0
RESOLVED: Final = 1
REJECTED: Final = 2


class Waiter(Protocol):
    """Who can wait for a future: a fiber, a combinator, a scope, a timeout."""

    def _fire(self, future: Future[Any], /) -> bool:
        """`future` has settled. True when this waiter is a future that settled because of it."""
        ...


class Future(Generic[T_co]):
    """A value that will exist. `await` it, or `yield from` it, as often and from as many fibers as you like.

    Awaiting raises the future's error if it failed, `Cancelled` if the execution is cancelled meanwhile,
    and whatever the task is interrupted with.
    """

    __slots__ = ("_state", "_trace", "_value", "_waiters")

    _state: int
    _value: Any
    _trace: tuple[TracebackType | None, BaseException | None]
    _waiters: Any

    # True on kinds that take their place in line only while somebody waits for them.
    _lazy = False
    # True on kinds whose wait can be part of a cycle: they depend on fibers.
    _linked = False
    # True on kinds whose value can be given back if no fiber saw it.
    _returnable = False
    # True on kinds that the world settles.
    _durable = False

    def __init__(self) -> None:
        self._state = PENDING
        self._waiters = None

    def __iter__(self) -> Generator[Any, Any, T_co]:
        value: T_co = yield self
        return value

    __await__ = __iter__

    def __bool__(self) -> NoReturn:
        raise NotAwaited(f"{self!r} was used as a condition. Await it, or ask `is not None`. [HF5111]")

    @property
    def settled(self) -> bool:
        """Whether the outcome is known here and now. Stable under replay."""
        return self._state != PENDING

    def result(self) -> T_co:
        """The value of a settled future, without waiting; raises its error if it failed."""
        if self._state == RESOLVED:
            return cast(T_co, self._value)
        if self._state == REJECTED:
            raise self._failure()
        raise RuntimeError("The future has not settled yet; await it instead.")

    def _failure(self) -> BaseException:
        """The error, made ready to be raised once more."""
        error: BaseException = self._value
        error.__traceback__, error.__context__ = self._trace
        self._observed()
        return error

    def _resolve(self, value: Any) -> None:
        self._state = RESOLVED
        self._value = value

    def _reject(self, error: BaseException) -> None:
        self._state = REJECTED
        self._value = error
        self._trace = (error.__traceback__, error.__context__)

    def _adopt(self, other: Future[Any]) -> None:
        """Settle as `other` did."""
        self._state = other._state
        self._value = other._value
        if other._state == REJECTED:
            self._trace = other._trace

    def _add(self, waiter: Waiter) -> None:
        waiters = self._waiters
        if waiters is None:
            self._waiters = waiter
        elif type(waiters) is dict:
            waiters[waiter] = None
        else:
            self._waiters = {waiters: None, waiter: None}

    def _take_waiters(self) -> Iterator[Waiter]:
        """Hand over all waiters, last registered first: callers pop them off a stack."""
        waiters = self._waiters
        self._waiters = None
        if waiters is None:
            return iter(())
        if type(waiters) is dict:
            return reversed(cast("dict[Waiter, None]", waiters))
        return iter((cast(Waiter, waiters),))

    def _attach(self) -> None:
        """The first waiter is about to arrive on a lazy future. May settle it."""

    def _detached(self) -> Iterable[Future[Any]]:
        """The last waiter left before settlement. Returns what this future itself waits for no longer."""
        return ()

    def _unreceived(self) -> None:
        """The only fiber this future woke was interrupted before it could run."""

    def _observed(self) -> None:
        """Somebody saw the failure."""

    def _inputs(self) -> Iterable[Future[Any]]:
        """What this future's settlement depends on, for `_linked` kinds."""
        return ()

    def _describe(self) -> str:
        return "a future"

    def __repr__(self) -> str:
        return f"<{self._describe()}, {('pending', 'resolved', 'rejected')[self._state]}>"


def notify(future: Future[Any]) -> None:
    """Tell everyone who waits for a future that has just settled, depth first, in registration order."""
    while (waiter := future._waiters) is not None and type(waiter) is not dict:
        # One waiter, as nearly always: follow the chain without a stack.
        future._waiters = None
        if not waiter._fire(future):
            return
        future = waiter
    stack: list[tuple[Future[Any], Waiter]] = [(future, each) for each in future._take_waiters()]
    while stack:
        settled, waiter = stack.pop()
        if waiter._fire(settled):
            chained = cast("Future[Any]", waiter)
            stack.extend((chained, each) for each in chained._take_waiters())


def leave(future: Future[Any], waiter: Waiter) -> None:
    """`waiter` waits for `future` no longer. A future nobody waits for lets go of its own inputs."""
    stack: list[tuple[Future[Any], Waiter]] = [(future, waiter)]
    while stack:
        future, waiter = stack.pop()
        if future._state != PENDING:
            continue
        waiters = future._waiters
        if waiters is waiter:
            future._waiters = None
        elif type(waiters) is dict and waiter in waiters:
            del waiters[waiter]
            if waiters:
                continue
            future._waiters = None
        else:
            continue
        stack.extend((each, cast(Waiter, future)) for each in future._detached())
