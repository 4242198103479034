"""Which attempt of its step a function is."""

from __future__ import annotations

from contextvars import ContextVar

_attempt: ContextVar[int] = ContextVar("holdfast step attempt", default=1)


def current_attempt() -> int:
    """1 in the first attempt of a step, 2 in the second, and so on; 1 where no step is running."""
    return _attempt.get()


def set_attempt(attempt: int) -> None:
    _attempt.set(attempt)
