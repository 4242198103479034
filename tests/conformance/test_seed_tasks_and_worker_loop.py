"""What the chapter on the worker loop says about the server, in the order of that chapter.

Statements it shares with the tasks page are tested there (test_seed_tasks_specification.py).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import HOUR, MINUTE, RETRY_MS, SECOND, T0, WORKERS, Answer, Wire, creation

# -- what a task is, and when one exists ---------------------------------------------------------------------


def test_a_promise_without_a_target_dispatches_nobody(wire: Wire) -> None:
    wire.create("p")
    snap = wire.snap()
    assert (snap["tasks"], snap["messages"], snap["taskTimeouts"]) == ([], [], [])


def test_a_promise_with_a_target_makes_a_pending_task_and_an_execute_message(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    snap = wire.snap()
    assert [task["state"] for task in snap["tasks"]] == ["pending"]
    assert [row["address"] for row in snap["messages"]] == [WORKERS]
    assert snap["messages"][0]["message"]["kind"] == "execute"


def test_halted_is_not_the_end_because_the_task_can_be_claimed_after_continue(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    wire.resume("t")
    assert wire.acquire("t", 1).status == 200


# -- claiming a task ---------------------------------------------------------------------------------------


def test_the_version_in_the_message_is_the_one_to_present(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    offered = wire.messages()[0]["data"]["task"]
    assert wire.acquire(offered["id"], offered["version"]).status == 200


def test_the_version_in_the_message_after_a_lapse_is_the_one_to_present(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    offered = wire.messages()[0]["data"]["task"]
    assert wire.acquire(offered["id"], offered["version"]).status == 200


def test_an_acquire_hands_back_the_root_promise(wire: Wire) -> None:
    created = wire.create("t", target=WORKERS, param={"data": "cGFyYW0="}).promise
    assert wire.acquire("t").promise == created


def test_an_acquire_hands_back_the_promises_known_to_belong_to_the_work(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:branch": "t"})
    wire.create("t.1", tags={"resonate:branch": "t"})
    assert [promise["id"] for promise in wire.acquire("t").data["preload"]] == ["t.1"]


def test_the_creator_of_a_task_already_holds_it(wire: Wire) -> None:
    task = wire.task_create("t", pid="me", ttl=5_000).task
    assert (task["state"], task["version"], task["pid"], task["ttl"]) == ("acquired", 1, "me", 5_000)
    assert wire.fulfill("t").status == 200


def test_a_task_born_acquired_is_offered_to_nobody(wire: Wire) -> None:
    wire.task_create("t")
    assert wire.messages() == []


# -- the version -------------------------------------------------------------------------------------------


def test_each_fresh_acquire_hands_back_a_higher_version(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    seen: list[int] = []
    for round_number in range(4):
        seen.append(wire.acquire("t", round_number).task["version"])
        wire.tick(wire.now + MINUTE)
    assert seen == [1, 2, 3, 4]


def test_the_version_stays_while_the_task_waits_to_be_offered_again(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    for step in range(1, 4):
        wire.tick(T0 + MINUTE + step * RETRY_MS)
        assert (wire.task("t")["state"], wire.task("t")["version"]) == ("pending", 1)


def stand_at_version_three(wire: Wire) -> None:
    """Worker A holds the task at version 3."""
    wire.create("t", target=WORKERS)
    for version in (0, 1):
        wire.acquire("t", version, pid="early")
        wire.now += 2 * SECOND
        wire.release("t", version + 1)
    assert wire.acquire("t", 2, pid="A").task["version"] == 3


def test_a_lapse_leaves_the_frozen_workers_task_pending_at_version_three(wire: Wire) -> None:
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    task = wire.task("t")
    assert (task["state"], task["version"]) == ("pending", 3)


def test_the_second_worker_claims_at_three_and_holds_version_four(wire: Wire) -> None:
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    assert wire.acquire("t", 3, pid="B").task["version"] == 4


LATE: dict[str, Callable[[Wire], Answer]] = {
    "fulfill": lambda wire: wire.fulfill("t", 3, value={"data": "QQ=="}),
    "suspend": lambda wire: wire.suspend("t", "dep", version=3),
    "release": lambda wire: wire.release("t", 3),
    "fence": lambda wire: wire.fence("t", "promise.create", creation("charge"), 3),
    "start": lambda wire: wire.start("t", 3),
}


@pytest.mark.parametrize("operation", LATE)
def test_the_first_worker_wakes_up_at_version_three_and_is_refused(wire: Wire, operation: str) -> None:
    wire.create("dep")
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    wire.acquire("t", 3, pid="B")
    before = wire.snap()
    assert LATE[operation](wire).status == 409
    assert wire.snap() == before


def test_the_second_worker_alone_commits(wire: Wire) -> None:
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    wire.acquire("t", 3, pid="B")
    wire.fulfill("t", 3, value={"data": "QQ=="})
    assert wire.fulfill("t", 4, value={"data": "Qg=="}).status == 200
    assert wire.get("t").promise["value"] == {"data": "Qg=="}


def test_the_first_workers_heartbeat_no_longer_counts(wire: Wire) -> None:
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    wire.acquire("t", 3, pid="B")
    due = wire.due("t")
    wire.now += SECOND
    assert wire.heartbeat(("t", 3), pid="A").status == 200
    assert wire.due("t") == due


@pytest.mark.parametrize("operation", LATE)
def test_a_lapsed_claim_is_worth_nothing_even_before_somebody_else_claims(wire: Wire, operation: str) -> None:
    wire.create("dep")
    stand_at_version_three(wire)
    wire.tick(wire.now + MINUTE)
    before = wire.snap()
    assert LATE[operation](wire).status == 409
    assert wire.snap() == before


def test_settling_the_same_promise_twice_keeps_one_value(wire: Wire) -> None:
    wire.create("p")
    wire.settle("p", value={"data": "MQ=="})
    again = wire.settle("p", "rejected", value={"data": "Mg=="})
    assert (again.status, again.promise["state"], again.promise["value"]) == (
        200,
        "resolved",
        {"data": "MQ=="},
    )


def test_a_task_operation_repeated_at_the_same_version_fails(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.release("t").status == 200
    assert wire.release("t").status == 409


# -- the lease and the heartbeat ----------------------------------------------------------------------------


def test_a_claim_that_shows_no_life_is_given_away_and_the_version_rises_with_the_next_claim(
    wire: Wire,
) -> None:
    wire.acquired("t", timeout_at=T0 + HOUR)
    wire.tick(T0 + MINUTE)
    assert wire.task("t")["version"] == 1
    assert wire.acquire("t", 1, pid="other").task["version"] == 2


def test_a_process_that_proves_it_lives_keeps_its_claim_for_as_long_as_it_does(wire: Wire) -> None:
    wire.acquired("t")
    for _ in range(20):
        wire.now += MINUTE // 2
        wire.heartbeat(("t", 1))
        wire.tick()
    assert wire.task("t")["state"] == "acquired"


def test_one_beat_keeps_forty_tasks(wire: Wire) -> None:
    names = [f"t{number:02}" for number in range(40)]
    for name in names:
        wire.task_create(name)
    wire.now = T0 + MINUTE // 2
    wire.heartbeat(*((name, 1) for name in names))
    wire.tick(T0 + MINUTE)
    assert {wire.task(name)["state"] for name in names} == {"acquired"}


def test_a_beat_that_names_no_task_keeps_every_task_the_process_holds(wire: Wire) -> None:
    wire.task_create("mine")
    wire.task_create("mine-too")
    wire.task_create("theirs", pid="q")
    wire.now = T0 + MINUTE // 2
    wire.heartbeat()
    wire.tick(T0 + MINUTE)
    assert wire.task("mine")["state"] == wire.task("mine-too")["state"] == "acquired"
    assert wire.task("theirs")["state"] == "pending"


def test_a_beat_absorbs_one_missed_beat_at_half_the_lease(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE - 1)
    wire.heartbeat(("t", 1))
    wire.tick(T0 + 2 * MINUTE - 2)
    assert wire.task("t")["state"] == "acquired"


def test_each_lease_has_the_length_its_worker_asked_for(wire: Wire) -> None:
    wire.task_create("short", ttl=10 * SECOND)
    wire.task_create("long", ttl=MINUTE)
    wire.tick(T0 + 10 * SECOND)
    assert wire.task("short")["state"] == "pending"
    assert wire.task("long")["state"] == "acquired"


# -- fencing a side effect ---------------------------------------------------------------------------------


def test_the_current_claimant_passes_the_fence(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.fence("t", "promise.create", creation("charge")).status == 200


def test_a_worker_that_lost_its_lease_learns_it_at_the_fence_before_it_acts(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    assert wire.fence("t", "promise.create", creation("charge")).status == 409
    assert wire.get("charge").status == 404


# -- the loop, end to end ----------------------------------------------------------------------------------


def test_a_suspended_task_costs_no_timer_and_no_message(wire: Wire) -> None:
    wire.create("dep")
    wire.task_create("t")
    wire.suspend("t", "dep")
    assert wire.due("t") is None
    assert wire.messages() == []


def test_the_server_resumes_a_suspended_task_when_the_awaited_promise_settles(wire: Wire) -> None:
    wire.create("dep")
    wire.task_create("t")
    wire.suspend("t", "dep")
    wire.settle("dep")
    assert wire.offers("t") == [1]


def test_there_is_no_moment_with_a_settled_promise_and_an_open_task(wire: Wire) -> None:
    wire.acquired("t")
    wire.settle("t")
    assert wire.stored("promises", "t")["state"] == "resolved"
    assert wire.stored("tasks", "t")["state"] == "fulfilled"


def test_after_a_release_another_worker_takes_over(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.acquire("t", 1, pid="q").status == 200


def test_a_stale_release_is_refused(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + MINUTE)
    wire.acquire("t", 1, pid="q")
    assert wire.release("t", 1).status == 409
    assert wire.task("t")["pid"] == "q"


def test_a_workflow_goes_round_the_loop_and_ends(wire: Wire) -> None:
    wire.create("flow", target=WORKERS)
    wire.acquire("flow", 0)
    wire.fence("flow", "promise.create", creation("flow.1", target="poll://any@steps"))
    assert wire.suspend("flow", "flow.1").status == 200
    wire.acquire("flow.1", 0, pid="stepper")
    wire.fulfill("flow.1", 1, value={"data": "NDI="})
    again = wire.acquire("flow", 1)
    assert (again.status, again.task["version"]) == (200, 2)
    assert wire.suspend("flow", "flow.1", version=2).status == 300
    assert wire.fulfill("flow", 2).status == 200
    assert {task["state"] for task in wire.snap()["tasks"]} == {"fulfilled"}
