"""The protocol specification, statement by statement, spoken in its own dialect (2025-01-15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import (
    CLIENT,
    FAR,
    HOUR,
    INT_MAX,
    MINUTE,
    SECOND,
    T0,
    WORKERS,
    A,
    B,
    Json,
    Wire,
    creation,
    ids,
    schedule_of,
    sub,
)

EMPTY: Json = {"headers": {}, "data": ""}
FULL: Json = {"headers": {"content-type": "text/plain"}, "data": "aGVsbG8="}


@pytest.fixture(autouse=True)
def speak_the_specification(wire: Wire) -> None:
    wire.version = B


def register(wire: Wire, awaited: str, awaiter: str) -> Any:
    return wire.send("promise.register", {"awaited": awaited, "awaiter": awaiter})


def subscribe(wire: Wire, awaited: str, address: str = CLIENT) -> Any:
    return wire.send("promise.subscribe", {"awaited": awaited, "address": address})


def suspend(wire: Wire, name: str, *awaited: str, version: int = 1) -> Any:
    actions = [sub("promise.register", {"awaited": other, "awaiter": name}) for other in awaited]
    return wire.send("task.suspend", {"id": name, "version": version, "actions": actions})


# -- requests and responses --------------------------------------------------------------------------------


def test_a_response_has_kind_head_and_data_and_nothing_else(wire: Wire) -> None:
    wire.create("p")
    reply = wire.backend.handle(wire.envelope("promise.get", {"id": "p"}))
    assert set(reply) == {"kind", "head", "data"}
    assert set(reply["head"]) == {"corrId", "status", "version"}


def test_the_correlation_id_comes_back(wire: Wire) -> None:
    answer = wire.send("promise.get", {"id": "p"}, corr_id="a-b-c")
    assert answer.head["corrId"] == "a-b-c"


def test_the_version_comes_back(wire: Wire) -> None:
    wire.create("p")
    assert wire.get("p").head["version"] == B


def test_the_authorization_token_is_optional(wire: Wire) -> None:
    wire.create("p")
    request = wire.envelope("promise.get", {"id": "p"})
    request["head"]["auth"] = "a token"
    assert wire.backend.handle(request)["head"]["status"] == 200


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("promise.get", {"id": ""}, 400),
        ("promise.get", {"id": "missing"}, 404),
        ("task.acquire", {"id": "t", "version": 9, "pid": "p", "ttl": 1}, 409),
    ],
)
def test_an_error_has_its_status_and_a_text(wire: Wire, kind: str, data: Json, status: int) -> None:
    wire.create("t", target=WORKERS)
    answer = wire.send(kind, data)
    assert answer.status == status
    assert isinstance(answer.data, str)


# -- promises ----------------------------------------------------------------------------------------------


def test_a_pending_promise_record_has_exactly_the_fields_of_the_type(wire: Wire) -> None:
    assert wire.create("p", tags={"k": "v"}, param=FULL).promise == {
        "id": "p",
        "state": "pending",
        "param": FULL,
        "value": EMPTY,
        "tags": {"k": "v"},
        "timeoutAt": FAR,
        "createdAt": T0,
    }


def test_headers_and_data_are_there_even_when_nobody_gave_them(wire: Wire) -> None:
    promise = wire.create("p").promise
    assert (promise["param"], promise["value"]) == (EMPTY, EMPTY)


def test_a_settled_promise_record_says_when_it_settled(wire: Wire) -> None:
    wire.create("p")
    wire.now = T0 + 5
    assert wire.settle("p").promise["settledAt"] == T0 + 5


def test_a_pending_promise_record_does_not_say_when_it_settled(wire: Wire) -> None:
    assert "settledAt" not in wire.create("p").promise


def test_a_promise_is_rejected_as_timed_out_at_its_timeout(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10)
    wire.now = T0 + 9
    assert wire.get("p").promise["state"] == "pending"
    wire.now = T0 + 10
    promise = wire.get("p").promise
    assert (promise["state"], promise["settledAt"]) == ("rejected_timedout", T0 + 10)


def test_get_returns_the_promise(wire: Wire) -> None:
    created = wire.create("p", param=FULL).promise
    answer = wire.get("p")
    assert (answer.status, answer.promise) == (200, created)


def test_get_of_a_promise_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.get("p").status == 404


def test_create_sends_an_invoke_message_to_the_target(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.snap()["messages"] == [
        {
            "address": WORKERS,
            "message": {"kind": "invoke", "head": {}, "data": {"task": {"id": "t", "version": 0}}},
        }
    ]


def test_create_sends_nothing_without_a_target(wire: Wire) -> None:
    wire.create("p", tags={"some": "tag"})
    assert wire.messages() == []


def test_a_delay_holds_the_invoke_message_until_its_instant(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 + HOUR)})
    wire.tick(T0 + HOUR - 1)
    assert wire.messages() == []
    wire.tick(T0 + HOUR)
    assert [message["kind"] for message in wire.messages()] == ["invoke"]


def test_a_timer_resolves_at_its_timeout(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, tags={"resonate:timer": "true"})
    wire.now = T0 + 10
    assert wire.get("p").promise["state"] == "resolved"


def test_a_timer_tag_that_is_not_true_makes_no_timer(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, tags={"resonate:timer": "false"})
    wire.now = T0 + 10
    assert wire.get("p").promise["state"] == "rejected_timedout"


def test_create_of_an_existing_id_returns_the_existing_promise(wire: Wire) -> None:
    first = wire.create("p", param=FULL, tags={"a": "1"}).promise
    wire.now = T0 + 1
    again = wire.create("p", param={"data": "other"}, tags={"b": "2"}, timeout_at=FAR + 1)
    assert (again.status, again.promise) == (200, first)


@pytest.mark.parametrize("state", ["resolved", "rejected", "rejected_canceled"])
def test_settle_puts_a_promise_in_each_terminal_state(wire: Wire, state: str) -> None:
    wire.create("p")
    promise = wire.settle("p", state, value=FULL).promise
    assert (promise["state"], promise["value"]) == (state, FULL)


def test_settle_of_a_promise_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.settle("p").status == 404


@pytest.mark.parametrize("second", ["resolved", "rejected", "rejected_canceled"])
def test_settle_of_a_settled_promise_returns_what_is_there(wire: Wire, second: str) -> None:
    wire.create("p")
    first = wire.settle("p", "rejected", value=FULL).promise
    wire.now = T0 + 5
    again = wire.settle("p", second, value={"data": "b3RoZXI="})
    assert (again.status, again.promise) == (200, first)


def test_register_returns_the_awaited_promise(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    awaited = wire.create("dep").promise
    answer = register(wire, "dep", "t")
    assert (answer.status, answer.promise) == (200, awaited)


def test_register_records_who_waits_for_whom(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("dep")
    register(wire, "dep", "t")
    assert wire.snap()["callbacks"] == [{"awaiter": "t", "awaited": "dep"}]


def test_register_on_a_settled_promise_records_nothing(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("dep")
    settled = wire.settle("dep").promise
    answer = register(wire, "dep", "t")
    assert (answer.status, answer.promise) == (200, settled)
    assert wire.snap()["callbacks"] == []


def test_subscribe_returns_the_awaited_promise(wire: Wire) -> None:
    awaited = wire.create("p").promise
    answer = subscribe(wire, "p")
    assert (answer.status, answer.promise) == (200, awaited)


def test_subscribe_brings_a_notify_message_when_the_promise_settles(wire: Wire) -> None:
    wire.create("p")
    subscribe(wire, "p")
    assert wire.messages() == []
    settled = wire.settle("p", value=FULL).promise
    assert wire.snap()["messages"] == [
        {"address": CLIENT, "message": {"kind": "notify", "head": {}, "data": {"promise": settled}}}
    ]


def test_subscribe_brings_a_notify_message_when_the_promise_times_out(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10)
    subscribe(wire, "p")
    wire.tick(T0 + 10)
    message = wire.messages(CLIENT)[0]
    assert (message["kind"], message["data"]["promise"]["state"]) == ("notify", "rejected_timedout")


def test_subscribe_to_a_settled_promise_records_nothing(wire: Wire) -> None:
    wire.create("p")
    settled = wire.settle("p").promise
    answer = subscribe(wire, "p")
    assert (answer.status, answer.promise) == (200, settled)
    snap = wire.snap()
    assert (snap["listeners"], snap["messages"]) == ([], [])


# -- tasks -------------------------------------------------------------------------------------------------


def test_a_task_record_has_an_id_and_a_version(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    task = wire.task("t")
    assert (task["id"], task["version"]) == ("t", 0)


def test_get_of_a_task_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.send("task.get", {"id": "t"}).status == 404


def test_task_create_returns_the_task_and_its_promise(wire: Wire) -> None:
    answer = wire.task_create("t", param=FULL)
    assert answer.status == 200
    assert (answer.task["id"], answer.promise["id"], answer.promise["param"]) == ("t", "t", FULL)


def test_a_task_in_the_reply_of_task_create_means_a_lease(wire: Wire) -> None:
    answer = wire.task_create("t", ttl=5 * SECOND)
    assert answer.task["state"] == "acquired"
    assert wire.due("t") == (1, T0 + 5 * SECOND)


def test_a_task_that_is_not_heartbeated_within_its_ttl_is_lost(wire: Wire) -> None:
    wire.task_create("t", ttl=5 * SECOND)
    wire.tick(T0 + 5 * SECOND)
    assert wire.task("t")["state"] == "pending"


@pytest.mark.parametrize("state", ["pending", "acquired", "suspended", "halted", "fulfilled"])
def test_task_create_over_an_existing_task_returns_only_the_promise(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS)
    if state != "pending":
        wire.acquire("t")
    if state == "suspended":
        suspend(wire, "t", "dep")
    if state == "halted":
        wire.halt("t")
    if state == "fulfilled":
        wire.fulfill("t")
    before = wire.snap()
    answer = wire.task_create("t", pid="other")
    assert (answer.status, answer.promise) == (200, wire.get("t").promise)
    assert "task" not in answer.data
    assert wire.snap() == before


def test_acquire_takes_a_lease_on_a_pending_task(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", ttl=5 * SECOND).status == 200
    assert wire.due("t") == (1, T0 + 5 * SECOND)


def test_the_first_acquire_is_an_invoke_with_the_invoked_promise(wire: Wire) -> None:
    created = wire.create("t", target=WORKERS, param=FULL).promise
    answer = wire.acquire("t")
    assert (answer.data["kind"], answer.data["data"]) == ("invoke", {"invoked": created})


def test_the_acquire_after_a_wake_is_a_resume_with_the_awaited_promise(wire: Wire) -> None:
    created = wire.create("t", target=WORKERS).promise
    wire.create("dep")
    wire.acquire("t")
    suspend(wire, "t", "dep")
    settled = wire.settle("dep", value=FULL).promise
    answer = wire.acquire("t", 1)
    assert (answer.data["kind"], answer.data["data"]) == ("resume", {"invoked": created, "awaited": settled})


def test_an_acquire_after_a_release_is_still_an_invoke(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.acquire("t", 1).data["kind"] == "invoke"


def test_acquire_at_another_version_is_409(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", 1).status == 409


def test_suspend_is_200_when_every_awaited_promise_is_pending(wire: Wire) -> None:
    wire.create("one")
    wire.create("two")
    wire.acquired("t")
    assert suspend(wire, "t", "one", "two").status == 200
    assert wire.task("t")["state"] == "suspended"


def test_suspend_is_300_when_an_awaited_promise_has_settled_and_the_lease_stays(wire: Wire) -> None:
    wire.create("one")
    wire.settle("one")
    wire.acquired("t")
    due = wire.due("t")
    assert suspend(wire, "t", "one").status == 300
    assert wire.task("t")["state"] == "acquired"
    assert wire.due("t") == due


def test_suspend_at_another_version_is_409(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    assert suspend(wire, "t", "dep", version=2).status == 409


def test_fulfill_settles_the_promise_and_returns_it(wire: Wire) -> None:
    wire.acquired("t")
    answer = wire.fulfill("t", state="rejected", value=FULL)
    assert (answer.status, answer.promise["state"], answer.promise["value"]) == (200, "rejected", FULL)
    assert wire.task("t")["state"] == "fulfilled"


def test_fulfill_of_a_settled_promise_returns_what_is_there(wire: Wire) -> None:
    wire.acquired("t")
    settled = wire.settle("t", "rejected_canceled").promise
    before = wire.snap()
    answer = wire.fulfill("t", value=FULL)
    assert (answer.status, answer.promise) == (200, settled)
    assert wire.snap() == before


def test_fulfill_past_the_timeout_returns_the_timed_out_promise(wire: Wire) -> None:
    wire.acquired("t", timeout_at=T0 + 10)
    wire.now = T0 + 10
    answer = wire.fulfill("t", value=FULL)
    assert (answer.status, answer.promise["state"]) == (200, "rejected_timedout")


@pytest.mark.parametrize("version", [0, 2])
def test_fulfill_at_another_version_is_409(wire: Wire, version: int) -> None:
    wire.acquired("t")
    assert wire.fulfill("t", version).status == 409


@pytest.mark.parametrize("version", [0, 2])
def test_fulfill_of_a_settled_promise_at_another_version_is_409(wire: Wire, version: int) -> None:
    wire.acquired("t")
    wire.settle("t")
    assert wire.fulfill("t", version).status == 409


def test_release_gives_up_the_lease_and_the_task_can_be_acquired_again(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.release("t").status == 200
    assert wire.acquire("t", 1, pid="q").status == 200


def test_release_at_another_version_is_409(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.release("t", 2).status == 409


def test_a_fenced_create_runs_under_a_valid_lease_and_its_reply_comes_back(wire: Wire) -> None:
    wire.acquired("t")
    action = wire.fence("t", "promise.create", creation("child")).data["action"]
    assert (action["kind"], action["head"]["status"]) == ("promise.create", 200)
    assert action["data"]["promise"] == wire.get("child").promise


def test_a_fenced_settle_runs_under_a_valid_lease_and_its_reply_comes_back(wire: Wire) -> None:
    wire.create("child")
    wire.acquired("t")
    action = wire.fence("t", "promise.settle", {"id": "child", "state": "resolved"}).data["action"]
    assert (action["kind"], action["head"]["status"]) == ("promise.settle", 200)
    assert action["data"]["promise"] == wire.get("child").promise


def test_a_fence_at_another_version_is_409(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.fence("t", "promise.create", creation("child"), 2).status == 409


def test_a_heartbeat_extends_the_leases_it_names(wire: Wire) -> None:
    wire.acquired("one")
    wire.acquired("two")
    wire.now = T0 + SECOND
    assert wire.heartbeat(("one", 1), ("two", 1)).status == 200
    assert wire.due("one") == wire.due("two") == (1, T0 + SECOND + MINUTE)


# -- schedules ---------------------------------------------------------------------------------------------


def test_a_schedule_record_has_exactly_the_fields_of_the_type(wire: Wire) -> None:
    assert wire.schedule("s", "*/5 * * * *", promiseParam=FULL, promiseTags={"k": "v"}).schedule == {
        "id": "s",
        "cron": "*/5 * * * *",
        "promiseId": "{{.id}}-{{.timestamp}}",
        "promiseTimeout": HOUR,
        "promiseParam": FULL,
        "promiseTags": {"k": "v"},
        "createdAt": T0,
        "nextRunAt": T0 + 5 * MINUTE,
    }


def test_a_schedule_that_ran_says_when(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    assert wire.send("schedule.get", {"id": "s"}).schedule["lastRunAt"] == T0 + MINUTE


def test_schedule_get_returns_the_schedule(wire: Wire) -> None:
    created = wire.schedule("s").schedule
    answer = wire.send("schedule.get", {"id": "s"})
    assert (answer.status, answer.schedule) == (200, created)


def test_schedule_get_of_one_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.send("schedule.get", {"id": "s"}).status == 404


def test_schedule_create_of_an_existing_id_returns_the_existing_schedule(wire: Wire) -> None:
    first = wire.schedule("s").schedule
    wire.now = T0 + HOUR
    again = wire.schedule("s", "0 0 * * *", promiseTimeout=5)
    assert (again.status, again.schedule) == (200, first)


def test_a_schedule_creates_a_promise_at_every_occurrence(wire: Wire) -> None:
    wire.schedule("s")
    for minute in (1, 2, 3):
        wire.tick(T0 + minute * MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + minute * MINUTE}" for minute in (1, 2, 3)]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{.id}}-{{.timestamp}}", f"s-{T0 + MINUTE}"),
        ("{{.timestamp}}", str(T0 + MINUTE)),
        ("x.{{.id}}.{{.id}}", "x.s.s"),
        ("fixed", "fixed"),
    ],
)
def test_the_promise_id_is_the_template_filled_in(wire: Wire, template: str, expected: str) -> None:
    wire.schedule("s", promiseId=template)
    wire.tick(T0 + MINUTE)
    assert ids(wire.snap()["promises"]) == [expected]


def test_a_scheduled_promise_has_the_timeout_the_param_and_the_tags_of_its_schedule(wire: Wire) -> None:
    wire.schedule("s", promiseParam=FULL, promiseTags={"k": "v"}, promiseTimeout=7 * SECOND)
    wire.tick(T0 + MINUTE)
    promise = wire.get(f"s-{T0 + MINUTE}").promise
    assert promise["timeoutAt"] == T0 + MINUTE + 7 * SECOND
    assert promise["param"] == FULL
    assert promise["tags"]["k"] == "v"


def test_schedule_delete_ends_the_schedule(wire: Wire) -> None:
    wire.schedule("s")
    assert wire.send("schedule.delete", {"id": "s"}).status == 200
    assert wire.send("schedule.get", {"id": "s"}).status == 404
    wire.tick(T0 + HOUR)
    assert wire.snap()["promises"] == []


def test_schedule_delete_of_one_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.send("schedule.delete", {"id": "s"}).status == 404


# -- messages ----------------------------------------------------------------------------------------------


def test_the_tag_resonate_invoke_names_the_address_too(wire: Wire) -> None:
    wire.create("t", tags={"resonate:invoke": WORKERS})
    assert wire.task("t")["state"] == "pending"
    assert [message["kind"] for message in wire.messages(WORKERS)] == ["invoke"]


def test_a_resume_message_goes_to_the_target_when_an_awaited_promise_settles(wire: Wire) -> None:
    wire.create("dep")
    wire.task_create("t")
    suspend(wire, "t", "dep")
    assert wire.messages() == []
    wire.settle("dep")
    assert wire.snap()["messages"] == [
        {
            "address": WORKERS,
            "message": {"kind": "resume", "head": {}, "data": {"task": {"id": "t", "version": 1}}},
        }
    ]


def test_a_task_released_after_a_wake_is_still_resumed(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    wire.acquire("t", 1)
    wire.now = T0 + 2 * SECOND
    wire.release("t", 2)
    assert [message["kind"] for message in wire.messages(WORKERS)] == ["resume"]
    assert wire.acquire("t", 2).data["kind"] == "resume"


def test_a_task_never_woken_is_invoked_again_after_a_lapse(wire: Wire) -> None:
    wire.task_create("t")
    wire.tick(T0 + MINUTE)
    assert [message["kind"] for message in wire.messages(WORKERS)] == ["invoke"]


# -- the rest of the machine is the same in this dialect -----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("task.release", {"id": "t", "version": 1}),
        ("task.heartbeat", {"pid": "p", "tasks": [{"id": "t", "version": 1}]}),
        ("task.halt", {"id": "t"}),
    ],
)
def test_replies_with_nothing_to_say_carry_an_empty_object(wire: Wire, kind: str, data: Json) -> None:
    wire.acquired("t")
    answer = wire.send(kind, data)
    assert (answer.status, answer.data) == (200, {})


def test_the_records_of_a_search_have_headers_and_data_too(wire: Wire) -> None:
    wire.create("p")
    assert wire.send("promise.search", {}).data["promises"][0]["param"] == EMPTY


def test_schedule_records_have_headers_and_data_too(wire: Wire) -> None:
    assert wire.send("schedule.create", schedule_of("s")).schedule["promiseParam"] == EMPTY


def test_preloaded_promises_have_headers_and_data_too(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:branch": "t"})
    wire.create("t.1", tags={"resonate:branch": "t"})
    assert wire.acquire("t").data["preload"][0]["value"] == EMPTY


def test_a_promise_made_in_one_dialect_is_shown_in_the_other_as_it_would_be_there(wire: Wire) -> None:
    wire.create("p")
    with wire.dialect(A):
        assert wire.get("p").promise["param"] == {}


def test_the_largest_timeout_is_kept_exactly(wire: Wire) -> None:
    assert wire.create("p", timeout_at=INT_MAX).promise["timeoutAt"] == INT_MAX
