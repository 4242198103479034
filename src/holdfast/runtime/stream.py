# pyright: reportPrivateUsage=false
"""Many results, one after the other: `as_completed` and the bounded `map_over`.

1. `as_completed` hands results out in the order of settlement; inputs settled already come first, in input
   order. Leaving the loop early leaves nothing registered.
2. `map_over` has at most `limit` calls under way and starts them in item order. Its results are in item
   order. The first failure stops it: calls under way are interrupted, no more are started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

from holdfast.runtime.combine import futures_of
from holdfast.runtime.future import PENDING, REJECTED, Future, leave, notify
from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.scope import Scope

S = TypeVar("S")
T = TypeVar("T")


class _Next(Future[T]):
    """The result that will come next."""

    __slots__ = ("_of", "_source")

    _lazy = True
    _linked = True
    _returnable = True

    def __init__(self, source: _Completions) -> None:
        super().__init__()
        self._source = source
        self._of: Future[Any] | None = None  # whose result it is

    def _attach(self) -> None:
        self._source.watch_again()

    def _unreceived(self) -> None:
        self._source.give_back(self)

    def _inputs(self) -> Iterable[Future[Any]]:
        return self._source.open

    def _describe(self) -> str:
        return f"the next of {len(self._source.open)} futures to settle"


class _Completions:
    """Passes each settlement on to the first slot that is still empty."""

    __slots__ = ("empty", "open", "returned", "slots")

    def __init__(self, inputs: list[Future[Any]]) -> None:
        self.open: dict[Future[Any], None] = {}
        self.slots: list[_Next[Any]] = [_Next(self) for _ in inputs]
        self.empty = deque(self.slots)
        self.returned: list[Future[Any]] = []  # no fiber saw the result: they are waited for anew
        repeats: dict[Future[Any], int] = {}
        for each in inputs:
            repeats[each] = repeats.get(each, 0) + 1
        for each, times in repeats.items():
            self._watch(each)
            for _ in range(times - 1):
                self.slots.remove(self.empty.pop())

    def _watch(self, future: Future[Any]) -> None:
        if future._state == PENDING and future._lazy and future._waiters is None:
            future._attach()
        if future._state == PENDING:
            future._add(self)
            self.open[future] = None
        else:
            if future._state == REJECTED:
                future._observed()
            self._pass_on(future)

    def watch_again(self) -> None:
        returned, self.returned = self.returned, []
        for future in returned:
            self._watch(future)

    def give_back(self, slot: _Next[Any]) -> None:
        """The result in a slot was seen by nobody: a queue's item goes back, and the slot is empty again."""
        future = slot._of
        if future is None:
            return
        future._unreceived()
        if future._state == PENDING:
            slot._state, slot._of = PENDING, None
            self.empty.appendleft(slot)
            self.returned.append(future)

    def _fire(self, future: Future[Any], /) -> bool:
        self.open.pop(future, None)
        self._pass_on(future)
        return False

    def _pass_on(self, future: Future[Any]) -> None:
        slot = self.empty.popleft()
        slot._adopt(future)
        slot._of = future if future._returnable and type(slot._waiters) is not dict else None
        notify(slot)

    def let_go(self, unseen: Iterable[_Next[Any]]) -> None:
        for each in self.open:
            leave(each, self)
        for slot in reversed([*unseen]):
            self.give_back(slot)


def as_completed(inputs: Iterable[Waitable[T]]) -> Iterator[Future[T]]:
    """One future for each distinct input; awaiting the n-th gives the n-th result to arrive.

    >>> async def loop(tasks: list[Future[int]]) -> list[int]:
    ...     return [await each for each in as_completed(tasks)]
    """
    return _iterate(_Completions(futures_of(inputs)))


def _iterate(completions: _Completions) -> Iterator[Future[Any]]:
    unseen = deque(completions.slots)
    try:
        while unseen:
            yield unseen.popleft()
    finally:
        completions.let_go(unseen)


def map_over(function: Callable[[S], Waitable[T]], items: Iterable[S], *, limit: int) -> Operation[list[T]]:
    """`function(item)` for every item, at most `limit` at a time; the results in item order.

    Raises the first failure, after the calls under way were interrupted and have ended.
    """
    if limit < 1:
        raise ValueError(f"map_over() needs a limit of at least one, not {limit}.")

    async def worker(jobs: Iterator[tuple[int, S]], results: dict[int, T]) -> None:
        for index, item in jobs:
            results[index] = await delegate(function(item))

    async def run_all() -> list[T]:
        jobs = iter(list(enumerate(items)))
        results: dict[int, T] = {}
        try:
            async with Scope() as workers:
                for _ in range(limit):
                    workers.spawn(worker, jobs, results)
        except ExceptionGroup as group:
            raise cast(Exception, group.exceptions[0]) from None
        return [results[index] for index in sorted(results)]

    return Operation(run_all)
