"""Is there an order of these operations that explains what everybody saw?

The search of Wing and Gong with Lowe's memory, over the operations on one promise. An operation that was
never answered, or answered with "nobody knows", may have happened at any moment after it was asked, or not
at all. A search that takes too long is undecided, which is not the same as passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

STEPS_MAX = 2_000_000
NEVER = float("inf")

CheckResult = Literal["linearizable", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`result` is what the caller saw; None: nobody knows what became of it."""

    kind: str
    argument: Any
    result: Any
    asked_at: float
    answered_at: float  # NEVER if it was not


@dataclass(frozen=True, slots=True)
class State:
    """A promise with its task, as far as the operations can tell."""

    promise: str | None = None  # None: it does not exist
    value: str | None = None
    task: str = ""
    version: int = 0

    def shown(self) -> tuple[Any, ...]:
        return (200, self.promise, self.value)


def apply(state: State, kind: str, argument: Any) -> tuple[Any, State]:
    """The rules in their simplest form, written independently of the engine."""
    if kind == "create":
        after = state if state.promise else State("pending", None, "pending", 0)
        return after.shown(), after
    if state.promise is None:
        return (404,), state
    if kind == "get":
        return state.shown(), state
    if kind == "settle":
        after = (
            state if state.promise != "pending" else State("resolved", argument, "fulfilled", state.version)
        )
        return after.shown(), after
    if kind == "acquire":
        if state.task == "pending" and state.version == argument:
            return (200,), State(state.promise, state.value, "acquired", state.version + 1)
        return (409,), state
    version, value = argument
    if state.task != "acquired" or state.version != version:
        return (409,), state
    if kind == "release":
        return (200,), State(state.promise, state.value, "pending", version)
    assert kind == "fulfil", kind
    after = State("resolved", value, "fulfilled", version)
    return after.shown(), after


def check(history: Sequence[Operation], steps_max: int = STEPS_MAX) -> CheckResult:
    operations = sorted(history, key=lambda operation: operation.asked_at)
    must = sum(1 << index for index, each in enumerate(operations) if each.result is not None)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, State())]
    steps = 0
    while stack:
        done, state = stack.pop()
        if done & must == must:
            return "linearizable"
        # Nothing may come before an operation that was answered before it was asked.
        horizon = min(
            operation.answered_at
            for index, operation in enumerate(operations)
            if must >> index & 1 and not done >> index & 1
        )
        for index, operation in enumerate(operations):
            if operation.asked_at > horizon:
                break
            if done >> index & 1:
                continue
            steps += 1
            if steps > steps_max:
                return "undecided"
            result, after = apply(state, operation.kind, operation.argument)
            if operation.result is not None and result != operation.result:
                continue
            step = (done | 1 << index, after)
            if step not in seen:
                seen.add(step)
                stack.append(step)
    return "refuted"
