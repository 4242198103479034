"""Executions in queues: limits, rates, pauses, priorities and turns hold for them, too."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.conformance.wire import MINUTE, SECOND, T0, Answer, Json
from tests.counts import rest_slow
from tests.job_rules.wire import QUEUE, JobWire
from tests.seeds import seed_for_test


def place(wire: JobWire, name: str, *, priority: int = 0, delay: int | None = None, **spec: Any) -> Answer:
    """Start an execution in the queue `mail`."""
    tags = {"holdfast:queue": json.dumps(spec), "holdfast:priority": str(priority)}
    if delay is not None:
        tags["resonate:delay"] = str(delay)
    return wire.create(name, target=QUEUE, tags=tags)


def suspend(wire: JobWire, name: str, version: int = 1) -> None:
    """It waits for a promise of its own."""
    assert wire.create(f"{name}:wait{version}").status == 200
    assert wire.suspend(name, f"{name}:wait{version}", version=version).status == 200


def wake(wire: JobWire, name: str, version: int = 1) -> None:
    assert wire.settle(f"{name}:wait{version}").status == 200


def test_an_execution_waits_in_its_queue_and_is_claimed_from_there(wire: JobWire) -> None:
    place(wire, "e")
    assert wire.queue()["pending"] == 1
    assert "job" not in wire.task("e")
    assert wire.take() == ["e"]
    assert (wire.queue()["pending"], wire.queue()["running"]) == (0, 1)
    assert [queue["name"] for queue in wire.send("queue.search", {}).data["queues"]] == ["mail"]


def test_it_counts_while_it_is_suspended_and_until_it_is_over(wire: JobWire) -> None:
    wire.limit(concurrency=1)
    place(wire, "a")
    place(wire, "b")
    assert wire.take(5) == ["a"]
    suspend(wire, "a")
    answer = wire.take_all(5)
    assert answer.data == {"tasks": [], "limited": True}
    wake(wire, "a")
    assert wire.take(5) == ["a"]  # it counts already, so that limit does not keep it out
    assert wire.take(5) == []
    wire.fulfill("a", 2)
    assert wire.take(5) == ["b"]


@pytest.mark.parametrize("end", ["settle", "timeout", "cancel"])
def test_every_way_to_end_makes_room_again(wire: JobWire, end: str) -> None:
    wire.limit(keyConcurrency=1)
    tags = {"holdfast:queue": '{"key": "k"}'}
    wire.create("a", target=QUEUE, tags=tags, timeout_at=T0 + MINUTE)
    place(wire, "b", key="k")
    assert wire.take(5) == ["a"]
    suspend(wire, "a")
    assert wire.take(5) == []
    if end == "timeout":
        wire.tick(T0 + MINUTE)
    else:
        wire.settle("a", "rejected_canceled" if end == "cancel" else "resolved")
    assert wire.take(5) == ["b"]


@pytest.mark.parametrize("how", ["lapse", "release", "halt"])
def test_what_comes_back_is_not_kept_out_by_the_limits_it_counts_in(wire: JobWire, how: str) -> None:
    wire.limit(concurrency=1, keyConcurrency=1, rate={"count": 1, "perMs": 10 * MINUTE})
    place(wire, "a", key="k")
    place(wire, "b", key="k")
    place(wire, "c")
    assert wire.take(5) == ["a"]
    if how == "lapse":
        wire.tick(T0 + MINUTE)
    elif how == "release":
        wire.release("a")
    else:
        wire.halt("a")
        assert wire.take(5) == []
        wire.resume("a")
    assert wire.take(5) == ["a"]


def test_a_limit_of_what_runs_counts_only_what_is_claimed(wire: JobWire) -> None:
    assert wire.limit(running=1)["runningLimit"] == 1
    place(wire, "a")
    place(wire, "b")
    place(wire, "c")
    assert wire.take(5) == ["a"]
    assert wire.take_all(5).data == {"tasks": [], "limited": True}
    suspend(wire, "a")
    assert wire.take(5) == ["b"]
    wake(wire, "a")
    assert wire.take(5) == []
    suspend(wire, "b")
    assert wire.take() == ["a"]
    wire.enqueue("j")
    assert wire.take(5) == []


def test_tasks_and_executions_of_a_queue_count_together(wire: JobWire) -> None:
    wire.limit(keyConcurrency=2)
    place(wire, "a", key="k")
    wire.enqueue("j", key="k")
    place(wire, "b", key="k")
    wire.enqueue("i", key="k")
    place(wire, "c", key="other")
    assert wire.take(9, start=True) == ["a", "b", "c"]
    wire.fulfill("a")
    assert wire.take(9, start=True) == ["i"]
    wire.fulfill("i")
    assert wire.take(9, start=True) == ["j"]


def test_behind_a_key_without_room_others_are_found(wire: JobWire) -> None:
    wire.limit(keyConcurrency=1)
    for number in range(12):
        place(wire, f"a{number:02}", key="a")
    place(wire, "b", key="b")
    place(wire, "n")
    assert wire.take(2) == ["a00", "b"]
    suspend(wire, "a00")
    assert wire.take(9) == ["n"]
    wake(wire, "a00")
    assert wire.take(9) == ["a00"]


def test_a_rate_counts_the_first_claim_and_no_other(wire: JobWire) -> None:
    wire.limit(rate={"count": 1, "perMs": MINUTE})
    place(wire, "a")
    place(wire, "b")
    assert wire.take(5) == ["a"]
    suspend(wire, "a")
    wake(wire, "a")
    assert wire.take(5) == ["a"]
    assert wire.take_all(5).data["tasks"] == []
    wire.now = T0 + 2 * MINUTE
    assert wire.take(5) == ["b"]


def test_a_paused_queue_holds_back_also_what_was_woken(wire: JobWire) -> None:
    place(wire, "a")
    assert wire.take() == ["a"]
    suspend(wire, "a")
    wire.pause()
    wake(wire, "a")
    assert wire.take(5) == []
    wire.pause(paused=False)
    assert wire.take(5) == ["a"]


def test_priorities_and_delays_hold(wire: JobWire) -> None:
    place(wire, "low")
    place(wire, "high", priority=2)
    place(wire, "later", priority=9, delay=T0 + SECOND)
    assert wire.take(5) == ["high", "low"]
    wire.tick(T0 + SECOND)
    assert wire.take(5) == ["later"]


def test_executions_take_turns_in_a_fair_queue(wire: JobWire) -> None:
    wire.limit(fair=True)
    for number in range(6):
        place(wire, f"a{number}", key="a")
    wire.enqueue("j", key="b")
    place(wire, "z", key="z")
    assert wire.take(4) == ["a0", "j", "z", "a1"]


def test_in_a_limited_queue_it_cannot_be_acquired_by_id(wire: JobWire) -> None:
    place(wire, "a")
    wire.limit(concurrency=1)
    assert wire.acquire("a", 0).status == 409
    assert wire.take() == ["a"]


def test_while_another_is_open_overlap_may_reject(wire: JobWire) -> None:
    place(wire, "a", key="k")
    refused = place(wire, "b", key="k", overlap="reject")
    assert refused.status == 409
    assert "HF1209" in refused.data
    assert "'a'" in refused.data
    assert place(wire, "c", key="other", overlap="reject").status == 200
    assert place(wire, "a", key="k", overlap="reject").status == 200  # the same id is the same execution
    wire.take()
    suspend(wire, "a")
    assert place(wire, "b", key="k", overlap="reject").status == 409
    wire.settle("a")
    assert place(wire, "b", key="k", overlap="reject").status == 200


def test_what_has_begun_is_asked_to_cancel_and_what_has_not_is_cancelled(wire: JobWire) -> None:
    wire.limit(keyConcurrency=1)
    place(wire, "a", key="k")
    assert wire.take() == ["a"]
    suspend(wire, "a")
    place(wire, "b", key="k")
    assert place(wire, "c", key="k", overlap="replace").status == 200
    assert wire.get("b").promise["state"] == "rejected_canceled"
    assert wire.get("a").promise["state"] == "pending"
    assert wire.get("a:cancel").promise["state"] == "resolved"
    assert wire.take(5) == ["a"]  # woken, to see that
    assert wire.take(5) == []
    wire.fulfill("a", 2, "rejected_canceled")
    assert wire.take(5) == ["c"]


def test_replacing_twice_asks_once(wire: JobWire) -> None:
    place(wire, "a", key="k")
    wire.take()
    for name in ("b", "c"):
        assert place(wire, name, key="k", overlap="replace").status == 200
    states = {name: wire.get(name).promise["state"] for name in "abc"}
    assert states == {"a": "pending", "b": "rejected_canceled", "c": "pending"}


def test_in_one_commit_the_last_one_stays(wire: JobWire) -> None:
    tags = {"holdfast:queue": '{"key": "k", "overlap": "replace"}', "resonate:target": QUEUE}
    creations = [{"id": name, "timeoutAt": T0 + MINUTE, "param": {}, "tags": tags} for name in "abc"]
    assert {it.status for it in wire.batch(*(("promise.create", data) for data in creations))} == {200}
    states = [wire.get(name).promise["state"] for name in "abc"]
    assert states == ["rejected_canceled", "rejected_canceled", "pending"]


def test_whoever_may_not_see_it_may_not_replace_it(wire: JobWire) -> None:
    place(wire, "mine", key="k")
    with wire.within("yours"):
        refused = place(wire, "yours-1", key="k", overlap="replace")
        assert refused.status == 409
        assert "mine" not in json.dumps(refused.data)
    assert wire.get("mine").promise["state"] == "pending"


def test_it_is_claimed_from_its_queue_and_not_with_its_creation(wire: JobWire) -> None:
    assert wire.task_create("e", target=QUEUE, tags={"holdfast:queue": "{}"}).status == 400


@pytest.mark.parametrize(
    "tags",
    [
        {"holdfast:queue": "{"},
        {"holdfast:queue": '{"key": 1}'},
        {"holdfast:queue": '{"key": ""}'},
        {"holdfast:queue": '{"overlap": "reject"}'},
        {"holdfast:queue": '{"key": "k", "overlap": "perhaps"}'},
        {"holdfast:queue": '{"other": "k"}'},
        {"holdfast:queue": "{}", "resonate:target": "poll://any@workers"},
        {"holdfast:queue": "{}", "resonate:target": "poll://uni@queue.mail/w"},
        {"holdfast:queue": "{}", "holdfast:job": "{}"},
        {"holdfast:queue": "{}", "resonate:timer": "true"},
    ],
)
def test_what_makes_no_sense_is_refused(wire: JobWire, tags: Json) -> None:
    assert wire.create("e", tags={"resonate:target": QUEUE, **tags}).status == 400


@pytest.mark.parametrize(
    "limits",
    rest_slow(
        [
            {"concurrency": 4, "keyConcurrency": 2, "running": 2, "fair": True},
            {"concurrency": 3},
            {"keyConcurrency": 1},
            {"running": 2},
        ],
        quick=1,
    ),
)
def test_limits_hold_at_every_step_of_a_random_life_and_everybody_gets_through(
    wire: JobWire, limits: Json
) -> None:
    rng = random.Random(seed_for_test())
    wire.limit(**limits)
    keys: dict[str, str | None] = {}
    held: dict[str, int] = {}
    waiting: dict[str, int] = {}  # suspended, and the version under which
    entered: set[str] = set()  # and not over

    def check() -> None:
        assert len(entered) <= limits.get("concurrency", 99)
        assert len(held) <= limits.get("running", 99)
        counts = Counter(keys[name] for name in entered if keys[name] is not None)
        assert all(count <= limits.get("keyConcurrency", 99) for count in counts.values())

    def claim(count: int) -> None:
        for item in wire.take_all(count).data["tasks"]:
            name = item["task"]["id"]
            held[name] = item["task"]["version"]
            entered.add(name)

    def end(name: str) -> None:
        assert wire.fulfill(name, held.pop(name)).status == 200
        entered.discard(name)

    for number in range(90):
        match rng.randrange(6):
            case 0 | 1:
                key = rng.choice(["a", "b", "c", None])
                name = f"e{number:03}"
                keys[name] = key
                spec: Json = {} if key is None else {"key": key}
                place(wire, name, priority=rng.choice([0, 0, 1]), **spec)
            case 2 | 3:
                claim(rng.randint(1, 3))
            case 4 if held:
                name = rng.choice(sorted(held))
                if rng.random() < 0.5:
                    waiting[name] = held[name]
                    suspend(wire, name, held.pop(name))
                else:
                    end(name)
            case 5 if waiting:
                name = rng.choice(sorted(waiting))
                wake(wire, name, waiting.pop(name))
            case _:
                continue
        check()
    for _ in range(len(keys) * 3):
        for name in [*waiting]:
            wake(wire, name, waiting.pop(name))
        claim(5)
        check()
        for name in [*held]:
            end(name)
    assert {wire.get(name).promise["state"] for name in keys} == {"resolved"}
