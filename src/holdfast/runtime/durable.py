"""A durable future: what a fiber waits for when something outside has to settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.runtime.future import PENDING, Future

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")


class Durable(Future[T]):
    """A future that the world settles. `promise_id` is what the world called it."""

    __slots__ = ("id", "operation")

    _durable = True

    def __init__(self, promise_id: str, operation: object, scheduler: Scheduler) -> None:
        self._state = PENDING
        self._waiters = None
        self.scheduler = scheduler
        self.id = promise_id
        self.operation = operation

    def _describe(self) -> str:
        return f"durable promise {self.id} ({self.operation})"
