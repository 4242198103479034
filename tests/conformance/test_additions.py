"""What Holdfast adds to the protocol: claim, priority, start, retries, lost leases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import (
    HOUR,
    INT_MAX,
    MINUTE,
    RETRY_MS,
    SECOND,
    T0,
    WORKERS,
    Json,
    Wire,
    suspension,
)


def names(items: list[Json]) -> list[str]:
    return [item["task"]["id"] for item in items]


# -- claim -------------------------------------------------------------------------------------------------


def test_a_claim_acquires_what_it_hands_out(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    item = wire.claim("workers", pid="me", ttl=5_000)[0]
    assert item["task"] == {
        "id": "t",
        "state": "acquired",
        "version": 1,
        "resumes": 0,
        "pid": "me",
        "ttl": 5_000,
    }
    assert wire.task("t") == item["task"]
    assert wire.due("t") == (1, T0 + 5_000)


def test_an_item_of_a_claim_has_the_shape_of_an_acquire(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    item = wire.claim()[0]
    assert set(item) == {"task", "promise", "preload", "kind", "data"}
    assert (item["kind"], item["data"]) == ("invoke", {"invoked": item["promise"]})


def test_an_item_of_a_claim_after_a_wake_names_what_woke_it(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    item = wire.claim()[0]
    assert (item["kind"], item["data"]["awaited"]["id"]) == ("resume", "dep")
    assert (item["task"]["version"], item["task"]["resumes"]) == (2, 0)


def test_a_claim_on_empty_queues_hands_out_nothing(wire: Wire) -> None:
    assert wire.claim("nobody", "workers") == []


def test_a_claim_is_granted_only_what_the_scope_of_its_caller_covers(wire: Wire) -> None:
    every = ["b:1", "admin", "a", "ab:1", "a:1", "a-1", "a.1", "a/1"]
    for name in every:
        wire.now += 1
        wire.create(name, target=WORKERS)
    with wire.within("a"):
        assert names(wire.claim(count=10)) == ["a", "a:1", "a-1", "a.1", "a/1"]
        assert names(wire.claim(count=10)) == []
    with wire.within("ab:"):
        assert names(wire.claim(count=10)) == ["ab:1"]
    assert names(wire.claim(count=10)) == ["b:1", "admin"]


def test_a_claim_takes_no_more_than_it_asks_for(wire: Wire) -> None:
    for number in range(5):
        wire.create(f"t{number}", target=WORKERS)
    assert names(wire.claim(count=2)) == ["t0", "t1"]
    assert names(wire.claim(count=2)) == ["t2", "t3"]
    assert names(wire.claim(count=2)) == ["t4"]
    assert names(wire.claim(count=2)) == []


def test_a_claim_takes_from_every_group_it_names_and_no_other(wire: Wire) -> None:
    wire.create("a", target="poll://any@alpha")
    wire.create("b", target="poll://any@beta")
    wire.create("c", target="poll://any@gamma")
    assert sorted(names(wire.claim("alpha", "beta", count=9))) == ["a", "b"]


def test_a_claim_takes_tasks_that_only_prefer_somebody(wire: Wire) -> None:
    wire.create("t", target="poll://any@workers/somebody")
    assert names(wire.claim()) == ["t"]


@pytest.mark.parametrize(
    "target",
    [
        "poll://uni@workers/p",
        "http://workers",
        "https://workers/x",
        "poll://any@workers2",
        "poll://any@Workers",
    ],
)
def test_a_claim_leaves_other_addresses_alone(wire: Wire, target: str) -> None:
    wire.create("t", target=target)
    assert wire.claim("workers") == []


def test_a_group_may_have_spaces(wire: Wire) -> None:
    wire.create("t", target="poll://any@my group/p 1")
    assert names(wire.claim("my group")) == ["t"]


def test_the_oldest_promise_goes_first_whatever_its_id(wire: Wire) -> None:
    for number, name in enumerate(["c", "a", "b"]):
        wire.now = T0 + number
        wire.create(name, target=WORKERS)
    assert names(wire.claim(count=3)) == ["c", "a", "b"]


def test_promises_of_one_age_go_by_id(wire: Wire) -> None:
    for name in ("c", "a", "b"):
        wire.create(name, target=WORKERS)
    assert names(wire.claim(count=3)) == ["a", "b", "c"]


def test_age_is_that_of_the_promise_and_not_of_the_last_offer(wire: Wire) -> None:
    wire.create("old", target=WORKERS)
    wire.now = T0 + 1
    wire.create("new", target=WORKERS)
    wire.acquire("old")
    wire.now = T0 + 5 * SECOND
    wire.release("old")
    assert names(wire.claim(count=2)) == ["old", "new"]


def test_the_order_of_the_groups_does_not_matter(wire: Wire) -> None:
    wire.create("second", target="poll://any@alpha", timeout_at=T0 + HOUR)
    wire.create("first", target="poll://any@beta", tags={"holdfast:priority": "1"})
    assert names(wire.claim("alpha", "beta", count=2)) == ["first", "second"]


def test_the_highest_priority_goes_first(wire: Wire) -> None:
    for name, priority in [("low", "-5"), ("none", None), ("high", "10"), ("nine", "9")]:
        tags = {} if priority is None else {"holdfast:priority": priority}
        wire.create(name, target=WORKERS, tags=tags)
        wire.now += 1
    assert names(wire.claim(count=9)) == ["high", "nine", "none", "low"]


def test_a_priority_of_zero_is_no_priority(wire: Wire) -> None:
    wire.create("b", target=WORKERS, tags={"holdfast:priority": "0"})
    wire.create("a", target=WORKERS)
    assert names(wire.claim(count=2)) == ["a", "b"]


@pytest.mark.parametrize("priority", ["-1000000", "1000000", "0", "-1"])
def test_a_priority_inside_its_limits_is_accepted(wire: Wire, priority: str) -> None:
    assert wire.create("t", target=WORKERS, tags={"holdfast:priority": priority}).status == 200


@pytest.mark.parametrize(
    "priority", ["", "1000001", "-1000001", "1.5", "high", "1_000", "0x10", "٣", "1e3", "9" * 4_000]
)
def test_a_priority_outside_its_limits_is_refused(wire: Wire, priority: str) -> None:
    assert wire.create("t", target=WORKERS, tags={"holdfast:priority": priority}).status == 400
    assert wire.get("t").status == 404


@pytest.mark.parametrize("state", ["acquired", "suspended", "halted", "fulfilled"])
def test_a_claim_leaves_tasks_that_are_not_pending(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.acquired("t")
    if state == "suspended":
        wire.suspend("t", "dep")
    if state == "halted":
        wire.halt("t")
    if state == "fulfilled":
        wire.fulfill("t")
    assert wire.claim(count=10) == []


@pytest.mark.parametrize("state", ["pending", "acquired", "suspended"])
def test_a_task_that_is_halted_with_a_reason_says_why_and_since_when(wire: Wire, state: str) -> None:
    wire.create("dep")
    if state == "pending":
        wire.create("t", target=WORKERS)
    else:
        wire.acquired("t")
    if state == "suspended":
        wire.suspend("t", "dep")
    wire.now = T0 + 5
    assert wire.halt("t", reason="other code", code="HF5101").status == 200
    why = {"at": T0 + 5, "reason": "other code", "code": "HF5101"}
    task = wire.task("t")
    assert (task["state"], task["halted"], task["error"]) == ("halted", why, "other code")
    [found] = wire.send("task.search", {"state": "halted"}).data["tasks"]
    assert found["halted"] == why


def test_the_first_reason_for_halting_stands(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.now = T0 + 5
    wire.halt("t", reason="first")
    wire.now = T0 + 9
    assert wire.halt("t", reason="second", code="LATER").status == 200
    assert wire.task("t")["halted"] == {"at": T0 + 5, "reason": "first"}


def test_a_task_that_is_continued_or_ended_is_not_shown_as_halted(wire: Wire) -> None:
    for name in ("on", "off"):
        wire.create(name, target=WORKERS)
        wire.halt(name, reason="other code")
    wire.resume("on")
    wire.settle("off")
    assert [wire.task(name)["state"] for name in ("on", "off")] == ["pending", "fulfilled"]
    assert all("halted" not in wire.task(name) for name in ("on", "off"))
    wire.acquire("on", 0)
    assert wire.halt("on").status == 200
    assert "halted" not in wire.task("on"), "this time nobody gave a reason"


def test_a_claim_says_whose_lease_lapsed(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.acquire("t", 0, pid="first")
    wire.tick(T0 + MINUTE)
    [claim] = wire.claim(pid="second")
    assert claim["lapsed"] == "first"
    wire.release("t", 2)
    [claim] = wire.claim(pid="third")
    assert "lapsed" not in claim, "it was given back"


def test_a_claimed_task_is_fenced_like_any_other(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", 0, pid="q").status == 200
    assert wire.claim() == []
    wire.tick(T0 + MINUTE)
    assert wire.claim()[0]["task"]["version"] == 2
    assert wire.fulfill("t", 1).status == 409
    assert wire.fulfill("t", 2).status == 200


def test_two_claims_in_one_array_share_nothing(wire: Wire) -> None:
    for name in "abc":
        wire.create(name, target=WORKERS)
    data: Json = {"groups": ["workers"], "count": 2, "ttl": MINUTE}
    first, second = wire.batch(("task.claim", {**data, "pid": "p"}), ("task.claim", {**data, "pid": "q"}))
    assert (names(first.data["tasks"]), names(second.data["tasks"])) == (["a", "b"], ["c"])


def test_what_is_known_is_claimed_without_a_preload_and_a_cursor_says_so(wire: Wire) -> None:
    for name in ("t", "u"):
        wire.create(name, target=WORKERS, tags={"resonate:branch": name})
        wire.create(f"{name}:1", tags={"resonate:branch": name})
    data: Json = {"groups": ["workers"], "count": 9, "pid": "p", "ttl": MINUTE, "known": ["t", "elsewhere"]}
    first, second = wire.send("task.claim", data).data["tasks"]
    assert (first["task"]["id"], first["preload"], first["cursor"]) == ("t", [], "")
    assert (second["task"]["id"], [it["id"] for it in second["preload"]], "cursor" in second) == (
        "u",
        ["u:1"],
        False,
    )


def test_what_woke_a_known_task_is_shown_all_the_same(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:branch": "t"})
    wire.create("t:1", tags={"resonate:branch": "t"})
    wire.acquire("t", 0)
    wire.suspend("t", "t:1")
    wire.settle("t:1")
    data: Json = {"groups": ["workers"], "count": 9, "pid": "p", "ttl": MINUTE, "known": ["t"]}
    [claim] = wire.send("task.claim", data).data["tasks"]
    assert (claim["kind"], claim["data"]["awaited"]["id"], claim["preload"]) == ("resume", "t:1", [])


def test_a_known_task_without_a_branch_has_nothing_to_preload(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    data: Json = {"groups": ["workers"], "count": 9, "pid": "p", "ttl": MINUTE, "known": ["t"]}
    [claim] = wire.send("task.claim", data).data["tasks"]
    assert (claim["preload"], "cursor" in claim) == ([], False)


# -- start -------------------------------------------------------------------------------------------------


def test_a_task_that_was_never_started_says_so_by_silence(wire: Wire) -> None:
    assert "startedAt" not in wire.acquired("t")


def test_start_says_when_the_work_began(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + 5
    answer = wire.start("t")
    assert (answer.status, answer.task["startedAt"], answer.task["state"]) == (200, T0 + 5, "acquired")
    assert wire.task("t")["startedAt"] == T0 + 5


def test_start_does_not_touch_the_lease(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + 5
    wire.start("t")
    assert wire.due("t") == (1, T0 + MINUTE)


def test_a_second_start_keeps_the_first_instant(wire: Wire) -> None:
    wire.acquired("t")
    wire.start("t")
    wire.now = T0 + 5
    assert wire.start("t").task["startedAt"] == T0


def test_the_start_survives_a_suspension(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.start("t")
    wire.suspend("t", "dep")
    assert wire.task("t")["startedAt"] == T0
    wire.settle("dep")
    wire.now = T0 + 5
    wire.acquire("t", 1)
    assert wire.start("t", 2).task["startedAt"] == T0


@pytest.mark.parametrize("more", [{}, {"retry": {"delay": 5}}])
def test_a_release_clears_the_start(wire: Wire, more: dict[str, Any]) -> None:
    wire.acquired("t")
    wire.start("t")
    wire.release("t", **more)
    assert "startedAt" not in wire.task("t")


def test_a_lapsed_lease_clears_the_start(wire: Wire) -> None:
    wire.acquired("t")
    wire.start("t")
    wire.tick(T0 + MINUTE)
    assert "startedAt" not in wire.task("t")


# -- retry -------------------------------------------------------------------------------------------------


def test_a_release_with_a_retry_parks_the_task_for_the_delay(wire: Wire) -> None:
    wire.task_create("t")
    wire.now = T0 + 5 * SECOND
    answer = wire.release("t", retry={"delay": 7_000})
    assert (answer.status, answer.data) == (200, {})
    assert wire.due("t") == (0, T0 + 12 * SECOND)
    wire.tick(T0 + 12 * SECOND - 1)
    assert (wire.messages(), wire.claim()) == ([], [])
    wire.tick(T0 + 12 * SECOND)
    assert wire.offers("t") == [1]
    assert wire.due("t") == (0, T0 + 12 * SECOND + RETRY_MS)
    assert names(wire.claim()) == ["t"]


def test_a_retry_without_delay_is_offered_at_once(wire: Wire) -> None:
    wire.task_create("t")
    wire.release("t", retry={"delay": 0})
    assert wire.offers("t") == [1]
    assert wire.due("t") == (0, T0 + RETRY_MS)
    assert names(wire.claim()) == ["t"]


def test_retries_are_counted_and_the_last_error_is_kept(wire: Wire) -> None:
    wire.acquired("t")
    assert not {"retries", "error"} & set(wire.task("t"))
    wire.release("t", retry={"delay": 0, "error": "first"})
    assert (wire.task("t")["retries"], wire.task("t")["error"]) == (1, "first")
    wire.acquire("t", 1)
    wire.release("t", 2, retry={"delay": 0, "error": "second"})
    assert (wire.task("t")["retries"], wire.task("t")["error"]) == (2, "second")


def test_the_next_worker_sees_the_retries_and_the_error(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t", retry={"delay": 0, "error": "no luck"})
    task = wire.acquire("t", 1).task
    assert (task["retries"], task["error"]) == (1, "no luck")


def test_a_retry_may_come_without_an_error(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t", retry={"delay": 0})
    task = wire.task("t")
    assert task["retries"] == 1
    assert "error" not in task


def test_a_plain_release_is_no_retry(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert "retries" not in wire.task("t")


def test_a_lapsed_lease_is_no_retry(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    assert "retries" not in wire.task("t")


def test_a_task_parked_by_a_retry_may_be_acquired_by_id(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t", retry={"delay": HOUR})
    assert wire.acquire("t", 1).status == 200


def test_a_retry_forgets_the_bounces(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for version in range(3):
        wire.acquire("t", version)
        wire.release("t", version + 1)
    wire.acquire("t", 3)
    wire.release("t", 4, retry={"delay": 0})
    wire.acquire("t", 4)
    wire.release("t", 5)
    assert wire.due("t") == (0, wire.now + RETRY_MS)


def test_the_longest_retry_delay_ends_at_the_largest_instant(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.release("t", retry={"delay": INT_MAX}).status == 200
    assert wire.due("t") == (0, INT_MAX)


def test_a_parked_retry_still_dies_with_its_promise(wire: Wire) -> None:
    wire.acquired("t", timeout_at=T0 + HOUR)
    wire.release("t", retry={"delay": 2 * HOUR})
    wire.tick(T0 + HOUR)
    assert wire.stored("tasks", "t")["state"] == "fulfilled"


# -- lost leases -------------------------------------------------------------------------------------------


def test_a_heartbeat_names_the_pairs_that_were_not_refreshed_in_the_order_given(wire: Wire) -> None:
    wire.acquired("held")
    wire.acquired("stale")
    wire.acquired("done")
    wire.fulfill("done")
    wire.create("other", target=WORKERS)
    wire.acquire("other", pid="q")
    answer = wire.heartbeat(("stale", 9), ("held", 1), ("missing", 1), ("other", 1), ("done", 1))
    assert answer.data == {
        "lost": [
            {"id": "stale", "version": 9},
            {"id": "missing", "version": 1},
            {"id": "other", "version": 1},
            {"id": "done", "version": 1},
        ]
    }


def test_a_heartbeat_after_a_lapse_says_the_lease_is_lost(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    assert wire.heartbeat(("t", 1)).data == {"lost": [{"id": "t", "version": 1}]}


def test_an_empty_heartbeat_loses_nothing(wire: Wire) -> None:
    assert wire.heartbeat().data == {}


def test_a_pair_named_twice_is_refreshed_and_not_lost(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.heartbeat(("t", 1), ("t", 1)).data == {}


# -- woken ------------------------------------------------------------------------------------------------


def woken_while_held(wire: Wire) -> None:
    """The task t is held, and something it was registered with has settled meanwhile."""
    wire.create("other")
    wire.create("dep")
    wire.acquired("t")
    assert wire.send("promise.register_callback", {"awaited": "other", "awaiter": "t"}).status == 200
    wire.settle("other")
    assert wire.task("t")["resumes"] == 1


def test_a_suspension_that_checks_woken_is_refused_once_when_something_woke_the_task(wire: Wire) -> None:
    woken_while_held(wire)
    checking = {**suspension("t", "dep"), "checkWoken": True}
    answer = wire.send("task.suspend", checking)
    assert (answer.status, [*answer.data]) == (300, ["preload"])
    assert (wire.task("t")["state"], wire.task("t")["resumes"]) == ("acquired", 0)
    assert wire.send("task.suspend", checking).status == 200
    assert wire.task("t")["state"] == "suspended"


@pytest.mark.parametrize("more", [{}, {"checkWoken": False}, {"checkWoken": None}])
def test_a_suspension_that_does_not_check_woken_is_as_before(wire: Wire, more: Json) -> None:
    woken_while_held(wire)
    assert wire.send("task.suspend", {**suspension("t", "dep"), **more}).status == 200


def test_a_heartbeat_that_checks_woken_names_the_tasks_that_were_woken(wire: Wire) -> None:
    woken_while_held(wire)
    wire.acquired("u")
    pairs = [{"id": name, "version": version} for name, version in (("t", 1), ("u", 1), ("t", 7))]
    beat = {"pid": "p", "tasks": pairs}
    lost = {"lost": [{"id": "t", "version": 7}]}
    assert wire.send("task.heartbeat", beat).data == lost
    woken = {"woken": [{"id": "t", "version": 1}]}
    assert wire.send("task.heartbeat", {**beat, "checkWoken": True}).data == lost | woken


def test_whether_to_check_woken_is_true_or_false(wire: Wire) -> None:
    woken_while_held(wire)
    assert wire.send("task.suspend", {**suspension("t", "dep"), "checkWoken": "yes"}).status == 400
    assert wire.send("task.heartbeat", {"pid": "p", "tasks": [], "checkWoken": 1}).status == 400
