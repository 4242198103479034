"""Limits of queues: how many at once and in a stretch of time, per queue and per key; pauses; priorities."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.conformance.wire import MINUTE, SECOND, T0, Json
from tests.counts import rest_slow
from tests.job_rules.wire import JobWire, job_creation
from tests.seeds import seed_for_test


def fill(wire: JobWire, count: int, prefix: str = "j", **more: Any) -> None:
    names = [f"{prefix}{number:03}" for number in range(count)]
    replies = wire.batch(*(("promise.create", job_creation(name, **more)) for name in names))
    assert {reply.status for reply in replies} == {200}


def test_a_queue_that_was_never_set_is_open_and_without_limits(wire: JobWire) -> None:
    zeros = {"pending": 0, "delayed": 0, "claimed": 0, "running": 0}
    assert wire.queue() == {"name": "mail", "paused": False, **zeros}
    assert wire.send("queue.search", {}).data == {"queues": []}


def test_a_queue_shows_its_limits_and_its_counts(wire: JobWire) -> None:
    fill(wire, 4)
    wire.enqueue("later", delay=T0 + SECOND)
    wire.take()
    wire.take(start=True)
    rate = {"count": 7, "perMs": 1000}
    found = wire.limit(concurrency=5, keyConcurrency=2, rate=rate, keyRate=rate)
    counts = {"pending": 3, "delayed": 1, "claimed": 1, "running": 1}
    limits = {"concurrency": 5, "keyConcurrency": 2, "rate": rate, "keyRate": rate}
    assert found == {"name": "mail", "paused": False, **counts, **limits}
    assert wire.queue() == found


def test_setting_limits_replaces_all_of_them_and_keeps_the_pause(wire: JobWire) -> None:
    wire.pause()
    wire.limit(concurrency=5)
    found = wire.limit(keyConcurrency=1)
    assert ("concurrency" in found, found["keyConcurrency"], found["paused"]) == (False, 1, True)


def test_a_search_finds_queues_that_were_set_and_queues_in_use(wire: JobWire) -> None:
    wire.limit("set")
    wire.enqueue("a", queue="used")
    wire.enqueue("b", queue="waits", delay=T0 + SECOND)
    wire.enqueue("c", queue="holds")
    wire.take(queue="holds")
    wire.enqueue("d", queue="done")
    wire.settle("d")
    wire.create("e", target="poll://any@queue.workflows")
    names = [queue["name"] for queue in wire.send("queue.search", {}).data["queues"]]
    assert names == ["holds", "set", "used", "waits"]
    page = wire.send("queue.search", {"limit": 1, "cursor": "set", "prefix": "u"}).data
    assert [queue["name"] for queue in page["queues"]] == ["used"]
    first = wire.send("queue.search", {"limit": 2}).data
    assert ([queue["name"] for queue in first["queues"]], first["cursor"]) == (["holds", "set"], "set")


def test_at_most_so_many_are_held_at_once(wire: JobWire) -> None:
    fill(wire, 5)
    wire.limit(concurrency=2)
    answer = wire.take_all(5)
    assert [item["task"]["id"] for item in answer.data["tasks"]] == ["j000", "j001"]
    assert wire.take_all(5).data == {"tasks": [], "limited": True}
    wire.start("j000")
    assert wire.take(5) == []
    wire.fulfill("j000")
    assert wire.take(5) == ["j002"]


@pytest.mark.parametrize("end", ["fulfil", "fail", "cancel", "release", "lapse", "crash", "expire", "settle"])
def test_every_way_to_end_makes_room_again(wire: JobWire, end: str) -> None:
    wire.limit(concurrency=1)
    wire.enqueue("a", **({"goodUntil": T0 + MINUTE} if end == "expire" else {}))
    wire.now += 1
    wire.enqueue("b")
    assert wire.take(2, start=end in ("fulfil", "fail", "crash")) == ["a"]
    match end:
        case "fulfil":
            wire.fulfill("a")
        case "fail":
            wire.fail("a")
        case "cancel":
            wire.cancel("a")
        case "release":
            wire.release("a")
        case "settle":
            wire.settle("a")
        case _:
            wire.tick(T0 + MINUTE)
            wire.tick(T0 + MINUTE + 1)
    assert len(wire.take(2)) == 1


def test_keys_have_limits_of_their_own_and_do_not_hide_each_other(wire: JobWire) -> None:
    wire.limit(keyConcurrency=1)
    for key in ("a", "b", "c"):
        fill(wire, 10, key, key=key)
    fill(wire, 3, "free")
    assert wire.take(4) == ["a000", "b000", "c000", "free000"]
    assert wire.take_all(4).data["limited"] is True
    wire.start("b000")
    wire.fulfill("b000")
    assert wire.take(1) == ["b001"]


def test_both_limits_hold_together(wire: JobWire) -> None:
    wire.limit(concurrency=3, keyConcurrency=2)
    fill(wire, 5, "a", key="a")
    fill(wire, 5, "b", key="b")
    assert wire.take(10) == ["a000", "a001", "b000"]


def test_a_rate_grants_no_more_than_its_count_in_any_stretch(wire: JobWire) -> None:
    wire.limit(rate={"count": 3, "perMs": 1000})
    fill(wire, 10)
    assert len(wire.take(10, start=True)) == 3
    answer = wire.take_all(10)
    assert (answer.data["tasks"], answer.data["nextAt"]) == ([], T0 + 1000)
    wire.now = T0 + 999
    assert wire.take(10) == []
    wire.now = T0 + 1000
    assert len(wire.take(10, start=True)) == 3


def test_a_rate_per_key_holds_back_only_its_key(wire: JobWire) -> None:
    wire.limit(keyRate={"count": 1, "perMs": 1000})
    fill(wire, 3, "a", key="a")
    fill(wire, 3, "b", key="b")
    fill(wire, 3, "free")
    answer = wire.take_all(10, start=True)
    assert len(answer.data["tasks"]) == 5
    assert answer.data["nextAt"] == T0 + 1000
    wire.now = answer.data["nextAt"]
    assert wire.take(10) == ["a001", "b001"]


def test_what_a_rate_has_granted_stays_granted_when_it_is_given_back(wire: JobWire) -> None:
    wire.limit(rate={"count": 1, "perMs": 1000})
    wire.running()
    wire.release("j")
    assert wire.take() == []
    wire.now += 1000
    assert wire.take() == ["j"]


def test_a_claim_that_does_not_start_takes_nothing_from_the_rate(wire: JobWire) -> None:
    wire.limit(rate={"count": 2, "perMs": 1000})
    fill(wire, 5)
    assert wire.take(5) == ["j000", "j001"], "no more than may begin now"
    wire.release("j000")
    assert wire.take(5, start=True) == ["j000", "j002"]
    assert wire.take(5) == []


def test_a_claimed_task_begins_only_if_the_rate_has_room(wire: JobWire) -> None:
    wire.limit(rate={"count": 2, "perMs": 1000})
    fill(wire, 3)
    assert wire.take(2) + wire.take(1) == ["j000", "j001", "j002"]
    assert [wire.start(name).status for name in ("j000", "j001")] == [200, 200]
    answer = wire.start("j002")
    assert (answer.status, "HF1208" in answer.data) == (409, True)
    assert (wire.status("j002"), wire.job("j002").get("claimedBy")) == ("PENDING", None)
    assert "attempts" not in wire.job("j002")
    assert wire.start("j000").status == 200, "again is the same"
    wire.now += 1000
    assert wire.take(5, start=True) == ["j002"]


def test_a_claimed_task_begins_only_if_the_rate_of_its_key_has_room(wire: JobWire) -> None:
    wire.limit(keyRate={"count": 1, "perMs": 1000})
    fill(wire, 2, "a", key="a")
    fill(wire, 2, "b", key="b")
    assert wire.take(4) + wire.take(4) == ["a000", "b000", "a001", "b001"]
    started = [wire.start(name).status for name in ("a000", "b000", "a001", "b001")]
    assert started == [200, 200, 409, 409]


def test_a_claimed_task_of_a_paused_queue_goes_back_when_it_would_begin(wire: JobWire) -> None:
    fill(wire, 2)
    assert wire.take(2) == ["j000", "j001"]
    assert wire.start("j000").status == 200
    wire.pause()
    answer = wire.start("j001")
    assert (answer.status, "paused" in answer.data, "HF1208" in answer.data) == (409, True, True)
    assert (wire.status("j000"), wire.status("j001")) == ("RUNNING", "PENDING")
    assert wire.start("j000").status == 200, "it has begun already"
    assert wire.start("j001").status == 409
    wire.pause(paused=False)
    assert wire.take(2, start=True) == ["j001"]
    assert wire.fulfill("j001", 2).status == 200


@pytest.mark.parametrize("look", [("queue.get", {"name": "mail"}), ("queue.search", {})])
def test_a_rate_counts_also_in_a_commit_that_looks_at_the_queue(
    wire: JobWire, look: tuple[str, Json]
) -> None:
    wire.limit(rate={"count": 2, "perMs": 1000})
    fill(wire, 3)
    assert wire.take() == ["j000"]
    claim = {"groups": ["queue.mail"], "count": 1, "pid": "w", "ttl": MINUTE, "start": True}
    replies = wire.batch(look, ("task.start", {"id": "j000", "version": 1}), look, ("task.claim", claim))
    assert [reply.status for reply in replies] == [200] * 4
    assert wire.take(5) == []


def test_a_pause_and_the_start_after_it_may_come_in_one_commit(wire: JobWire) -> None:
    wire.claimed()
    pause = ("queue.pause", {"name": "mail", "paused": True})
    replies = wire.batch(pause, ("task.start", {"id": "j", "version": 1}))
    assert [reply.status for reply in replies] == [200, 409]
    assert wire.status() == "PENDING"


@pytest.mark.parametrize(
    ("count", "per_ms"),
    rest_slow([(3, 10), (2, 60_000), (1, 1), (7, 100), (10, 1000), (50, 777)], quick=2),
)
def test_in_any_stretch_of_time_no_more_than_the_count_is_granted(
    wire: JobWire, count: int, per_ms: int
) -> None:
    """Claims at random instants, as fast as the rate allows; then every window is looked at."""
    rng = random.Random(seed_for_test())
    wire.limit(rate={"count": count, "perMs": per_ms})
    fill(wire, 200)
    grants: list[int] = []
    for _ in range(60):
        starts = rng.random() < 0.5
        answer = wire.take_all(rng.randint(1, count + 2), start=starts).data
        tasks = [item["task"] for item in answer["tasks"]]
        begun = [task for task in tasks if starts or wire.start(task["id"], task["version"]).status == 200]
        grants += [wire.now] * len(begun)
        wire.now += rng.choice([0, 1, max(1, per_ms // 7), per_ms])
        if rng.random() < 0.5 and "nextAt" in answer:
            wire.now = max(wire.now, answer["nextAt"])
    for instant in grants:
        window = [other for other in grants if instant <= other < instant + per_ms]
        assert len(window) <= count, (instant, window)
    slowest = -(-per_ms // 32) + per_ms
    assert len(grants) >= min(200, (wire.now - T0) // slowest * count // 4), "and it is not stingy"


def test_a_paused_queue_grants_nothing_and_its_deadlines_still_pass(wire: JobWire) -> None:
    wire.enqueue("a", goodUntil=T0 + SECOND)
    wire.enqueue("b")
    assert wire.pause()["paused"] is True
    assert wire.take_all(5).data == {"tasks": [], "limited": True}
    wire.tick(T0 + SECOND)
    assert (wire.status("a"), wire.status("b")) == ("EXPIRED", "PENDING")


def test_resuming_offers_what_waits(wire: JobWire) -> None:
    fill(wire, 70)  # more than one commit offers
    assert wire.offers("j069") == []
    assert len(wire.take(64)) == 64
    wire.pause()
    assert wire.offers("j069") == []
    assert wire.pause(paused=False)["paused"] is False
    assert wire.offers("j069") == [0]
    assert "j069" in wire.take(9)


def test_other_queues_and_workflows_do_not_notice(wire: JobWire) -> None:
    wire.pause()
    wire.limit("slow", concurrency=1)
    wire.enqueue("a")
    wire.enqueue("b", queue="other")
    wire.create("w", target="poll://any@workers")
    data = {
        "groups": ["queue.mail", "queue.other", "queue.slow", "workers"],
        "count": 9,
        "pid": "w",
        "ttl": 5,
    }
    granted = wire.send("task.claim", data).data["tasks"]
    assert [item["task"]["id"] for item in granted] == ["b", "w"]


def test_a_task_of_a_limited_queue_cannot_be_acquired_by_id(wire: JobWire) -> None:
    wire.enqueue("a")
    wire.limit(concurrency=9)
    before = wire.snap()
    answer = wire.acquire("a")
    assert (answer.status, "HF1207" in answer.data) == (409, True)
    assert wire.task_create("a").status == 409
    assert wire.snap() == before
    wire.limit()
    assert wire.acquire("a").status == 200
    assert wire.status("a") == "CLAIMED"


def test_a_limit_set_in_the_same_commit_holds_for_the_claim_after_it(wire: JobWire) -> None:
    fill(wire, 5)
    claim = {"groups": ["queue.mail"], "count": 5, "pid": "w", "ttl": MINUTE}
    replies = wire.batch(
        ("queue.set", {"name": "mail", "concurrency": 2}),
        ("task.claim", claim),
        ("task.claim", claim),
        ("queue.set", {"name": "mail", "concurrency": 3}),
        ("task.claim", claim),
        ("queue.set", {"name": "mail"}),
        ("task.claim", claim | {"count": 1}),
    )
    assert [len(reply.data.get("tasks", [])) for reply in replies] == [0, 2, 0, 0, 1, 0, 1]


def test_a_limit_set_after_a_claim_in_the_same_commit_is_kept(wire: JobWire) -> None:
    fill(wire, 5)
    claim = {"groups": ["queue.mail"], "count": 1, "pid": "w", "ttl": MINUTE}
    wire.batch(("task.claim", claim), ("queue.pause", {"name": "mail", "paused": True}))
    assert wire.queue()["paused"] is True
    wire.batch(("task.claim", claim), ("queue.set", {"name": "mail", "concurrency": 1}))
    assert (wire.queue()["paused"], wire.queue()["concurrency"]) == (True, 1)


def test_a_retry_goes_behind_what_has_waited_longer(wire: JobWire) -> None:
    wire.enqueue("a-fails", retry={"delays": [SECOND] * 3})
    wire.now += 1
    wire.enqueue("b-waits")
    assert wire.take(1, start=True) == ["a-fails"]
    wire.fail("a-fails")
    wire.tick(wire.now + SECOND)
    assert wire.take(1, start=True) == ["b-waits"]
    assert wire.take(1, start=True) == ["a-fails"]


def test_what_was_delayed_goes_behind_what_may_begin_before_it(wire: JobWire) -> None:
    wire.enqueue("a-delayed", delay=T0 + SECOND)
    wire.now += 1
    wire.enqueue("b-waits")
    wire.tick(T0 + SECOND)
    wire.enqueue("c-late")
    assert wire.take(3) == ["b-waits", "a-delayed", "c-late"], "equal instants go by their creation"


@pytest.mark.parametrize("how", ["given back", "its claim lapses"])
def test_what_comes_back_unbegun_keeps_its_place(wire: JobWire, how: str) -> None:
    wire.enqueue("z-first")
    wire.now += 1
    wire.enqueue("a-second")
    assert wire.take(1, ttl=10 * SECOND) == ["z-first"]
    if how == "given back":
        wire.send("task.release", {"id": "z-first", "version": 1})
    wire.tick(wire.now + 10 * SECOND)
    assert wire.take(2) == ["z-first", "a-second"]


def test_higher_priorities_go_first_and_a_ceiling_leaves_them_out(wire: JobWire) -> None:
    for name, priority in (("low", -5), ("plain", None), ("high", 9)):
        wire.enqueue(name, priority=priority)
    assert wire.take(ceiling=0) == ["plain"]
    assert wire.take(ceiling=-1) == ["low"]
    assert wire.take() == ["high"]


@pytest.mark.parametrize(
    "limits",
    rest_slow([{"concurrency": 5, "keyConcurrency": 2}, {"concurrency": 4}, {"keyConcurrency": 2}], quick=1),
)
def test_limits_hold_at_every_step_of_a_random_life(wire: JobWire, limits: Json) -> None:
    rng = random.Random(seed_for_test())
    wire.limit(**limits)
    made = 0
    held: dict[str, int] = {}
    for _ in range(120):
        match rng.randrange(6):
            case 0 | 1:
                key = rng.choice(["a", "b", "c", None])
                spec: Json = {"retry": {"delays": [50]}} | ({} if key is None else {"key": key})
                wire.enqueue(f"{key}-{made}", **spec)
                made += 1
            case 2 | 3:
                wire.take(rng.randint(1, 4), start=rng.random() < 0.5, ttl=rng.choice([100, MINUTE]))
            case 4:
                wire.tick(wire.now + rng.choice([1, 60, 200]))
            case _:
                if held:
                    name = rng.choice([*held])
                    end = rng.choice(["fulfill", "fail", "release"])
                    getattr(wire, end)(name, held[name])
        tasks = wire.snap()["tasks"]
        held = {task["id"]: task["version"] for task in tasks if task["state"] == "acquired"}
        assert len(held) <= limits.get("concurrency", 99)
        keys = Counter(name.partition("-")[0] for name in held)
        keys.pop("None", None)
        assert all(number <= limits.get("keyConcurrency", 99) for number in keys.values())
    assert made > 20
