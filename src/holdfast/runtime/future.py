# pyright: reportPrivateUsage=false
"""Futures: settle-once values that fibers wait for, and the one way a settlement spreads.

There is one public type. Behind it a future is durable (settled by the world, see driver.py), a fiber, a
combinator or a local primitive; user code cannot tell and need not. Everything a fiber can wait for is
a `Future`, so a parked fiber always waits for exactly one object.

1. A future settles once and keeps its outcome: awaiting it again gives the same value or the same error.
2. Waiters are told in the order they registered. Being told never runs a fiber, it only queues one.
3. A waiter that stops waiting is removed. A pending future holds no waiter that is not waiting.
4. A settlement spreads without recursion, however deeply combinators are nested.
5. An error is delivered each time with the traceback it had when it was raised: it does not grow. Errors
   belong to others: nothing is assigned to them, because their classes may forbid it.
6. A future belongs to one scheduler. Another one can neither wait for it nor look at it.
7. What a fiber was given and never saw goes back (`_returnable` kinds). `claims` counts who was given the
   value; each that was thrown out before it ran hands its claim back, and with the last claim goes the value.

The waiter field is None, one waiter, or a dict used as an ordered set, because nearly every future has
exactly one waiter and a dict for each await would be the dearest part of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeVar, cast

from holdfast.runtime.errors import NotAwaited, wrong_execution
from holdfast.runtime.slot import slot

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PENDING: Final = 0
RESOLVED: Final = 1
REJECTED: Final = 2

_set_context = BaseException.__dict__["__context__"].__set__
_context_of = BaseException.__dict__["__context__"].__get__
traceback_of = BaseException.__dict__["__traceback__"].__get__  # whatever a subclass makes of the attribute


def with_history(error: BaseException, trace: TracebackType | None, context: BaseException | None) -> Any:
    """The error with this traceback and context, also if its class forbids assignment."""
    _set_context(error, context)
    return BaseException.with_traceback(error, trace)


class Waiter(Protocol):
    """Who can wait for a future: a fiber, a combinator, a scope, a timeout."""

    def _fire(self, future: Future[Any], /) -> bool:
        """`future` has settled. True when this waiter is a future that settled because of it."""
        ...

    def _dependents(self) -> Iterable[Future[Any]]:
        """The futures that can settle because this waiter is told."""
        ...


class Future(Generic[T_co]):
    """A value that will exist. `await` it, or `yield from` it, as often and from as many fibers as you like.

    Awaiting raises the future's error if it failed, `Cancelled` if the execution is cancelled meanwhile,
    and whatever the fiber is interrupted with.
    """

    __slots__ = ("_state", "_trace", "_value", "_waiters", "scheduler")

    _state: int
    _value: Any
    _trace: tuple[TracebackType | None, BaseException | None]
    _waiters: Any
    scheduler: Any  # whose it is; None until it is first used

    # True on kinds that take their place in line only while somebody waits for them.
    _lazy = False
    # True on kinds whose wait can be part of a cycle: they depend on fibers.
    _linked = False
    # True on kinds whose value can be given back if no fiber saw it. They have `_claims`.
    _returnable = False
    # True on kinds that the world settles.
    _durable = False

    def __init__(self) -> None:
        self._state = PENDING
        self._waiters = None
        self.scheduler = slot.scheduler

    def __iter__(self) -> Generator[Any, Any, T_co]:
        scheduler = slot.scheduler
        if scheduler is None or scheduler.strands is None:
            return self._park()
        return scheduler.strands.wait(self)

    __await__ = __iter__

    def _park(self) -> Generator[Any, Any, T_co]:
        """Wait on a fiber of its own."""
        value: T_co = yield self
        return value

    def __bool__(self) -> NoReturn:
        raise NotAwaited(f"{self!r} was used as a condition. Await it, or ask `is not None`. [HF5111]")

    @property
    def settled(self) -> bool:
        """Whether the outcome is known here and now. Stable under replay."""
        self._must_be_ours()
        return self._state != PENDING

    def result(self) -> T_co:
        """The value of a settled future, without waiting; raises its error if it failed."""
        self._must_be_ours()
        return self._outcome()

    def _outcome(self) -> T_co:
        if self._state == RESOLVED:
            return cast(T_co, self._value)
        if self._state == REJECTED:
            raise self._failure()
        raise RuntimeError("The future has not settled yet; await it instead.")

    def _failure(self) -> BaseException:
        """The error, made ready to be raised once more."""
        error: BaseException = with_history(self._value, *self._trace)
        self._observed()
        return error

    def _admit(self, scheduler: Scheduler) -> bool:
        """May this scheduler use it? What belongs to nobody yet belongs to the first that asks."""
        if self.scheduler is None:
            self.scheduler = scheduler
        return self.scheduler is scheduler

    def _must_be_ours(self) -> None:
        """Refuse a look from inside another execution. A driver may look."""
        scheduler = slot.scheduler
        if scheduler is not None and self.scheduler is not scheduler and not self._admit(scheduler):
            raise wrong_execution(self._describe())

    def _resolve(self, value: Any) -> None:
        self._state = RESOLVED
        self._value = value

    def _reject(self, error: BaseException) -> None:
        self._state = REJECTED
        self._value = error
        self._trace = (traceback_of(error), _context_of(error))

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

    def _taken_back(self) -> Iterable[Future[Any]]:
        """After `_detached`: whose values it had taken and has no use for."""
        return ()

    def _dependents(self) -> Iterable[Future[Any]]:
        return (self,)

    def _unclaimed(self) -> Iterable[Future[Any]]:
        """A claim was handed back. If it was the last: be as before, and return those whose claim that
        hands back in turn."""
        return ()

    def _restored(self) -> None:
        """All that was handed back together is back: serve whoever else waits for it."""

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


def waiter_count(future: Future[Any]) -> int:
    waiters = future._waiters
    if type(waiters) is dict:
        return len(cast("dict[Waiter, None]", waiters))
    return int(waiters is not None)


def leave(future: Future[Any], waiter: Waiter) -> None:
    """`waiter` waits for `future` no longer. A future nobody waits for lets go of its own inputs."""
    if future._state == PENDING:
        _let_go([(future, waiter)])


def leave_all(futures: Iterable[Future[Any]], waiter: Waiter) -> None:
    """The same for several, together."""
    _let_go([(future, waiter) for future in futures])


def drop(future: Future[Any]) -> None:
    """Nobody will look at this future now. If nobody else waits for it, it lets go of all it has taken."""
    if future._waiters is not None:
        return
    if future._state == PENDING:
        if future._lazy:
            _let_go([(each, cast(Waiter, future)) for each in future._detached()], [future])
    elif future._returnable and not cast(Any, future)._claims:
        cast(Any, future)._claims = 1
        unclaim([future])


def _let_go(stack: list[tuple[Future[Any], Waiter]], alone: list[Future[Any]] | None = None) -> None:
    """First everybody leaves the lines, then what was taken goes back: else they would be served again."""
    alone = [] if alone is None else alone
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
        alone.append(future)
        stack.extend((each, cast(Waiter, future)) for each in future._detached())
    taken = [each for future in alone for each in future._taken_back()]
    if taken:
        unclaim(taken)


def unclaim(futures: Iterable[Future[Any]]) -> None:
    """Somebody who was given the values of these futures was thrown out before it saw them."""
    stack = list(futures)
    touched: dict[Future[Any], None] = {}  # inputs after what they are inputs of
    while stack:
        future = stack.pop()
        if future._returnable and future._state != PENDING:
            touched.pop(future, None)
            touched[future] = None
            stack.extend(future._unclaimed())
    for future in reversed(touched):
        future._restored()
