"""Shields: a stretch of code that cancellations and interrupts do not reach.

1. Inside a shield nothing is thrown at the fiber. What would have been is held, the last one wins, and is
   raised at the first wait after the outermost shield.
2. Fibers spawned inside a shield are inside it for their whole life, for cancellations and for interrupts
   of an ancestor. Interrupting such a task directly still works.
3. Taking the execution down is not a cancellation: no shield stops it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.slot import current_fiber

T = TypeVar("T")


def shield(work: Waitable[T]) -> Operation[T]:
    """Run `work` to its end even if the execution is cancelled or the task interrupted meanwhile.

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
    fiber.shields += 1
    try:
        return await delegate(work)
    finally:
        fiber.unshield()
