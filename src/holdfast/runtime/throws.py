"""Errors that are to be raised in a fiber, and which of them is raised at its next wait.

Two kinds are thrown at a fiber. An *interruption* concerns all of it: the execution was cancelled, or the
fiber interrupted. A *block's* error concerns one block it is inside of: its time has passed, or a sibling
in its scope has failed. The block that threw takes it back when it is left.

1. There is one interruption at a time: the last one wins, but nothing replaces a cancellation except another.
2. Errors of blocks are kept in the order in which they came, beside the interruption: neither kind replaces
   the other.
3. A shield holds back an interruption, and the errors of blocks around it. What is held is kept.
4. An interruption is raised before the error of a block, which the unwinding usually makes void.
"""

from __future__ import annotations

from holdfast.runtime.errors import Cancelled
from holdfast.runtime.signals import Signal


class Throws:
    """What was thrown at one fiber and has not been raised yet."""

    __slots__ = ("blocks", "interruption")

    def __init__(self) -> None:
        self.interruption: BaseException | None = None
        self.blocks: list[tuple[BaseException, int]] = []  # and how many shields the block is inside of

    def interrupt(self, error: BaseException, *, gently: bool = False) -> None:
        """`gently`: if nothing else is on its way."""
        held = self.interruption
        if held is None or (not gently and (isinstance(error, Cancelled) or not isinstance(held, Cancelled))):
            self.interruption = error

    def first(self, shields: int) -> BaseException | None:
        """The error to be raised next in a fiber that is inside of so many shields."""
        if self.interruption is not None and not shields:
            return self.interruption
        return next((error for error, inside in self.blocks if shields <= inside), None)

    def remove(self, error: BaseException) -> None:
        if self.interruption is error:
            self.interruption = None
        else:
            self.blocks = [each for each in self.blocks if each[0] is not error]


class Block:
    """A stretch of a fiber's code with a signal of its own for what is started inside it.

    The signal is made when something is started. That of a shield is out of reach of cancellations.
    """

    __slots__ = ("is_shield", "signal")

    def __init__(self, *, is_shield: bool) -> None:
        self.is_shield = is_shield
        self.signal: Signal | None = None

    def call_off(self, reason: BaseException) -> None:
        """Tell what was started inside that nobody wants its result."""
        if self.signal is not None:
            self.signal.set(reason)
