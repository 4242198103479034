"""The checker itself: it accepts what is right, refutes what is not, and admits what it cannot decide."""

from __future__ import annotations

import random

import pytest

from tests.cluster.linearizability import NEVER, Operation, State, apply, check


def operation(kind: str, argument: object, result: object, asked_at: float, answered_at: float) -> Operation:
    return Operation(kind, argument, result, asked_at, answered_at)


CREATED = operation("create", None, (200, "pending", None), 0, 1)


def test_what_happens_one_after_the_other_is_linearizable() -> None:
    history = [
        CREATED,
        operation("acquire", 0, (200,), 2, 3),
        operation("acquire", 0, (409,), 4, 5),
        operation("fulfil", (1, "x"), (200, "resolved", "x"), 6, 7),
        operation("get", None, (200, "resolved", "x"), 8, 9),
    ]
    assert check(history) == "linearizable"


@pytest.mark.parametrize(
    "wrong",
    [
        [operation("get", None, (404,), 2, 3)],
        [operation("acquire", 0, (200,), 2, 9), operation("acquire", 0, (200,), 3, 8)],
        [
            operation("settle", "x", (200, "resolved", "x"), 2, 3),
            operation("get", None, (200, "pending", None), 4, 5),
        ],
        [
            operation("settle", "x", (200, "resolved", "x"), 2, 9),
            operation("settle", "y", (200, "resolved", "y"), 2, 9),
        ],
        [
            operation("acquire", 0, (200,), 2, 3),
            operation("release", (1, None), (200,), 4, 5),
            operation("fulfil", (1, "x"), (200, "resolved", "x"), 6, 7),
        ],
    ],
)
def test_a_planted_fault_is_refuted(wrong: list[Operation]) -> None:
    assert check([CREATED, *wrong]) == "refuted"


def test_what_nobody_knows_may_have_happened_or_not() -> None:
    lost = operation("settle", "x", None, 2, NEVER)
    pending = operation("get", None, (200, "pending", None), 3, 4)
    resolved = operation("get", None, (200, "resolved", "x"), 5, 6)
    assert check([CREATED, lost, pending]) == "linearizable"
    assert check([CREATED, lost, pending, resolved]) == "linearizable"
    assert check([CREATED, lost, resolved, operation("get", None, pending.result, 7, 8)]) == "refuted"


def test_a_search_without_time_is_undecided() -> None:
    together = [operation("settle", str(index), (200, "resolved", "9"), 2, 50) for index in range(9)]
    assert check([CREATED, *together], steps_max=5) == "undecided"


def test_random_histories_of_the_model_are_accepted_and_their_mutants_mostly_refuted() -> None:
    """Each operation takes effect somewhere inside its interval; then one answer is changed."""
    refuted = 0
    for seed in range(200):
        chance = random.Random(seed)
        history = record(chance)
        assert check(history) == "linearizable", f"seed {seed}"
        spoiled = [
            each for each in history if each.result[0] == 200 and each.kind in ("get", "settle", "fulfil")
        ]
        victim = chance.choice(spoiled)
        wrong = Operation(
            victim.kind, victim.argument, (200, "resolved", "nobody"), victim.asked_at, victim.answered_at
        )
        refuted += check([wrong if each is victim else each for each in history]) == "refuted"
    assert refuted == 200


def record(chance: random.Random) -> list[Operation]:
    state, history = State(), [CREATED]
    _, state = apply(state, "create", None)
    at = 2.0
    for number in range(40):
        at += chance.random()
        kind = chance.choice(["get", "get", "acquire", "release", "fulfil", "settle", "create"])
        if kind in ("fulfil", "settle") and chance.random() < 0.8:
            kind = "get"
        argument = {
            "acquire": state.version,
            "release": (state.version, None),
            "fulfil": (state.version, str(number)),
            "settle": str(number),
        }.get(kind)
        result, state = apply(state, kind, argument)
        history.append(Operation(kind, argument, result, at - chance.random() * 2, at + chance.random() * 2))
    return history
