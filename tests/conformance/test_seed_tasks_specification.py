"""The tasks page of the specification, statement by statement, in the order of that page."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import (
    CLIENT,
    FAR,
    HOUR,
    MINUTE,
    RETRY_MS,
    SECOND,
    T0,
    WORKERS,
    Wire,
    creation,
    ids,
    sub,
)

# -- a task is the unit of delivery --------------------------------------------------------------------------


def test_a_task_and_its_promise_share_one_id(wire: Wire) -> None:
    answer = wire.task_create("t")
    assert answer.task["id"] == answer.promise["id"] == "t"


def test_the_promise_owns_the_value_and_the_task_owns_the_claim(wire: Wire) -> None:
    wire.acquired("t")
    promise, task = wire.get("t").promise, wire.task("t")
    assert "value" in promise
    assert "pid" not in promise
    assert "pid" in task
    assert "value" not in task


def test_a_promise_with_a_target_has_a_task(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.task("t")["state"] == "pending"


def test_a_promise_without_a_target_has_no_task(wire: Wire) -> None:
    wire.create("p")
    assert wire.send("task.get", {"id": "p"}).status == 404


# -- lifecycle: five states --------------------------------------------------------------------------------


def test_a_task_made_by_promise_create_starts_pending(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.task("t")["state"] == "pending"


def test_a_pending_task_was_offered_to_its_target(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.messages(WORKERS) == [
        {"kind": "execute", "head": {}, "data": {"task": {"id": "t", "version": 0}}}
    ]


def test_a_task_made_by_task_create_starts_acquired(wire: Wire) -> None:
    assert wire.task_create("t").task["state"] == "acquired"


def test_acquire_takes_pending_to_acquired(wire: Wire) -> None:
    assert wire.acquired("t")["state"] == "acquired"


def test_an_acquired_task_carries_its_holder_and_a_lease(wire: Wire) -> None:
    wire.acquired("t")
    task = wire.task("t")
    assert (task["pid"], task["ttl"]) == ("p", MINUTE)
    assert wire.due("t") == (1, T0 + MINUTE)


def test_release_takes_acquired_back_to_pending(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.task("t")["state"] == "pending"


def test_suspend_takes_acquired_to_suspended(wire: Wire) -> None:
    wire.suspended("t")
    assert wire.task("t")["state"] == "suspended"


def test_a_suspended_task_is_held_until_an_awaited_promise_settles(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.tick(T0 + HOUR)
    assert wire.task("t")["state"] == "suspended"
    wire.settle("dep")
    assert wire.task("t")["state"] == "pending"


@pytest.mark.parametrize("settled", ["one", "two"])
def test_any_one_of_several_awaited_promises_wakes_the_task(wire: Wire, settled: str) -> None:
    wire.suspended("t", "one", "two")
    wire.settle(settled)
    assert wire.task("t")["state"] == "pending"


def pend(wire: Wire) -> None:
    wire.create("t", target=WORKERS)


def hold(wire: Wire) -> None:
    wire.acquired("t")


def wait(wire: Wire) -> None:
    wire.suspended("t")


@pytest.mark.parametrize("reach", [pend, hold, wait])
def test_halt_blocks_a_pending_an_acquired_and_a_suspended_task(
    wire: Wire, reach: Callable[[Wire], None]
) -> None:
    reach(wire)
    assert wire.halt("t").status == 200
    assert wire.task("t")["state"] == "halted"


def test_continue_returns_a_halted_task_to_pending(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    assert wire.resume("t").status == 200
    assert wire.task("t")["state"] == "pending"


def test_fulfill_takes_acquired_to_fulfilled(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.task("t")["state"] == "fulfilled"


def test_a_fulfilled_task_has_a_settled_promise(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.get("t").promise["state"] == "resolved"


@pytest.mark.parametrize("kind", ["acquire", "release", "fulfill", "suspend", "fence", "halt", "continue"])
def test_nothing_leaves_fulfilled(wire: Wire, kind: str) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.fulfill("t")
    before = wire.snap()
    requests = {
        "acquire": lambda: wire.acquire("t", 1),
        "release": lambda: wire.release("t"),
        "fulfill": lambda: wire.fulfill("t"),
        "suspend": lambda: wire.suspend("t", "dep"),
        "fence": lambda: wire.fence("t", "promise.create", creation("x")),
        "halt": lambda: wire.halt("t"),
        "continue": lambda: wire.resume("t"),
    }
    assert requests[kind]().status == 409
    assert wire.snap() == before


# -- the version rises only on pending -> acquired -----------------------------------------------------------


def test_acquire_raises_the_version_by_one(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.task("t")["version"] == 0
    assert wire.acquire("t", 0).task["version"] == 1


def test_release_leaves_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.task("t")["version"] == 1


def test_waking_leaves_the_version(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    assert wire.task("t")["version"] == 1


def test_a_lapsed_lease_leaves_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    task = wire.task("t")
    assert (task["state"], task["version"]) == ("pending", 1)


def test_suspending_leaves_the_version(wire: Wire) -> None:
    wire.suspended("t")
    assert wire.task("t")["version"] == 1


def test_halting_and_continuing_leave_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    assert wire.task("t")["version"] == 1
    wire.resume("t")
    assert wire.task("t")["version"] == 1


def test_fulfilling_leaves_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.task("t")["version"] == 1


@pytest.mark.parametrize("presented", [0, 2, 7])
@pytest.mark.parametrize("operation", ["release", "fulfill", "suspend", "fence"])
def test_a_version_that_is_not_current_is_a_conflict(wire: Wire, operation: str, presented: int) -> None:
    wire.create("dep")
    wire.acquired("t")
    before = wire.snap()
    requests = {
        "release": lambda: wire.release("t", presented),
        "fulfill": lambda: wire.fulfill("t", presented),
        "suspend": lambda: wire.suspend("t", "dep", version=presented),
        "fence": lambda: wire.fence("t", "promise.create", creation("x"), presented),
    }
    assert requests[operation]().status == 409
    assert wire.snap() == before


def test_acquire_with_a_version_that_is_not_current_is_a_conflict(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", 1).status == 409


# -- lease and heartbeat ---------------------------------------------------------------------------------


def test_acquire_sets_the_lease_to_now_plus_ttl(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.now = T0 + 500
    wire.acquire("t", ttl=7_000)
    assert wire.due("t") == (1, T0 + 7_500)


def test_a_heartbeat_sets_the_lease_to_now_plus_ttl(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + 40 * SECOND
    wire.heartbeat(("t", 1))
    assert wire.due("t") == (1, T0 + 40 * SECOND + MINUTE)


def test_a_heartbeat_in_time_keeps_the_claim_past_the_first_deadline(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + 59 * SECOND
    wire.heartbeat(("t", 1))
    wire.tick(T0 + MINUTE)
    assert wire.task("t")["state"] == "acquired"


def test_release_deletes_the_lease(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + 2 * SECOND
    wire.release("t")
    assert wire.due("t") == (0, T0 + 2 * SECOND + RETRY_MS)


def test_the_lease_holds_until_its_last_millisecond(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE - 1)
    assert wire.task("t")["state"] == "acquired"
    wire.tick(T0 + MINUTE)
    assert wire.task("t")["state"] == "pending"


def test_a_lapsed_lease_offers_the_task_again(wire: Wire) -> None:
    wire.task_create("t")
    assert wire.offers("t") == []
    wire.tick(T0 + MINUTE)
    assert wire.offers("t") == [1]


def test_after_a_lapsed_lease_another_worker_may_claim_and_raises_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    answer = wire.acquire("t", 1, pid="q")
    assert (answer.status, answer.task["version"], answer.task["pid"]) == (200, 2, "q")


def test_one_heartbeat_refreshes_every_task_it_names(wire: Wire) -> None:
    for name in ("a", "b", "c"):
        wire.acquired(name)
    wire.now = T0 + 30 * SECOND
    wire.heartbeat(("a", 1), ("b", 1), ("c", 1))
    assert {wire.due(name) for name in "abc"} == {(1, T0 + 90 * SECOND)}


def test_heartbeat_pairs_are_independent_and_mismatches_are_skipped(wire: Wire) -> None:
    wire.acquired("good")
    wire.acquired("stale")
    wire.now = T0 + 30 * SECOND
    assert wire.heartbeat(("missing", 1), ("stale", 0), ("good", 1)).status == 200
    assert wire.due("good") == (1, T0 + 90 * SECOND)
    assert wire.due("stale") == (1, T0 + MINUTE)


# -- operations ------------------------------------------------------------------------------------------


def test_task_get_only_reads(wire: Wire) -> None:
    wire.acquired("t")
    before = wire.snap()
    assert wire.send("task.get", {"id": "t"}).status == 200
    assert wire.snap() == before


def test_task_create_makes_task_and_promise_together(wire: Wire) -> None:
    wire.task_create("t")
    snap = wire.snap()
    assert ids(snap["promises"]) == ids(snap["tasks"]) == ["t"]


def test_task_create_without_a_target_is_refused_and_makes_nothing(wire: Wire) -> None:
    before = wire.snap()
    assert wire.task_create("t", target=None).status == 400
    assert wire.snap() == before


def test_of_two_workers_with_the_same_version_one_acquires_and_one_conflicts(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", 0, pid="p").status == 200
    assert wire.acquire("t", 0, pid="q").status == 409
    assert wire.task("t")["pid"] == "p"


def test_suspend_registers_every_callback_with_the_transition(wire: Wire) -> None:
    wire.suspended("t", "one", "two")
    assert wire.snap()["callbacks"] == [
        {"awaiter": "t", "awaited": "one"},
        {"awaiter": "t", "awaited": "two"},
    ]


def test_suspend_that_fails_registers_nothing(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    before = wire.snap()
    assert wire.suspend("t", "dep", "missing").status == 422
    assert wire.snap() == before


def test_suspend_on_a_settled_promise_says_300_and_the_worker_goes_on(wire: Wire) -> None:
    wire.create("dep")
    wire.settle("dep")
    wire.acquired("t")
    assert wire.suspend("t", "dep").status == 300
    task = wire.task("t")
    assert (task["state"], task["version"], task["pid"]) == ("acquired", 1, "p")


def test_one_settled_promise_among_pending_ones_is_enough_for_300(wire: Wire) -> None:
    wire.create("open")
    wire.create("done")
    wire.settle("done")
    wire.acquired("t")
    assert wire.suspend("t", "open", "done").status == 300
    assert wire.snap()["callbacks"] == []


def test_fulfill_settles_the_promise_and_the_task_in_one_operation(wire: Wire) -> None:
    wire.acquired("t")
    answer = wire.fulfill("t", value={"data": "NDI="})
    assert answer.promise["value"] == {"data": "NDI="}
    assert wire.stored("tasks", "t")["state"] == "fulfilled"
    assert wire.stored("promises", "t")["state"] == "resolved"


def test_the_promise_in_a_fulfill_must_be_the_tasks_own(wire: Wire) -> None:
    wire.create("other")
    wire.acquired("t")
    before = wire.snap()
    action = sub("promise.settle", {"id": "other", "state": "resolved"})
    assert wire.send("task.fulfill", {"id": "t", "version": 1, "action": action}).status == 400
    assert wire.snap() == before


def test_a_fence_runs_a_create_for_the_holder(wire: Wire) -> None:
    wire.acquired("t")
    answer = wire.fence("t", "promise.create", creation("child"))
    assert answer.status == 200
    assert answer.data["action"]["data"]["promise"]["id"] == "child"
    assert wire.get("child").status == 200


def test_a_fence_runs_a_settle_for_the_holder(wire: Wire) -> None:
    wire.create("child")
    wire.acquired("t")
    answer = wire.fence("t", "promise.settle", {"id": "child", "state": "rejected"})
    assert answer.data["action"]["data"]["promise"]["state"] == "rejected"
    assert wire.get("child").promise["state"] == "rejected"


def test_a_fence_is_refused_when_the_task_is_not_acquired(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.fence("t", "promise.create", creation("child"), 0).status == 409
    assert wire.get("child").status == 404


def test_a_fence_is_refused_when_the_promise_was_settled_by_another(wire: Wire) -> None:
    wire.acquired("t")
    wire.settle("t")
    assert wire.fence("t", "promise.create", creation("child")).status == 409
    assert wire.get("child").status == 404


def test_a_fence_is_refused_when_the_promise_is_timed_out(wire: Wire) -> None:
    wire.acquired("t", timeout_at=T0 + 10)
    wire.now = T0 + 10
    assert wire.fence("t", "promise.create", creation("child")).status == 409
    assert wire.get("child").status == 404


def test_a_fence_is_refused_at_another_version(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.fence("t", "promise.create", creation("child"), 2).status == 409
    assert wire.get("child").status == 404


def test_release_offers_the_task_again_at_the_same_version(wire: Wire) -> None:
    wire.task_create("t")
    wire.now = T0 + 2 * SECOND
    assert wire.release("t").data == {}
    assert wire.offers("t") == [1]


def test_after_a_release_a_successor_acquires_and_raises_the_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.acquire("t", 1, pid="q").task["version"] == 2


def test_a_halted_task_cannot_be_acquired(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.halt("t")
    assert wire.acquire("t").status == 409


def test_a_halted_task_is_not_woken(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.halt("t")
    wire.settle("dep")
    assert wire.task("t")["state"] == "halted"


def test_a_continued_task_is_offered_again(wire: Wire) -> None:
    wire.task_create("t")
    wire.halt("t")
    wire.resume("t")
    assert wire.offers("t") == [1]
    assert wire.acquire("t", 1).status == 200


@pytest.mark.parametrize(
    ("state", "expected"),
    [("pending", ["pend"]), ("acquired", ["held"]), ("suspended", ["wait"]), ("halted", ["stop"])],
)
def test_task_search_lists_the_tasks_in_a_state(wire: Wire, state: str, expected: list[str]) -> None:
    wire.create("pend", target=WORKERS)
    wire.acquired("held")
    wire.suspended("wait")
    wire.create("stop", target=WORKERS)
    wire.halt("stop")
    assert ids(wire.send("task.search", {"state": state}).data["tasks"]) == expected


def test_task_search_lists_the_tasks_of_a_target(wire: Wire) -> None:
    wire.create("a", target=WORKERS)
    wire.create("b", target="poll://any@others")
    assert ids(wire.send("task.search", {"target": WORKERS}).data["tasks"]) == ["a"]


# -- asymmetry with promises -------------------------------------------------------------------------------


def test_a_repeated_create_converges_on_the_first_write(wire: Wire) -> None:
    first = wire.create("p", param={"data": "MQ=="}).promise
    assert wire.create("p", param={"data": "MQ=="}).promise == first


def test_a_repeated_settle_converges_on_the_first_write(wire: Wire) -> None:
    wire.create("p")
    first = wire.settle("p", value={"data": "MQ=="}).promise
    assert wire.settle("p", value={"data": "MQ=="}).promise == first


def test_idempotency_keys_make_a_repeated_create_safe(wire: Wire) -> None:
    first = wire.create("p", ikc="once").promise
    again = wire.create("p", ikc="once")
    assert (again.status, again.promise) == (200, first)


def test_idempotency_keys_make_a_repeated_settle_safe(wire: Wire) -> None:
    wire.create("p")
    first = wire.settle("p", iku="once").promise
    again = wire.settle("p", iku="once")
    assert (again.status, again.promise) == (200, first)


def test_an_acquire_sent_twice_succeeds_until_a_successor_raised_the_version(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", 0, corr_id="same").status == 200
    assert wire.acquire("t", 0, corr_id="same").status == 200
    wire.tick(T0 + MINUTE)
    assert wire.acquire("t", 1, pid="q").status == 200
    assert wire.acquire("t", 0, corr_id="same").status == 409


# -- invariants of the store -------------------------------------------------------------------------------


def walk_through_every_state(wire: Wire) -> None:
    """A world with a task in each state, some of them more than once around."""
    wire.create("new", target=WORKERS)
    wire.acquired("held")
    wire.suspended("waits", "dep-of-waits")
    wire.suspended("woken", "dep-of-woken")
    wire.settle("dep-of-woken")
    wire.suspended("stopped", "dep-of-stopped")
    wire.halt("stopped")
    wire.settle("dep-of-stopped")
    wire.acquired("done")
    wire.fulfill("done")
    wire.create("dead", target=WORKERS, timeout_at=T0 - 1)
    wire.acquired("lapsing", timeout_at=FAR)
    wire.suspended("dying", "dep-of-dying", timeout_at=T0 + MINUTE)
    wire.listen("dying", CLIENT)
    wire.now = T0 + 30 * SECOND
    wire.heartbeat(("held", 1))
    wire.tick(T0 + MINUTE)


def test_every_task_has_a_promise(wire: Wire) -> None:
    walk_through_every_state(wire)
    snap = wire.snap()
    assert set(ids(snap["tasks"])) <= set(ids(snap["promises"]))


def timers(wire: Wire, state: str) -> tuple[set[str], set[tuple[str, int]]]:
    """The tasks in a state, and the timers they have."""
    walk_through_every_state(wire)
    snap = wire.snap()
    tasks = {task["id"] for task in snap["tasks"] if task["state"] == state}
    assert tasks, f"no task is {state}"
    rows = {(row["id"], row["type"]) for row in snap["taskTimeouts"] if row["id"] in tasks}
    return tasks, rows


def test_every_pending_task_has_a_retry_timer(wire: Wire) -> None:
    tasks, rows = timers(wire, "pending")
    assert rows == {(task, 0) for task in tasks}


def test_every_acquired_task_has_a_lease(wire: Wire) -> None:
    tasks, rows = timers(wire, "acquired")
    assert rows == {(task, 1) for task in tasks}


def test_every_suspended_task_has_a_callback_on_an_awaited_promise(wire: Wire) -> None:
    tasks, _ = timers(wire, "suspended")
    assert tasks <= {row["awaiter"] for row in wire.snap()["callbacks"]}


def test_no_suspended_task_has_a_consumed_callback(wire: Wire) -> None:
    tasks, _ = timers(wire, "suspended")
    assert {task["resumes"] for task in wire.snap()["tasks"] if task["id"] in tasks} == {0}


@pytest.mark.parametrize("state", ["suspended", "halted", "fulfilled"])
def test_no_suspended_halted_or_fulfilled_task_has_a_timer(wire: Wire, state: str) -> None:
    _, rows = timers(wire, state)
    assert rows == set()
