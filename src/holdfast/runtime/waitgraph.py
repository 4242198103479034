# pyright: reportPrivateUsage=false
"""The wait graph: who waits for whom, and whether that can ever end.

An edge runs from a parked fiber to the future it waits for, and from a combinator or a task to what that
depends on in turn. Durable promises are the leaves through which the world comes in.

1. A ring of tasks and combinators with no way out is certain: no completion can wake any fiber in it. It
   is looked for after each drain, from the fibers that have just parked, and only along their edges. A ring
   inside a timeout is left to that. (A fiber that would interrupt the ring later is not seen.)
2. Channels, queues and semaphores may be served by any fiber, so a wait on one counts as alive as long as
   any other fiber is; a scheduler with no promise left to wait for catches the rest.
3. Both walks are loops with a visited set: depth costs no stack, diamonds are walked once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import PENDING, Future

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Durable


def awaited_ids(fibers: Iterable[Fiber], alarms: Iterable[Future[Any]] = ()) -> list[str]:
    """The pending promises that these fibers depend on, first fiber first, inputs in order; then alarms."""
    ids: dict[str, None] = {}
    seen: set[Future[Any]] = set()
    for fiber in fibers:
        stack = [fiber.waiting]
        while stack:
            future = stack.pop()
            if future is None or future in seen or future._state != PENDING:
                continue
            seen.add(future)
            if future._durable:
                ids[cast("Durable[Any]", future).id] = None
            else:
                stack.extend(reversed(list(future._inputs())))
    for alarm in alarms:
        if alarm._state == PENDING:
            ids[cast("Durable[Any]", alarm).id] = None
    return list(ids)


def find_cycles(suspects: Iterable[Fiber]) -> Iterator[list[Fiber]]:
    """The fibers of each ring nobody can break, seen from the suspects that are caught in one."""
    alive: set[Future[Any]] = set()
    caught: set[Fiber] = set()
    for fiber in suspects:
        start = fiber.waiting
        if start is not None and fiber not in caught and not _leads_out(start, alive):
            ring = _ring(start)
            caught.update(ring)
            yield ring


def can_be_ended(ring: Iterable[Fiber], guarded: Container[Fiber]) -> bool:
    """Will a timeout end it: of one of the ring's fibers, or of one that started them?"""
    for fiber in ring:
        ancestor: Fiber | None = fiber
        while ancestor is not None:
            if ancestor in guarded:
                return True
            ancestor = ancestor.parent
    return False


def _leads_out(start: Future[Any], alive: set[Future[Any]]) -> bool:
    seen = {start}
    path: list[tuple[Future[Any], Iterator[Future[Any]]]] = [(start, iter(start._inputs()))]
    if _is_exit(start, alive):
        return True
    while path:
        future = next(path[-1][1], None)
        if future is None:
            path.pop()
        elif future in seen or future._state != PENDING:
            continue
        elif _is_exit(future, alive):
            alive.update(each for each, _ in path)
            return True
        else:
            seen.add(future)
            path.append((future, iter(future._inputs())))
    return False


def _is_exit(future: Future[Any], alive: set[Future[Any]]) -> bool:
    return future in alive or not future._linked or not any(True for _ in future._inputs())


def _ring(start: Future[Any]) -> list[Fiber]:
    """All fibers that can be reached from a future that leads nowhere."""
    fibers: dict[Fiber, None] = {}
    seen: set[Future[Any]] = set()
    stack = [start]
    while stack:
        future = stack.pop()
        if future in seen or future._state != PENDING:
            continue
        seen.add(future)
        if isinstance(future, Fiber):
            fibers[future] = None
        stack.extend(future._inputs())
    return sorted(fibers, key=lambda fiber: fiber.number)
