"""Strategies for Hypothesis: where workers die, and in which order messages come. Needs `hypothesis`.

    @given(crashes=crash_points(), order=interleavings(["a1", "a2"], ["b1", "b2"]))
    def test_every_message_counts_once(crashes, order):
        with World(app, crashes=crashes) as world: ...

A failure is shrunk to the fewest crashes, at the earliest writes, and to an order that is near to one sender
after the other.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from hypothesis import strategies
from hypothesis.strategies import DrawFn, SearchStrategy

from holdfast.testing.mortal import CrashPoint

T = TypeVar("T")

writes_max_default: Final = 30
crashes_max_default: Final = 4


def crash_points(
    *, writes_max: int = writes_max_default, crashes_max: int = crashes_max_default
) -> SearchStrategy[list[CrashPoint]]:
    """For `World(app, crashes=...)`: up to `crashes_max` deaths of a worker, each before or after one of the
    first `writes_max` durable writes. Points behind the last write of a run change nothing."""
    point = strategies.builds(
        CrashPoint, strategies.integers(1, writes_max), strategies.sampled_from(["before", "after"])
    )
    points = strategies.lists(point, max_size=crashes_max, unique=True)
    return points.map(lambda found: sorted(found, key=lambda each: (each.write, each.side != "before")))


def interleavings(*senders: Sequence[T]) -> SearchStrategy[list[T]]:
    """All messages of some senders in one order, in which those of each sender stay in their own."""

    @strategies.composite
    def drawn(draw: DrawFn) -> list[T]:
        left: list[list[T]] = [list(messages) for messages in senders if messages]
        found: list[T] = []
        while left:
            number = draw(strategies.integers(0, len(left) - 1))
            found.append(left[number].pop(0))
            left = [messages for messages in left if messages]
        return found

    return drawn()


def seeds() -> SearchStrategy[int]:
    """For `simulate(app, scenario, seeds=[seed])`: another installation with other faults for each."""
    return strategies.integers(0, 2**32 - 1)


__all__: list[Any] = ["crash_points", "interleavings", "seeds"]
