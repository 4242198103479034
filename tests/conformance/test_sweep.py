"""What the node does by itself: timeouts, leases, retries, parked tasks, and their order."""

from __future__ import annotations

import pytest

from tests.conformance.wire import CLIENT, FAR, HOUR, MINUTE, RETRY_MS, SECOND, T0, WORKERS, Json, Wire, ids

DEADLINE = T0 + 10
TIMER = {"resonate:timer": "true"}

# -- which promises are swept ------------------------------------------------------------------------------


def test_a_promise_nobody_depends_on_is_only_viewed_as_settled(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE)
    assert wire.snap()["promiseTimeouts"] == []
    wire.tick(DEADLINE)
    assert wire.stored("promises", "p")["state"] == "pending"
    assert wire.get("p").promise["state"] == "rejected_timedout"


DEPENDED: dict[str, tuple[Json, str]] = {
    "target": ({"target": WORKERS}, "rejected_timedout"),
    "timer": ({"tags": TIMER}, "resolved"),
    "timer and target": ({"tags": TIMER, "target": WORKERS}, "resolved"),
    "external": ({"tags": {"resonate:external": "true"}}, "rejected_timedout"),
}


@pytest.mark.parametrize("case", DEPENDED)
def test_a_promise_somebody_may_depend_on_is_settled_by_the_sweep(wire: Wire, case: str) -> None:
    fields, state = DEPENDED[case]
    wire.create("p", timeout_at=DEADLINE, **fields)
    assert wire.snap()["promiseTimeouts"] == [{"id": "p", "timeout": DEADLINE}]
    wire.tick(DEADLINE - 1)
    assert wire.stored("promises", "p")["state"] == "pending"
    wire.tick(DEADLINE)
    stored = wire.stored("promises", "p")
    assert (stored["state"], stored["settledAt"], stored["value"]) == (state, DEADLINE, {})
    assert wire.snap()["promiseTimeouts"] == []


@pytest.mark.parametrize("tag", ["false", "TRUE", "1", ""])
def test_an_external_tag_that_is_not_true_means_nothing(wire: Wire, tag: str) -> None:
    wire.create("p", timeout_at=DEADLINE, tags={"resonate:external": tag})
    assert wire.snap()["promiseTimeouts"] == []


def test_a_listener_makes_the_sweep_settle_a_plain_promise(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE)
    wire.listen("p")
    assert wire.snap()["promiseTimeouts"] == [{"id": "p", "timeout": DEADLINE}]
    wire.tick(DEADLINE)
    assert wire.stored("promises", "p")["state"] == "rejected_timedout"
    assert wire.messages(CLIENT)[0]["data"]["promise"]["state"] == "rejected_timedout"


def test_a_callback_makes_the_sweep_settle_a_plain_promise(wire: Wire) -> None:
    wire.create("dep", timeout_at=DEADLINE)
    wire.acquired("t")
    wire.suspend("t", "dep")
    wire.tick(DEADLINE)
    assert wire.stored("promises", "dep")["state"] == "rejected_timedout"
    assert wire.task("t")["state"] == "pending"


def test_an_untargeted_timer_wakes_its_awaiter(wire: Wire) -> None:
    wire.create("sleep", timeout_at=T0 + HOUR, tags=TIMER)
    wire.acquired("t")
    wire.suspend("t", "sleep")
    wire.tick(T0 + HOUR)
    assert wire.task("t")["state"] == "pending"
    assert wire.acquire("t", 1).data["data"]["awaited"]["state"] == "resolved"


def test_a_late_sweep_settles_at_the_timeout(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE, target=WORKERS)
    wire.tick(T0 + HOUR)
    assert wire.stored("promises", "p")["settledAt"] == DEADLINE


@pytest.mark.parametrize("state", ["pending", "acquired", "suspended", "halted"])
def test_a_timeout_fulfils_the_task_whatever_it_was_doing(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS, timeout_at=T0 + HOUR)
    version = 0
    if state in ("acquired", "suspended"):
        version = wire.acquire("t", ttl=2 * HOUR).task["version"]
    if state == "suspended":
        wire.suspend("t", "dep")
    if state == "halted":
        wire.halt("t")
    wire.tick(T0 + HOUR)
    assert wire.stored("tasks", "t") == {"id": "t", "state": "fulfilled", "version": version, "resumes": 0}
    assert wire.due("t") is None


def test_a_sweep_before_anything_is_due_does_nothing(wire: Wire) -> None:
    wire.create("p", target=WORKERS)
    wire.acquired("t")
    wire.schedule("s", "0 * * * *")
    before = wire.snap()
    wire.tick(T0 + RETRY_MS - 1)
    assert wire.snap() == before


# -- leases ------------------------------------------------------------------------------------------------


def test_a_lapsed_lease_returns_the_task_with_its_resumes(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.callback("dep", "t")
    wire.settle("dep")
    wire.tick(T0 + MINUTE)
    assert wire.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 1}
    assert wire.due("t") == (0, T0 + MINUTE + RETRY_MS)


def test_a_lapsed_lease_found_late_is_retried_from_the_sweep_on(wire: Wire) -> None:
    wire.acquired("t")
    wire.tick(T0 + HOUR)
    assert wire.due("t") == (0, T0 + HOUR + RETRY_MS)


def test_a_lease_and_a_timeout_due_together_end_in_fulfilled(wire: Wire) -> None:
    wire.task_create("t", ttl=10, timeout_at=DEADLINE)
    wire.tick(DEADLINE)
    assert wire.task("t")["state"] == "fulfilled"
    assert wire.offers("t") == []


def test_an_expired_promise_comes_before_a_lapsed_lease_in_one_sweep(wire: Wire) -> None:
    wire.create("dep", timeout_at=DEADLINE)
    wire.task_create("t", ttl=10)
    wire.callback("dep", "t")
    wire.tick(DEADLINE)
    assert wire.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 1}


def test_a_task_past_its_timeout_whose_lease_lapses_is_not_offered(wire: Wire) -> None:
    wire.task_create("t", ttl=5, timeout_at=T0 + 8)
    wire.tick(DEADLINE)
    assert wire.offers("t") == []
    assert wire.stored("tasks", "t")["state"] == "fulfilled"


# -- retries -----------------------------------------------------------------------------------------------


def test_a_task_that_nobody_takes_is_offered_again_after_resting_as_long_as_it_has_waited(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for waited in (1, 2, 4, 8):
        wire.tick(T0 + waited * RETRY_MS)
        assert wire.offers("t") == [0]
        assert wire.due("t") == (0, T0 + 2 * waited * RETRY_MS)


def test_it_rests_an_hour_at_most(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for hours in (5, 6, 7):
        wire.tick(T0 + hours * HOUR)
        assert wire.due("t") == (0, T0 + (hours + 1) * HOUR)


def test_a_task_that_is_woken_after_a_long_life_waits_anew(wire: Wire) -> None:
    wire.suspended("t", "p")
    wire.now = T0 + 5 * HOUR
    wire.settle("p")
    assert wire.due("t") == (0, wire.now + RETRY_MS)
    wire.tick(wire.now + RETRY_MS)
    assert wire.due("t") == (0, T0 + 5 * HOUR + 2 * RETRY_MS)


def test_a_retry_instant_does_not_move_before_it_is_due(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.tick(T0 + RETRY_MS - 1)
    assert wire.due("t") == (0, T0 + RETRY_MS)


def test_a_retry_found_late_is_one_retry(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.tick(T0 + 10 * MINUTE)
    assert wire.offers("t") == [0]
    assert wire.due("t") == (0, T0 + 20 * MINUTE)


def test_a_retry_leaves_state_version_and_resumes(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    before = wire.task("t")
    wire.tick(T0 + RETRY_MS)
    assert wire.task("t") == before


@pytest.mark.parametrize("state", ["acquired", "suspended", "halted", "fulfilled"])
def test_only_a_pending_task_is_offered_again(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.task_create("t", ttl=HOUR)
    if state == "suspended":
        wire.suspend("t", "dep")
    if state == "halted":
        wire.halt("t")
    if state == "fulfilled":
        wire.fulfill("t")
    wire.tick(T0 + 2 * RETRY_MS)
    assert wire.offers("t") == []


def test_a_task_past_its_timeout_is_not_offered_again(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0 + RETRY_MS, tags={"resonate:delay": str(T0 + 5)})
    wire.tick(T0 + RETRY_MS)
    assert wire.offers("t") == []


# -- parked: delay -----------------------------------------------------------------------------------------


def test_a_delayed_task_is_pending_and_silent_until_its_instant(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    assert wire.task("t")["state"] == "pending"
    assert wire.due("t") == (0, T0 + HOUR)
    wire.tick(T0 + HOUR - 1)
    assert (wire.messages(), wire.claim()) == ([], [])


def test_a_delayed_task_is_offered_at_its_instant_and_retried_from_there(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    wire.tick(T0 + HOUR)
    assert wire.offers("t") == [0]
    assert wire.due("t") == (0, T0 + HOUR + RETRY_MS)
    assert [item["task"]["id"] for item in wire.claim()] == ["t"]


@pytest.mark.parametrize("delay", [0, T0 - 1, T0])
def test_a_delay_that_does_not_lie_ahead_is_no_delay(wire: Wire, delay: int) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(delay)})
    assert wire.offers("t") == [0]
    assert wire.due("t") == (0, T0 + RETRY_MS)


def test_a_delay_counts_only_at_creation(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    wire.acquire("t")
    wire.now = T0 + 2 * SECOND
    wire.release("t")
    assert wire.offers("t") == [1]
    assert wire.due("t") == (0, T0 + 2 * SECOND + RETRY_MS)


def test_a_delayed_promise_born_settled_has_no_timer(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0 - 1, tags={"resonate:delay": str(T0 - 5)})
    assert (wire.due("t"), wire.messages()) == (None, [])


# -- parked: timers ----------------------------------------------------------------------------------------


def test_a_timer_with_a_target_has_a_task_that_waits_for_the_timeout(wire: Wire) -> None:
    wire.create("sleep", target=WORKERS, tags=TIMER, timeout_at=T0 + HOUR)
    assert wire.task("sleep")["state"] == "pending"
    assert wire.due("sleep") == (0, T0 + HOUR)
    assert (wire.messages(), wire.claim()) == ([], [])


def test_a_long_sleep_costs_no_offers(wire: Wire) -> None:
    wire.create("sleep", target=WORKERS, tags=TIMER, timeout_at=FAR)
    for turn in range(1, 100):
        wire.tick(T0 + turn * RETRY_MS)
    assert wire.messages() == []


def test_at_its_timeout_a_timer_resolves_and_its_task_is_fulfilled_unoffered(wire: Wire) -> None:
    wire.create("sleep", target=WORKERS, tags=TIMER, timeout_at=T0 + HOUR)
    wire.tick(T0 + HOUR)
    assert wire.stored("promises", "sleep")["state"] == "resolved"
    assert wire.stored("tasks", "sleep")["state"] == "fulfilled"
    assert wire.messages() == []


@pytest.mark.parametrize("entry", ["release", "lapse", "wake", "continue"])
def test_a_timer_is_parked_every_time_it_enters_pending(wire: Wire, entry: str) -> None:
    wire.create("dep")
    wire.create("sleep", target=WORKERS, tags=TIMER, timeout_at=T0 + HOUR)
    wire.acquire("sleep")
    wire.now = T0 + 2 * SECOND
    if entry == "release":
        wire.release("sleep")
    elif entry == "lapse":
        wire.tick(T0 + MINUTE)
    elif entry == "wake":
        wire.suspend("sleep", "dep")
        wire.settle("dep")
    else:
        wire.halt("sleep")
        wire.resume("sleep")
    assert wire.task("sleep")["state"] == "pending"
    assert wire.due("sleep") == (0, T0 + HOUR)
    assert (wire.messages(), wire.claim()) == ([], [])


@pytest.mark.parametrize("tags", [TIMER, {"resonate:delay": str(T0 + MINUTE)}])
def test_a_parked_task_may_be_acquired_by_id(wire: Wire, tags: Json) -> None:
    wire.create("t", target=WORKERS, tags=tags, timeout_at=T0 + HOUR)
    answer = wire.acquire("t")
    assert (answer.status, answer.task["version"]) == (200, 1)
    assert wire.due("t") == (1, T0 + MINUTE)


@pytest.mark.parametrize("parked_by", ["delay", "retry"])
def test_continue_offers_a_task_that_was_parked_before_it_was_halted(wire: Wire, parked_by: str) -> None:
    if parked_by == "delay":
        wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    else:
        wire.task_create("t")
        wire.release("t", retry={"delay": HOUR})
    wire.halt("t")
    wire.resume("t")
    assert len(wire.offers("t")) == 1
    assert wire.due("t") == (0, T0 + RETRY_MS)


def test_a_parked_task_counts_a_resume_and_stays_parked(wire: Wire) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    wire.callback("dep", "t")
    wire.settle("dep")
    assert wire.task("t")["resumes"] == 1
    assert wire.due("t") == (0, T0 + HOUR)
    assert (wire.messages(), wire.claim()) == ([], [])


def test_a_timer_may_be_born_acquired_and_is_parked_once_given_back(wire: Wire) -> None:
    assert wire.task_create("t", tags=TIMER, timeout_at=T0 + HOUR).task["state"] == "acquired"
    wire.now = T0 + 2 * SECOND
    wire.release("t")
    assert wire.due("t") == (0, T0 + HOUR)
    assert wire.messages() == []


def test_a_retry_delay_of_a_timer_is_overruled_by_its_timeout(wire: Wire) -> None:
    wire.task_create("t", tags=TIMER, timeout_at=T0 + HOUR)
    wire.release("t", retry={"delay": 5})
    assert wire.due("t") == (0, T0 + HOUR)


# -- parked: bounces ---------------------------------------------------------------------------------------


def bounce(wire: Wire, version: int, held_ms: int = 0) -> None:
    """Acquire and give back after a moment."""
    assert wire.acquire("t", version).status == 200
    wire.now += held_ms
    assert wire.release("t", version + 1).status == 200


def test_one_quick_release_is_offered_at_once(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    bounce(wire, 0, held_ms=999)
    assert wire.offers("t") == [1]
    assert wire.due("t") == (0, wire.now + RETRY_MS)


def test_quick_releases_are_offered_after_a_growing_while(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    waits: list[int] = []
    for version in range(14):
        bounce(wire, version)
        due = wire.due("t")
        assert due is not None
        waits.append(due[1] - wire.now)
        wire.now = due[1]
    assert waits == [RETRY_MS, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200] + [60_000] * 3


def test_a_bounced_task_is_neither_offered_nor_claimed_before_its_instant(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    bounce(wire, 0)
    bounce(wire, 1)
    wire.tick(T0 + 99)
    assert 2 not in wire.offers("t")
    assert wire.claim() == []
    wire.tick(T0 + 100)
    assert wire.offers("t") == [2]
    assert [item["task"]["id"] for item in wire.claim()] == ["t"]


def test_a_release_after_a_second_forgets_the_bounces(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    bounce(wire, 0)
    bounce(wire, 1)
    bounce(wire, 2, held_ms=1_000)
    assert wire.due("t") == (0, wire.now + RETRY_MS)
    bounce(wire, 3)
    assert wire.due("t") == (0, wire.now + RETRY_MS)
    assert wire.offers("t") == [4]


def test_a_suspension_forgets_the_bounces(wire: Wire) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS)
    bounce(wire, 0)
    bounce(wire, 1)
    wire.acquire("t", 2)
    wire.suspend("t", "dep", version=3)
    wire.settle("dep")
    bounce(wire, 3)
    assert wire.due("t") == (0, wire.now + RETRY_MS)


def test_a_suspension_that_goes_on_keeps_the_bounces(wire: Wire) -> None:
    wire.create("dep")
    wire.settle("dep")
    wire.create("t", target=WORKERS)
    bounce(wire, 0)
    bounce(wire, 1)
    wire.acquire("t", 2)
    assert wire.suspend("t", "dep", version=3).status == 300
    wire.release("t", 3)
    assert wire.due("t") == (0, wire.now + 200)


def test_continue_forgets_the_bounces_and_offers_at_once(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for version in range(3):
        bounce(wire, version)
    wire.halt("t")
    wire.resume("t")
    assert wire.due("t") == (0, wire.now + RETRY_MS)
    assert wire.offers("t") == [3]
    bounce(wire, 3)
    assert wire.due("t") == (0, wire.now + RETRY_MS)


@pytest.mark.parametrize("way", ["claim", "task.create"])
def test_a_bounce_counts_however_the_task_was_acquired(wire: Wire, way: str) -> None:
    wire.create("t", target=WORKERS)
    for version in (1, 2):
        if way == "claim":
            assert len(wire.claim()) == 1
        else:
            assert wire.task_create("t").status == 200
        wire.release("t", version)
    assert wire.due("t") == (0, T0 + 100)


def test_a_heartbeat_does_not_make_a_long_hold_a_short_one(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for version in (0, 1):
        wire.acquire("t", version)
        wire.now += 1_500
        wire.heartbeat(("t", version + 1))
        wire.release("t", version + 1)
    assert wire.due("t") == (0, wire.now + RETRY_MS)


def test_a_lapsed_lease_is_no_bounce(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for version in range(4):
        wire.acquire("t", version, ttl=1)
        wire.tick(wire.now + 1)
        assert wire.due("t") == (0, wire.now + RETRY_MS)


def test_a_bounce_of_a_timer_stays_parked_until_the_timeout(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags=TIMER, timeout_at=T0 + HOUR)
    bounce(wire, 0)
    bounce(wire, 1)
    assert wire.due("t") == (0, T0 + HOUR)


# -- the order inside one sweep ----------------------------------------------------------------------------


def test_many_things_due_at_once_are_all_done_in_one_sweep(wire: Wire) -> None:
    wire.create("dep", timeout_at=T0 + MINUTE)
    wire.task_create("waits", ttl=HOUR)
    wire.suspend("waits", "dep")
    wire.task_create("lapses")
    wire.create("delayed", target=WORKERS, tags={"resonate:delay": str(T0 + MINUTE)})
    wire.schedule("s", promiseTags={"resonate:target": WORKERS})
    wire.tick(T0 + MINUTE)
    offered = sorted(message["data"]["task"]["id"] for message in wire.messages(WORKERS))
    assert offered == sorted(["waits", "lapses", "delayed", f"s-{T0 + MINUTE}"])


def test_a_schedule_fires_after_the_timeouts_of_the_same_sweep(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=MINUTE, overlap="skip", promiseTags={"resonate:external": "true"})
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    states = {promise["id"]: promise["state"] for promise in wire.snap()["promises"]}
    assert states == {f"s-{T0 + MINUTE}": "rejected_timedout", f"s-{T0 + 2 * MINUTE}": "pending"}


def test_an_await_circle_that_expires_ends_quietly(wire: Wire) -> None:
    for name in "ab":
        wire.task_create(name, timeout_at=T0 + HOUR, ttl=2 * HOUR)
    wire.suspend("a", "b")
    wire.suspend("b", "a")
    wire.tick(T0 + HOUR)
    assert {task["state"] for task in wire.snap()["tasks"]} == {"fulfilled"}
    assert wire.snap()["callbacks"] == []
    assert wire.messages() == []
    assert ids(wire.snap()["tasks"]) == ["a", "b"]
