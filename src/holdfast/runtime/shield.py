"""Shields: a stretch of code that cancellations and interrupts do not reach.

1. Inside a shield nothing is thrown at the fiber. What would have been is held (throws.py says what comes of
   several) and is raised at the first wait outside of shields. A second shield entered before that wait is
   run to its end as well: it may be the cleanup.
2. The signals of steps and calls that are started inside are not set either: they run to their end. One
   that still runs when the shield is left is told then.
3. Fibers spawned inside a shield are inside it for their whole life, for cancellations and for interrupts
   of an ancestor. Interrupting such a fiber directly still works.
4. What is given to a shield is inside it, though it was begun before: a step, a call, a fiber, and all inputs
   of a combinator.
5. Taking the execution down is not a cancellation: no shield stops it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.slot import current_fiber
from holdfast.runtime.taken_in import take_in

T = TypeVar("T")


def shield(work: Waitable[T]) -> Operation[T]:
    """Run `work` to its end even if the execution is cancelled or the fiber is interrupted meanwhile.

    Its steps and calls are not told of that until it is done. The cancellation is raised at the next wait
    after it.

    >>> async def pay_back() -> None:
    ...     try:
    ...         await work(1)
    ...     except Cancelled:
    ...         await shield(refund(1))   # a second cancellation waits until this is done
    ...         raise
    """
    return Operation(_shielded, work)


async def _shielded(work: Waitable[Any]) -> Any:
    fiber = current_fiber()
    if fiber.scheduler.strands is not None:
        return await fiber.scheduler.strands.shield(work)
    block = fiber.open_block(is_shield=True)
    if isinstance(work, Future):
        take_in(work, fiber, shelter_fibers=True)
    try:
        return await delegate(work)
    finally:
        fiber.close_block(block)
