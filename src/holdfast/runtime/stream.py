# pyright: reportPrivateUsage=false
"""Many results, one after the other: `as_completed` and the bounded `map_over`.

1. `as_completed` hands results out in the order of settlement; inputs settled already come first, in input
   order. Leaving the loop early leaves nothing registered. Whoever has taken all the futures out of it first
   (`list(as_completed(...))`) may await them in any order.
2. `map_over` has at most `limit` calls under way and starts them in item order. Its results are in item
   order. The first failure in time stops it: calls under way are interrupted, no more are started. It runs
   on as many fibers as it has items, and on no more than `limit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from holdfast.runtime.combine import futures_of
from holdfast.runtime.future import PENDING, REJECTED, Future, drop, leave_all, notify, unclaim, waiter_count
from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.scope import Scope

S = TypeVar("S")
T = TypeVar("T")


class _Next(Future[T]):
    """The result that will come next."""

    __slots__ = ("_claims", "_of", "_source")

    _lazy = True
    _linked = True
    _returnable = True

    def __init__(self, source: _Completions) -> None:
        super().__init__()
        self._source = source
        self._claims = 0
        self._of: Future[Any] | None = None  # whose result it is, if that can be given back

    def _attach(self) -> None:
        self._source.watch_again()

    def _unclaimed(self) -> Iterable[Future[Any]]:
        self._claims -= 1
        return () if self._claims > 0 or self._of is None else (self._of,)

    def _restored(self) -> None:
        if self._claims <= 0:
            self._source.take_back(self)

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
            if future._returnable:
                future._claims += 1  # type: ignore[attr-defined]
            self._pass_on(future)

    def watch_again(self) -> None:
        returned, self.returned = self.returned, []
        for future in returned:
            self._watch(future)

    def take_back(self, slot: _Next[Any]) -> None:
        """The result in a slot was seen by nobody. If it has gone back, the slot is empty again."""
        future, slot._of = slot._of, None
        if future is not None and future._state == PENDING:
            slot._state = PENDING
            self.empty.appendleft(slot)
            self.returned.append(future)

    def _fire(self, future: Future[Any], /) -> bool:
        if future in self.open:
            del self.open[future]
            self._pass_on(future)
        elif future._returnable:
            unclaim([future])
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return [slot for slot in self.empty if slot._waiters is not None]

    def _pass_on(self, future: Future[Any]) -> None:
        slot = self.empty.popleft()
        slot._adopt(future)
        slot._of = future if future._returnable else None
        slot._claims = waiter_count(slot)
        notify(slot)

    def let_go(self, unseen: Iterable[_Next[Any]]) -> None:
        watched, self.open = self.open, {}
        leave_all(watched, self)
        for slot in reversed([*unseen]):
            drop(slot)


def as_completed(inputs: Iterable[Waitable[T]]) -> Iterator[Future[T]]:
    """One future for each distinct input; awaiting the n-th gives the n-th result to arrive.

    >>> async def loop(pages: list[Future[int]]) -> list[int]:
    ...     return [await each for each in as_completed(pages)]
    """
    return _iterate(_Completions(futures_of(inputs)))


def _iterate(completions: _Completions) -> Iterator[Future[Any]]:
    unseen = deque(completions.slots)
    try:
        while unseen:
            yield unseen.popleft()
    except GeneratorExit:
        completions.let_go(unseen)
        raise


class _Workers(Scope):
    """A scope that fails with its first failure alone."""

    __slots__ = ()

    def _together(self, errors: list[BaseException]) -> BaseException:
        first: BaseException = next(iter(self._failed))._value if self._failed else errors[0]
        return first


def map_over(function: Callable[[S], Waitable[T]], items: Iterable[S], *, limit: int) -> Operation[list[T]]:
    """`function(item)` for every item, at most `limit` at a time; the results in item order.

    Raises the first failure, after the calls under way were interrupted and have ended.

    >>> async def measure(urls: list[str]) -> None:
    ...     sizes = await hf.map_over(download, urls, limit=10)
    """
    if limit < 1:
        raise ValueError(f"map_over() needs a limit of at least one, not {limit}.")

    async def worker(jobs: Iterator[tuple[int, S]], results: dict[int, T]) -> None:
        for index, item in jobs:
            results[index] = await delegate(function(item))

    async def run_all() -> list[T]:
        listed = list(enumerate(items))
        jobs = iter(listed)
        results: dict[int, T] = {}
        async with _Workers() as workers:
            for _ in range(min(limit, len(listed))):
                workers.spawn(worker, jobs, results)
        return [results[index] for index in sorted(results)]

    return Operation(run_all)
