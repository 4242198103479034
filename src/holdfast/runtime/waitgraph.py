# pyright: reportPrivateUsage=false
"""The wait graph: who waits for whom, and whether that can ever end.

An edge runs from a parked fiber to the future it waits for, and from a combinator or a fiber to what that
depends on in turn. Durable promises are the leaves through which the world comes in.

1. A ring of fibers and combinators with no way out is certain: no completion can wake any fiber in it. It
   is looked for after each drain, from the fibers that have just parked, and only along their edges. A ring
   inside a timeout is left to that. (A fiber that would interrupt the ring later is not seen.)
2. Some combinators need all of their inputs. One whose input is caught in a ring is caught as well, though a
   timer beside it will fire; what may fail beside it would end the wait, so that counts as a way out.
3. Channels, queues and semaphores may be served by any fiber, so a wait on one counts as alive as long as
   any other fiber is; a scheduler with no promise left to wait for catches the rest.
4. All walks are loops with a visited set: depth costs no stack, diamonds are walked once.
5. What the fibers wait for is found from the pending promises upwards: fibers that wait for something else
   are not looked at.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime import diagnosis
from holdfast.runtime.combinator import All, AllSettled
from holdfast.runtime.future import PENDING, Future, Waiter
from holdfast.runtime.running_fiber import RunningFiber

if TYPE_CHECKING:
    from holdfast.runtime.driver import Origin
    from holdfast.runtime.scheduler import Scheduler
    from holdfast.runtime.step import Durable


def awaited_ids(promises: Iterable[Durable[Any]], alarms: Iterable[Future[Any]] = ()) -> list[str]:
    """Of these promises those that wake a fiber, first fiber first, inputs in order; then alarms."""
    below: dict[
        Future[Any], list[Future[Any]]
    ] = {}  # of what is waited for: its inputs that lead to a promise
    fibers = _waiting_for(promises, below)
    ids: dict[str, None] = {}
    seen: set[Future[Any]] = set()
    for fiber in sorted(fibers, key=lambda fiber: fiber.number):
        stack: list[Future[Any]] = [fiber]
        while stack:
            future = stack.pop()
            if future in seen:
                continue
            seen.add(future)
            if future._durable:
                ids[cast("Durable[Any]", future).id] = None
                continue
            inputs = below[future]
            if len(inputs) > 1:  # in their own order
                found = set(inputs)
                inputs = [each for each in future._inputs() if each in found]
            stack.extend(reversed(inputs))
    for alarm in alarms:
        if alarm._state == PENDING:
            ids[cast("Durable[Any]", alarm).id] = None
    return list(ids)


def is_awaited(promise: Future[Any]) -> bool:
    """Does this promise wake a fiber?"""
    return bool(_waiting_for([promise], {}))


def place_of(scheduler: Scheduler, promise_id: str) -> Origin | None:
    """The line at which somebody waits for it, itself or through combinators; of several, the first."""
    promise = scheduler._pending.get(promise_id)
    if promise is None:
        return None
    fiber = scheduler.alarms.get(promise)
    if fiber is None:  # a fiber is a future, which is no condition
        fiber = next(iter(_waiting_for([promise], {})), None)
    return diagnosis.place_of(promise, fiber, scheduler.strands)


def _waiting_for(
    promises: Iterable[Future[Any]], below: dict[Future[Any], list[Future[Any]]]
) -> dict[RunningFiber, None]:
    fibers: dict[RunningFiber, None] = {}
    stack: list[Future[Any]] = [each for each in promises if each._waiters is not None]
    while stack:
        future = stack.pop()
        waiters = future._waiters
        told: Iterable[Waiter] = cast(Any, waiters if type(waiters) is dict else (waiters,))
        for waiter in told:
            for dependent in waiter._dependents():
                inputs = below.get(dependent)
                if inputs is not None:
                    inputs.append(future)
                    continue
                below[dependent] = [future]
                if isinstance(dependent, RunningFiber):
                    fibers[dependent] = None
                if dependent._waiters is not None and dependent._state == PENDING:
                    stack.append(dependent)
    return fibers


def find_cycles(suspects: Iterable[RunningFiber]) -> Iterator[list[RunningFiber]]:
    """The fibers of each ring nobody can break, seen from the suspects that are caught in one."""
    alive: set[Future[Any]] = set()
    caught: set[RunningFiber] = set()
    for fiber in suspects:
        start = fiber.waiting
        if start is not None and fiber not in caught and not _leads_out(start, alive):
            dead = _dead_from(start)
            if start in dead:
                ring = _ring(start, dead)
                caught.update(ring)
                yield ring


def can_be_ended(ring: Iterable[RunningFiber], guarded: Container[RunningFiber]) -> bool:
    """Will a timeout end it: of one of the ring's fibers, or of one that started them?"""
    for fiber in ring:
        ancestor: RunningFiber | None = fiber
        while ancestor is not None:
            if ancestor in guarded:
                return True
            ancestor = ancestor.parent
    return False


def _leads_out(start: Future[Any], alive: set[Future[Any]]) -> bool:
    """A quick look, right when it says yes: is there a way out on which nothing needs all of its inputs?"""
    seen = {start}
    path: list[tuple[Future[Any], Iterator[Future[Any]]]] = [(start, iter(start._inputs()))]
    if _is_exit(start, alive):
        return True
    while path:
        future = next(path[-1][1], None)
        if future is None:
            path.pop()
        elif future in seen or future._state != PENDING or not _is_enough(path[-1][0], future):
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


def _is_enough(future: Future[Any], part: Future[Any]) -> bool:
    """Is it a way out for `future` that this input of it settles? One that may fail ends a gather."""
    if isinstance(future, All):
        return not part._durable or getattr(cast(Any, part).operation, "can_fail", True)
    return not isinstance(future, AllSettled)


def _dead_from(start: Future[Any]) -> set[Future[Any]]:
    """Of all that can be reached from here, what no completion can settle."""
    above: dict[Future[Any], list[Future[Any]]] = {start: []}
    missing: dict[Future[Any], int] = {}  # how many inputs of those that need all are not known to be alive
    stack, living = [start], list[Future[Any]]()
    while stack:
        future = stack.pop()
        inputs = dict.fromkeys(each for each in future._inputs() if each._state == PENDING)
        if not future._linked or not inputs:
            living.append(future)
            continue
        missing[future] = len(inputs)
        for each in inputs:
            if each not in above:
                above[each] = []
                stack.append(each)
            above[each].append(future)
    dead = set(above)
    while living:
        future = living.pop()
        if future not in dead:
            continue
        dead.remove(future)
        for each in above[future]:
            missing[each] -= 1
            if each in dead and (not missing[each] or _is_enough(each, future)):
                living.append(each)
    return dead


def _ring(start: Future[Any], dead: set[Future[Any]]) -> list[RunningFiber]:
    """All fibers among the dead that can be reached from one of them."""
    fibers: dict[RunningFiber, None] = {}
    seen: set[Future[Any]] = set()
    stack = [start]
    while stack:
        future = stack.pop()
        if future in seen or future not in dead:
            continue
        seen.add(future)
        if isinstance(future, RunningFiber):
            fibers[future] = None
        stack.extend(future._inputs())
    return sorted(fibers, key=lambda fiber: fiber.number)
