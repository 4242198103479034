"""Fair queues: within one priority the keys take turns, by their weights."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from holdfast.protocol import limits
from tests.conformance.wire import SECOND, T0, Json
from tests.job_rules.wire import JobWire, job_creation
from tests.seeds import seed_for_test


def send(wire: JobWire, count: int, key: str | None, **more: Any) -> None:
    spec: Json = more if key is None else {"key": key, **more}
    start = wire.sent = getattr(wire, "sent", 0) + count  # type: ignore[attr-defined]
    names = [f"{key}-{start + number:06}" for number in range(count)]
    replies = wire.batch(*(("promise.create", job_creation(name, **spec)) for name in names))
    assert {reply.status for reply in replies} == {200}


def keys(names: list[str]) -> str:
    """The keys of tasks, in order, by their first letters."""
    return "".join(name[0] for name in names)


def test_one_task_of_a_key_does_not_wait_behind_all_of_another(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 50, "acme")
    send(wire, 1, "zeta")
    assert keys(wire.take(4)) == "azaa"


def test_without_fairness_it_does(wire: JobWire) -> None:
    send(wire, 50, "acme")
    send(wire, 1, "zeta")
    assert keys(wire.take(4)) == "aaaa"


def test_keys_take_turns_as_long_as_they_wait(wire: JobWire) -> None:
    wire.limit(fair=True)
    for key in ("a", "b", "c"):
        send(wire, 4, key)
    assert keys(wire.take(9)) == "abcabcabc"
    send(wire, 2, "d")
    assert keys(wire.take(9)) == "abcdd"


def test_a_weight_is_how_many_times_a_key_comes_in_a_turn(wire: JobWire) -> None:
    found = wire.limit(fair=True, weights={"acme": 3})
    assert (found["fair"], found["weights"]) == (True, {"acme": 3})
    send(wire, 30, "acme")
    send(wire, 30, "b")
    assert Counter(keys(wire.take(20))) == {"a": 15, "b": 5}


def test_tasks_without_a_key_take_turns_as_one_key(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 20, None)
    send(wire, 3, "b")
    assert keys(wire.take(6)) == "NbNbNb"


def test_a_key_that_was_idle_gets_no_credit_for_it(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 100, "a")
    for _ in range(40):
        wire.take()
    send(wire, 40, "b")
    assert keys(wire.take(20)) == "ab" * 10


def test_keys_that_send_one_after_the_other_do_not_keep_another_waiting(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 30, "a")
    send(wire, 1, "b")
    send(wire, 1, "c")
    served: Counter[str] = Counter()
    for _ in range(30):
        [name] = wire.take()
        served[name[0]] += 1
        if name[0] != "a":
            send(wire, 1, name[0])
    assert served["a"] == 10


def test_priorities_go_before_turns_and_have_turns_of_their_own(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 5, "a")
    send(wire, 20, "u", priority=1)
    send(wire, 1, "v", priority=1)
    send(wire, 5, "b")
    assert keys(wire.take(3)) == "uvu"
    assert keys(wire.take(18)) == "u" * 18
    send(wire, 5, "c")
    assert keys(wire.take(6)) == "abcabc"


def test_what_comes_back_unbegun_keeps_its_turn(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 3, "a")
    send(wire, 3, "b")
    [first] = wire.take()
    assert keys(wire.take(2)) == "ba"
    wire.release(first)
    assert wire.take() == [first]


def test_a_retry_takes_its_turn_when_it_is_due(wire: JobWire) -> None:
    wire.limit(fair=True)
    wire.enqueue("a-first", key="a", retry={"delays": [1_000]})
    send(wire, 3, "b")
    assert wire.take(start=True) == ["a-first"]
    wire.fail("a-first")
    send(wire, 2, "a")
    wire.tick(T0 + SECOND)
    order = wire.take(6)
    assert keys(order) == "bababa"
    assert order.index("a-first") == 5


def test_what_is_delayed_takes_its_turn_when_its_delay_is_over(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 3, "a", delay=T0 + SECOND)
    send(wire, 6, "b")
    assert keys(wire.take(3)) == "bbb"
    wire.tick(T0 + SECOND)
    assert keys(wire.take(9)) == "bababa"


def test_a_queue_that_is_no_longer_fair_serves_whoever_came_first(wire: JobWire) -> None:
    wire.limit(fair=True)
    send(wire, 4, "a")
    send(wire, 1, "b")
    assert keys(wire.take(1)) == "a"
    wire.limit()
    send(wire, 2, "c")
    assert keys(wire.take(9)) == "baaacc"


def test_what_waited_before_a_queue_was_fair_goes_first(wire: JobWire) -> None:
    send(wire, 3, "a")
    wire.limit(fair=True)
    send(wire, 2, "b")
    send(wire, 2, "c")
    assert keys(wire.take(9)) == "aaabcbc"


def test_limits_per_key_hold_in_a_fair_queue_and_no_key_is_hidden(wire: JobWire) -> None:
    wire.limit(fair=True, keyConcurrency=2)
    send(wire, 40, "a")
    send(wire, 40, "b")
    send(wire, 1, "c")
    assert keys(wire.take(10)) == "abcab"
    assert wire.take(10) == []


def test_past_the_bound_a_priority_is_served_in_the_order_of_time(
    wire: JobWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "fair_priorities_max", 1)
    wire.limit(fair=True)
    send(wire, 1, "a")
    assert keys(wire.take()) == "a"
    send(wire, 3, "a", priority=5)
    send(wire, 1, "b", priority=5)
    send(wire, 3, "a")
    send(wire, 1, "b")
    assert keys(wire.take(8)) == "aaababaa"


@pytest.mark.parametrize(
    "limits",
    [
        {"weights": {"a": 2}},
        {"fair": True, "weights": {"a": 0}},
        {"fair": True, "weights": {"a": 1_001}},
        {"fair": True, "weights": {"": 2}},
        {"fair": True, "weights": {"a": "2"}},
        {"fair": True, "weights": {f"k{number}": 1 for number in range(1_001)}},
        {"fair": 1},
    ],
)
def test_what_makes_no_sense_is_refused(wire: JobWire, limits: Json) -> None:
    assert wire.send("queue.set", {"name": "mail", **limits}).status == 400


def test_no_key_waits_longer_than_its_share(wire: JobWire) -> None:
    """Random lives: whatever others send, a task is granted before any other key had many more turns."""
    rng = random.Random(seed_for_test())
    weights = {"a": 3, "b": 2}
    wire.limit(fair=True, weights=weights)
    waiting: dict[str, Counter[str]] = {}  # by id: what others were granted since it was sent
    behind: dict[str, int] = {}  # how many of its own key stood before it
    made = 0
    for _ in range(300):
        if rng.random() < 0.5:
            key = rng.choices(["a", "b", "c", "d"], [8, 4, 2, 1])[0]
            for _ in range(rng.randint(1, 4)):
                name = f"{key}-{made:06}"
                made += 1
                wire.enqueue(name, key=key)
                behind[name] = sum(other[0] == key for other in waiting)
                waiting[name] = Counter()
        for name in wire.take(rng.randint(0, 3) or 1):
            own, others = name[0], waiting.pop(name)
            turns = (behind[name] + 2) / weights.get(own, 1)
            for key, count in others.items():
                assert key == own or count <= turns * weights.get(key, 1) + 1, (name, others, turns)
            for counter in waiting.values():
                counter[own] += 1
    assert made > 200
