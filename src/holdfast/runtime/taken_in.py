# pyright: reportPrivateUsage=false
"""Work that was started before the block it is given to: `shield(run(pay))`, `within(5, call(ship))`.

Python evaluates the argument first, so the step is under way before the block is entered. For whoever reads
the line it is inside the block, and so it is here: it hangs under the block's signal from then on.
"""

from __future__ import annotations

from typing import Any, cast

from holdfast.runtime.combinator import Combinator
from holdfast.runtime.future import PENDING, Future
from holdfast.runtime.running_fiber import RunningFiber


def take_in(work: Future[Any], fiber: RunningFiber, *, shelter_fibers: bool) -> None:
    """Put a step, a call, or those among the inputs of a combinator under the signal of the fiber's block.

    With `shelter_fibers`, fibers and what they spawned are out of reach of cancellations from now on.
    """
    stack = [work]
    while stack:
        future = stack.pop()
        if future._state != PENDING or future.scheduler is not fiber.scheduler:
            continue
        if isinstance(future, RunningFiber):
            if shelter_fibers:
                future.sheltered = True
                if future.own_signal is not None:
                    future.own_signal.move_under(fiber.scheduler.attempt)
                stack.extend(future.children or ())
        elif isinstance(future, Combinator):
            stack.extend(future._members)
        elif future._durable:
            move_under = getattr(cast(Any, future).operation, "move_under", None)
            if move_under is not None:
                move_under(fiber.signal())
