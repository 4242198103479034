# pyright: reportPrivateUsage=false
"""The combinators a user calls: `gather`, `race`, `any_of`, `all_settled`, `select`.

All take futures, operations, coroutines or generators; what is not a future yet is spawned. All return a
future at once. Give the inputs one by one (the types are kept apart) or as one iterable. What each means
is in combinator.py; this file is about types and about refusing what makes no sense.

`gather` and `any_of` are also reachable as `holdfast.runtime.all` and `.any`, the names of the field.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, overload

from holdfast.runtime.combinator import All, AllSettled, AnyOf, Race, Select
from holdfast.runtime.errors import wrong_execution
from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation, Waitable
from holdfast.runtime.outcome import Err, Ok, Selected
from holdfast.runtime.slot import current

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

_any_future: Final[Any] = Future  # typed like that, no input need be cast: there may be many

Single: TypeAlias = Future[T] | Operation[T] | Coroutine[Any, Any, T]


@overload
def gather(a: Single[A], /) -> Future[tuple[A]]: ...
@overload
def gather(inputs: Iterable[Waitable[T]], /) -> Future[list[T]]: ...
@overload
def gather(a: Waitable[A], b: Waitable[B], /) -> Future[tuple[A, B]]: ...
@overload
def gather(a: Waitable[A], b: Waitable[B], c: Waitable[C], /) -> Future[tuple[A, B, C]]: ...
@overload
def gather(
    a: Waitable[A], b: Waitable[B], c: Waitable[C], d: Waitable[D], /
) -> Future[tuple[A, B, C, D]]: ...
@overload
def gather(
    a: Waitable[A], b: Waitable[B], c: Waitable[C], d: Waitable[D], e: Waitable[E], /
) -> Future[tuple[A, B, C, D, E]]: ...
@overload
def gather(
    a: Waitable[A], b: Waitable[B], c: Waitable[C], d: Waitable[D], e: Waitable[E], f: Waitable[F], /
) -> Future[tuple[A, B, C, D, E, F]]: ...
@overload
def gather(*inputs: Waitable[T]) -> Future[tuple[T, ...]]: ...
def gather(*inputs: Any) -> Future[Any]:
    """Every value in input order: a list for one iterable, a tuple for inputs given one by one.

    Raises the first failure, whatever kind the inputs are; the other inputs continue. Without inputs the
    result is empty. Crash: a replay sees the same values in the same order.

    >>> async def look(item: str) -> None:
    ...     stock, price = await hf.gather(count(item), quote(item))
    """
    members, shape = _members(inputs)
    return All(members, current(), shape)


@overload
def race(a: Single[A], /, *, cancel_losers: bool = False) -> Future[A]: ...
@overload
def race(inputs: Iterable[Waitable[T]], /, *, cancel_losers: bool = False) -> Future[T]: ...
@overload
def race(a: Waitable[A], b: Waitable[B], /, *, cancel_losers: bool = False) -> Future[A | B]: ...
@overload
def race(
    a: Waitable[A], b: Waitable[B], c: Waitable[C], /, *, cancel_losers: bool = False
) -> Future[A | B | C]: ...
@overload
def race(
    a: Waitable[A], b: Waitable[B], c: Waitable[C], d: Waitable[D], /, *, cancel_losers: bool = False
) -> Future[A | B | C | D]: ...
@overload
def race(*inputs: Waitable[T], cancel_losers: bool = False) -> Future[T]: ...
def race(*inputs: Any, cancel_losers: bool = False) -> Future[Any]:
    """The value or the error of the first input to settle.

    The others continue. With `cancel_losers`, losing fibers are interrupted and the signals of losing
    steps are set. Without inputs it raises ValueError, since nothing could ever win. Crash: the winner
    is recorded, so a replay has the same one.

    >>> async def buy() -> None:
    ...     first = await hf.race(ask_shop(1), ask_shop(2))
    """
    return Race(_some(inputs, "race"), current(), cancel_losers)


@overload
def any_of(a: Single[A], /) -> Future[A]: ...
@overload
def any_of(inputs: Iterable[Waitable[T]], /) -> Future[T]: ...
@overload
def any_of(a: Waitable[A], b: Waitable[B], /) -> Future[A | B]: ...
@overload
def any_of(a: Waitable[A], b: Waitable[B], c: Waitable[C], /) -> Future[A | B | C]: ...
@overload
def any_of(a: Waitable[A], b: Waitable[B], c: Waitable[C], d: Waitable[D], /) -> Future[A | B | C | D]: ...
@overload
def any_of(*inputs: Waitable[T]) -> Future[T]: ...
def any_of(*inputs: Any) -> Future[Any]:
    """The value of the first input to succeed. If all fail, an ExceptionGroup in input order.

    >>> async def buy() -> None:
    ...     quote = await hf.any_of(ask_shop(1), ask_shop(2))
    """
    return AnyOf(_some(inputs, "any_of"), current())


@overload
def all_settled(a: Single[A], /) -> Future[list[Ok[A] | Err[Exception]]]: ...
@overload
def all_settled(inputs: Iterable[Waitable[T]], /) -> Future[list[Ok[T] | Err[Exception]]]: ...
@overload
def all_settled(*inputs: Waitable[T]) -> Future[list[Ok[T] | Err[Exception]]]: ...
def all_settled(*inputs: Any) -> Future[Any]:
    """The outcome of each input, in input order: `Ok(value)` or `Err(error)`.

    A failed input never makes it raise. A cancellation does: it is raised in the fiber that waits here.

    >>> async def charge_all(cards: list[str]) -> None:
    ...     outcomes = await hf.all_settled(charge(card) for card in cards)
    """
    return AllSettled(_members(inputs)[0], current())


def select(branches: Mapping[str, Waitable[T]] | None = None, /, **more: Waitable[T]) -> Future[Selected[T]]:
    """The first branch to settle, as `Selected(tag, future)`; branches settled already go in the order given.

    >>> async def either(work: Future[int], stop: Future[None]) -> int:
    ...     match await select(work=work, stop=stop):
    ...         case Selected("work", future):
    ...             return await future or 0
    ...         case _:
    ...             return -1
    """
    scheduler = current()
    chosen = {**(branches or {}), **more}
    if not chosen:
        raise ValueError("select() needs at least one branch: with none it could never return.")
    return Select({tag: _future(each, scheduler) for tag, each in chosen.items()}, scheduler)


def futures_of(inputs: Iterable[Any]) -> list[Future[Any]]:
    """The inputs as futures; what is not one yet is spawned, what belongs to another execution is refused."""
    scheduler = current()
    return [
        each if isinstance(each, _any_future) and each.scheduler is scheduler else _future(each, scheduler)
        for each in inputs
    ]


def _some(inputs: tuple[Any, ...], name: str) -> list[Future[Any]]:
    members, _ = _members(inputs)
    if not members:
        raise ValueError(f"{name}() needs at least one input: with none it could never settle.")
    return members


def _members(inputs: tuple[Any, ...]) -> tuple[list[Future[Any]], type[list[Any]] | type[tuple[Any, ...]]]:
    """The inputs as futures, and the shape of the answer."""
    if len(inputs) == 1 and not _is_waitable(inputs[0]):
        return futures_of(inputs[0]), list
    return futures_of(inputs), tuple if inputs else list


def _is_waitable(given: Any) -> bool:
    if isinstance(given, GeneratorType):
        # `gather(work(x) for x in items)`: a generator expression lists inputs, it is not one.
        return given.gi_code.co_name != "<genexpr>"
    return isinstance(given, Future | Operation | CoroutineType)


def _future(each: Any, scheduler: Scheduler) -> Future[Any]:
    future: Future[Any] = each
    if not isinstance(each, Future):
        future = scheduler.spawn(each)
    elif future.scheduler is not scheduler and not future._admit(scheduler):
        raise wrong_execution(future._describe())
    return future
