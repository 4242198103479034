"""Where the code of an execution has failed: which completion it was that the failure came from.

An error that an operation gives to the code carries the point in the record at which that happened. The error
that the execution ends with is that one, or was raised because of it. So a retry knows what to go back to
(`engine/retrying.py`). An error that comes from the code alone carries nothing: then nothing has to be taken
back, and the code, once mended, goes on from the end of the record.
"""

from contextlib import suppress
from typing import Final, cast

from holdfast.payloads.error_values import causes_of
from holdfast.protocol.mending import FailurePoint
from holdfast.runtime.errors import TimedOut
from holdfast.workflow.operations import DurableOperation, Sleep

chain_max: Final = 100  # errors that are looked at

_POINT: Final = "__holdfast_failed_at__"


class Failures:
    """Of one execution: it is told what the code is about to see, and says where it has failed in the end."""

    def __init__(self) -> None:
        self._cancelled_at: FailurePoint | None = None
        self._alarmed_at: FailurePoint | None = None  # the last timeout that has expired

    def passed(self, point: FailurePoint, operation: DurableOperation, error: BaseException | None) -> None:
        """The code is about to see this completion, and is given this error."""
        if isinstance(operation, Sleep) and operation.is_alarm:
            self._alarmed_at = point
        if error is None:
            return
        with suppress(Exception):  # an error class of a user's may refuse attributes
            setattr(error, _POINT, point)

    def cancelled(self, place: int, asked: int) -> None:
        self._cancelled_at = FailurePoint(place, asked, "")

    def point_of(self, error: BaseException, *, is_cancelled: bool) -> FailurePoint | None:
        """What a retry goes back to; None if nothing has to be taken back."""
        if is_cancelled:
            return self._cancelled_at
        return find_point(error) or (self._alarmed_at if isinstance(error, TimedOut) else None)


def _mark_of(error: BaseException) -> FailurePoint | None:
    with suppress(Exception):  # the same may raise when it is asked
        point = getattr(error, _POINT, None)
        return point if isinstance(point, FailurePoint) else None
    return None


def find_point(error: BaseException) -> FailurePoint | None:
    """Of the error itself, or the nearest one that it came from; of a group, the earliest."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < chain_max:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if (point := _mark_of(found)) is not None:
            return point
        waiting += causes_of(found)
        if isinstance(found, BaseExceptionGroup):
            grouped = cast("BaseExceptionGroup[BaseException]", found).exceptions
            points = [inner for each in grouped if (inner := find_point(each)) is not None]
            if points:
                return min(points, key=lambda each: each.place)
    return None
