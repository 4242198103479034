"""The task operations, beyond what the seeds and the state table say."""

from __future__ import annotations

import pytest

from tests.conformance.wire import (
    FAR,
    MINUTE,
    RETRY_MS,
    SECOND,
    T0,
    WORKERS,
    Json,
    Wire,
    creation,
    ids,
    sub,
    suspension,
)

# -- create ------------------------------------------------------------------------------------------------


def test_task_create_answers_with_task_promise_and_preload(wire: Wire) -> None:
    data = wire.task_create("t").data
    assert data["task"] == {
        "id": "t",
        "state": "acquired",
        "version": 1,
        "resumes": 0,
        "pid": "p",
        "ttl": MINUTE,
    }
    assert data["promise"]["state"] == "pending"
    assert data["preload"] == []


def test_task_create_over_a_pending_task_acquires_it(wire: Wire) -> None:
    created = wire.create("t", target=WORKERS, param={"data": "eA=="}).promise
    answer = wire.task_create("t", ttl=5)
    assert (answer.status, answer.task["state"], answer.task["version"]) == (200, "acquired", 1)
    assert answer.promise == created
    assert wire.due("t") == (1, T0 + 5)


def test_task_create_over_a_pending_task_asks_for_no_version(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    assert wire.task_create("t").task["version"] == 2


def test_task_create_over_a_woken_task_clears_its_resumes(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    assert wire.task("t")["resumes"] == 1
    assert wire.task_create("t").task["resumes"] == 0


def test_task_create_over_a_fulfilled_task_echoes_it(wire: Wire) -> None:
    wire.acquired("t")
    promise = wire.fulfill("t", value={"data": "eA=="}).promise
    before = wire.snap()
    answer = wire.task_create("t", pid="q")
    assert (answer.status, answer.task["state"], answer.promise) == (200, "fulfilled", promise)
    assert answer.data["preload"] == []
    assert wire.snap() == before


def test_task_create_over_a_promise_without_a_target_is_422(wire: Wire) -> None:
    wire.create("p")
    before = wire.snap()
    assert wire.task_create("p").status == 422
    assert wire.snap() == before


def test_task_create_past_the_timeout_is_born_fulfilled(wire: Wire) -> None:
    answer = wire.task_create("t", timeout_at=T0)
    assert answer.task == {"id": "t", "state": "fulfilled", "version": 0, "resumes": 0}
    assert (answer.promise["state"], answer.data["preload"]) == ("rejected_timedout", [])
    assert wire.snap()["messages"] == []


@pytest.mark.parametrize("delay", [T0 - 10, T0 + 10])
def test_task_create_with_a_delay_is_refused(wire: Wire, delay: int) -> None:
    assert wire.task_create("t", tags={"resonate:delay": str(delay)}).status == 400


def test_task_create_respects_the_create_key(wire: Wire) -> None:
    wire.create("t", target=WORKERS, ikc="one")
    assert wire.task_create("t", ikc="two").status == 409
    assert wire.task("t")["state"] == "pending"


# -- acquire -----------------------------------------------------------------------------------------------


def test_acquire_clears_the_resumes(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("dep")
    assert wire.acquire("t", 1).task["resumes"] == 0


def test_acquire_answers_with_the_union_of_both_dialects(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    data = wire.acquire("t").data
    assert set(data) == {"task", "promise", "preload", "kind", "data"}
    assert (data["kind"], data["data"]) == ("invoke", {"invoked": data["promise"]})


def test_acquire_after_a_wake_names_the_promise_that_woke_the_task(wire: Wire) -> None:
    wire.suspended("t", "one", "two")
    wire.settle("two", value={"data": "eA=="})
    data = wire.acquire("t", 1).data
    assert (data["kind"], data["data"]["awaited"]) == ("resume", wire.get("two").promise)


def test_acquire_names_the_promise_that_woke_the_task_last(wire: Wire) -> None:
    wire.suspended("t", "one")
    wire.settle("one")
    wire.acquire("t", 1)
    wire.create("two")
    wire.suspend("t", "two", version=2)
    wire.settle("two")
    assert wire.acquire("t", 2).data["data"]["awaited"]["id"] == "two"


def test_a_replayed_acquire_changes_nothing_and_is_answered_again(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    first = wire.acquire("t", corr_id="once")
    before = wire.snap()
    wire.now = T0 + SECOND
    again = wire.acquire("t", corr_id="once")
    assert (again.status, again.data) == (200, first.data)
    assert wire.snap() == before


@pytest.mark.parametrize(
    ("pid", "version", "corr_id"), [("q", 0, "once"), ("p", 1, "once"), ("p", 0, "twice")]
)
def test_a_second_acquire_that_is_no_replay_conflicts(
    wire: Wire, pid: str, version: int, corr_id: str
) -> None:
    wire.create("t", target=WORKERS)
    wire.acquire("t", corr_id="once")
    before = wire.snap()
    assert wire.acquire("t", version, pid=pid, corr_id=corr_id).status == 409
    assert wire.snap() == before


@pytest.mark.parametrize("loss", ["release", "lapse", "suspend", "halt", "fulfill"])
def test_a_replayed_acquire_conflicts_once_the_lease_is_gone(wire: Wire, loss: str) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS)
    wire.acquire("t", corr_id="once")
    if loss == "lapse":
        wire.tick(T0 + MINUTE)
    elif loss == "suspend":
        wire.suspend("t", "dep")
    else:
        {"release": wire.release, "halt": wire.halt, "fulfill": wire.fulfill}[loss]("t")
    before = wire.snap()
    assert wire.acquire("t", corr_id="once").status == 409
    assert wire.snap() == before


def test_a_task_made_by_task_create_has_no_acquire_to_replay(wire: Wire) -> None:
    action = {"kind": "promise.create", "head": {}, "data": creation("t", target=WORKERS)}
    made = wire.send("task.create", {"pid": "p", "ttl": MINUTE, "action": action}, corr_id="same")
    assert made.status == 200
    assert wire.acquire("t", 0, corr_id="same").status == 409


def test_a_claimed_task_has_no_acquire_to_replay(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    data = {"groups": ["workers"], "count": 1, "pid": "p", "ttl": MINUTE}
    assert len(wire.send("task.claim", data, corr_id="same").data["tasks"]) == 1
    assert wire.acquire("t", 0, corr_id="same").status == 409


# -- preload -----------------------------------------------------------------------------------------------


@pytest.fixture
def family(wire: Wire) -> Wire:
    branch = {"resonate:branch": "t"}
    wire.create("t", target=WORKERS, tags=branch)
    wire.create("t.2", tags=branch)
    wire.create("t.1", tags=branch)
    wire.settle("t.1")
    wire.create("stranger", tags={"resonate:branch": "stranger"})
    wire.create("untagged")
    return wire


def test_acquire_preloads_the_branch_by_id_without_the_task_itself(family: Wire) -> None:
    preload = family.acquire("t").data["preload"]
    assert preload == [family.get("t.1").promise, family.get("t.2").promise]


def test_task_create_preloads_the_branch_when_it_acquires(family: Wire) -> None:
    answer = family.task_create("t", tags={"resonate:branch": "t"})
    assert ids(answer.data["preload"]) == ["t.1", "t.2"]


def test_a_suspend_that_goes_on_preloads_the_branch(family: Wire) -> None:
    family.acquire("t")
    answer = family.suspend("t", "t.1")
    assert (answer.status, ids(answer.data["preload"])) == (300, ["t.1", "t.2"])


def test_a_claim_preloads_the_branch(family: Wire) -> None:
    assert ids(family.claim("workers")[0]["preload"]) == ["t.1", "t.2"]


def test_a_fence_preloads_nothing(family: Wire) -> None:
    family.acquire("t")
    assert family.fence("t", "promise.create", creation("x")).data["preload"] == []


def test_without_a_branch_there_is_no_preload(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("u")
    assert wire.acquire("t").data["preload"] == []


# -- release -----------------------------------------------------------------------------------------------


def test_release_clears_the_holder_and_keeps_the_resumes(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.callback("dep", "t")
    wire.settle("dep")
    wire.release("t")
    assert wire.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 1}


# -- suspend -----------------------------------------------------------------------------------------------


def test_suspend_clears_holder_timers_and_resumes(wire: Wire) -> None:
    wire.create("one")
    wire.create("two")
    wire.acquired("t")
    wire.callback("one", "t")
    wire.settle("one")
    assert wire.task("t")["resumes"] == 1
    wire.suspend("t", "two")
    assert wire.task("t") == {"id": "t", "state": "suspended", "version": 1, "resumes": 0}
    assert wire.due("t") is None


def test_a_suspend_that_goes_on_clears_the_resumes_and_keeps_the_lease(wire: Wire) -> None:
    wire.create("one")
    wire.acquired("t")
    wire.callback("one", "t")
    wire.settle("one")
    wire.now = T0 + SECOND
    assert wire.suspend("t", "one").status == 300
    assert wire.task("t")["resumes"] == 0
    assert wire.due("t") == (1, T0 + MINUTE)


def test_resumes_alone_do_not_keep_a_task_from_suspending(wire: Wire) -> None:
    wire.create("one")
    wire.create("two")
    wire.acquired("t")
    wire.callback("one", "t")
    wire.settle("one")
    assert wire.suspend("t", "two").status == 200


def test_an_empty_suspend_is_refused_before_any_lookup(wire: Wire) -> None:
    assert wire.suspend("missing").status == 400


def test_a_suspend_for_somebody_else_is_refused(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    data = suspension("other", "dep") | {"id": "t"}
    assert wire.send("task.suspend", data).status == 400


def test_a_task_cannot_suspend_on_itself(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.suspend("t", "t").status == 400


def test_a_wrong_version_comes_before_a_missing_awaited(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.suspend("t", "missing", version=2).status == 409


def test_a_missing_awaited_comes_before_a_settled_one(wire: Wire) -> None:
    wire.create("done")
    wire.settle("done")
    wire.acquired("t")
    assert wire.suspend("t", "done", "missing").status == 422


def test_tasks_may_await_each_other_in_a_circle(wire: Wire) -> None:
    wire.acquired("a")
    wire.acquired("b")
    assert wire.suspend("a", "b").status == 200
    assert wire.suspend("b", "a").status == 200
    wire.settle("a")
    assert wire.task("b")["state"] == "pending"


def test_a_suspension_may_mix_both_names_of_the_action(wire: Wire) -> None:
    wire.create("one")
    wire.create("two")
    wire.acquired("t")
    actions = [
        sub("promise.register", {"awaited": "one", "awaiter": "t"}),
        sub("promise.register_callback", {"awaited": "two", "awaiter": "t"}),
    ]
    assert wire.send("task.suspend", {"id": "t", "version": 1, "actions": actions}).status == 200


def test_a_leftover_callback_of_an_earlier_suspension_still_wakes(wire: Wire) -> None:
    wire.suspended("t", "one", "two")
    wire.settle("one")
    wire.acquire("t", 1)
    wire.create("three")
    wire.suspend("t", "three", version=2)
    wire.settle("two")
    assert wire.task("t")["state"] == "pending"


# -- fulfill -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pending", "rejected_timedout", "nonsense"])
def test_fulfill_with_a_state_no_client_may_set_is_refused(wire: Wire, state: str) -> None:
    wire.acquired("t")
    before = wire.snap()
    assert wire.fulfill("t", state=state).status == 400
    assert wire.snap() == before


@pytest.mark.parametrize("state", ["resolved", "rejected", "rejected_canceled"])
def test_fulfill_settles_the_promise_in_the_state_it_names(wire: Wire, state: str) -> None:
    wire.acquired("t")
    wire.now = T0 + 9
    promise = wire.fulfill("t", state=state).promise
    assert (promise["state"], promise["settledAt"]) == (state, T0 + 9)


def test_a_second_fulfill_conflicts(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.fulfill("t").status == 409


def test_a_fulfilled_task_is_bare(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.stored("tasks", "t") == {"id": "t", "state": "fulfilled", "version": 1, "resumes": 0}
    assert wire.due("t") is None


# -- fence -------------------------------------------------------------------------------------------------


def test_a_fenced_operation_on_the_tasks_own_promise_is_refused(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.fence("t", "promise.settle", {"id": "t", "state": "resolved"}).status == 400
    assert wire.fence("t", "promise.create", creation("t")).status == 400


@pytest.mark.parametrize("kind", ["promise.get", "task.acquire", "promise.register_callback", "", "nonsense"])
def test_a_fence_takes_no_other_action(wire: Wire, kind: str) -> None:
    wire.create("x")
    wire.acquired("t")
    assert wire.fence("t", kind, {"id": "x"}).status == 400


def test_a_fenced_settle_of_a_missing_promise_is_404_inside_200(wire: Wire) -> None:
    wire.acquired("t")
    answer = wire.fence("t", "promise.settle", {"id": "missing", "state": "resolved"})
    assert (answer.status, answer.data["action"]["head"]["status"]) == (200, 404)
    assert isinstance(answer.data["action"]["data"], str)


def test_a_fenced_create_with_another_key_is_409_inside_200(wire: Wire) -> None:
    wire.create("x", ikc="one")
    wire.acquired("t")
    answer = wire.fence("t", "promise.create", creation("x", ikc="two"))
    assert (answer.status, answer.data["action"]["head"]["status"]) == (200, 409)


def test_a_fenced_settle_with_another_key_is_409_inside_200(wire: Wire) -> None:
    wire.create("x")
    wire.settle("x", iku="one")
    wire.acquired("t")
    answer = wire.fence("t", "promise.settle", {"id": "x", "state": "resolved", "iku": "two"})
    assert (answer.status, answer.data["action"]["head"]["status"]) == (200, 409)


def test_a_fenced_create_of_a_targeted_promise_makes_a_task(wire: Wire) -> None:
    wire.acquired("t")
    wire.fence("t", "promise.create", creation("child", target=WORKERS))
    assert wire.offers("child") == [0]


def test_a_fenced_settle_wakes_the_awaiters(wire: Wire) -> None:
    wire.suspended("waiter", "dep")
    wire.acquired("t")
    wire.fence("t", "promise.settle", {"id": "dep", "state": "resolved"})
    assert wire.task("waiter")["state"] == "pending"


def test_a_fenced_create_is_idempotent(wire: Wire) -> None:
    wire.acquired("t")
    first = wire.fence("t", "promise.create", creation("x", param={"data": "MQ=="})).data["action"]["data"]
    again = wire.fence("t", "promise.create", creation("x", param={"data": "Mg=="})).data["action"]["data"]
    assert first == again


def test_the_inner_head_repeats_the_inner_correlation_id(wire: Wire) -> None:
    wire.acquired("t")
    action = wire.fence("t", "promise.create", creation("x")).data["action"]
    assert action["head"]["corrId"] == "inner"


def test_a_refusal_inside_a_fence_has_its_code_in_the_inner_head(wire: Wire) -> None:
    wire.acquired("t")
    action = wire.fence("t", "promise.settle", {"id": "nobody", "state": "resolved"}).data["action"]
    assert (action["head"]["status"], action["head"]["code"]) == (404, "HF1101")


@pytest.mark.parametrize("action", [{"head": {}}, {}])
def test_without_an_inner_correlation_id_the_inner_head_repeats_the_outer(wire: Wire, action: Json) -> None:
    wire.acquired("t")
    data = {"id": "t", "version": 1, "action": {"kind": "promise.create", "data": creation("x"), **action}}
    answer = wire.send("task.fence", data, corr_id="outer")
    assert answer.data["action"]["head"]["corrId"] == "outer"


# -- heartbeat ---------------------------------------------------------------------------------------------


def test_a_heartbeat_of_another_process_refreshes_nothing(wire: Wire) -> None:
    wire.acquired("t")
    wire.now = T0 + SECOND
    assert wire.heartbeat(("t", 1), pid="q").status == 200
    assert wire.due("t") == (1, T0 + MINUTE)


def test_a_heartbeat_uses_the_ttl_of_the_acquire(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.acquire("t", ttl=7_000)
    wire.now = T0 + SECOND
    wire.heartbeat(("t", 1))
    assert wire.due("t") == (1, T0 + 8_000)


def test_a_heartbeat_that_refreshed_everything_says_nothing(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.heartbeat(("t", 1)).data == {}


def test_a_heartbeat_may_name_tasks_of_unrelated_workflows(wire: Wire) -> None:
    wire.acquired("one:1", tags={"resonate:origin": "one"})
    wire.acquired("two.1", tags={"resonate:origin": "two"})
    wire.now = T0 + SECOND
    assert wire.heartbeat(("one:1", 1), ("two.1", 1)).data == {}


# -- halt and continue -------------------------------------------------------------------------------------


def test_halting_twice_is_the_same_as_once(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    before = wire.snap()
    answer = wire.halt("t")
    assert (answer.status, answer.data) == (200, {})
    assert wire.snap() == before


def test_a_halted_task_loses_holder_and_timers_and_keeps_resumes(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.callback("dep", "t")
    wire.settle("dep")
    wire.halt("t")
    assert wire.task("t") == {"id": "t", "state": "halted", "version": 1, "resumes": 1}
    assert wire.due("t") is None


def test_a_halted_task_is_not_offered_again(wire: Wire) -> None:
    wire.task_create("t")
    wire.halt("t")
    wire.tick(T0 + 10 * MINUTE)
    assert wire.messages() == []
    assert wire.task("t")["state"] == "halted"


def test_the_worker_of_a_halted_task_is_refused(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    assert wire.fulfill("t").status == 409
    assert wire.heartbeat(("t", 1)).data == {"lost": [{"id": "t", "version": 1}]}


def test_a_settlement_fulfils_a_halted_task(wire: Wire) -> None:
    wire.acquired("t")
    wire.halt("t")
    wire.settle("t")
    assert wire.task("t")["state"] == "fulfilled"


def test_a_continued_task_keeps_what_it_heard_while_halted(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.halt("t")
    wire.settle("dep")
    wire.resume("t")
    task = wire.task("t")
    assert (task["state"], task["version"], task["resumes"]) == ("pending", 1, 1)
    assert wire.due("t") == (0, T0 + RETRY_MS)


@pytest.mark.parametrize(("version", "status"), [(0, 409), (1, 200), (2, 409)])
def test_halt_checks_a_version_when_it_is_given(wire: Wire, version: int, status: int) -> None:
    wire.acquired("t")
    assert wire.halt("t", version=version).status == status
    assert wire.task("t")["state"] == ("halted" if status == 200 else "acquired")


@pytest.mark.parametrize(("version", "status"), [(0, 409), (1, 200), (2, 409)])
def test_continue_checks_a_version_when_it_is_given(wire: Wire, version: int, status: int) -> None:
    wire.acquired("t")
    wire.halt("t")
    assert wire.resume("t", version=version).status == status
    assert wire.task("t")["state"] == ("pending" if status == 200 else "halted")


# -- search ------------------------------------------------------------------------------------------------


@pytest.fixture
def some(wire: Wire) -> Wire:
    wire.create("a.pending", target="poll://any@Alpha", tags={"team": "red"})
    wire.create("a.held", target="poll://any@Alpha/one", tags={"team": "blue"})
    wire.acquire("a.held", pid="alice")
    wire.create("b.held", target="poll://any@beta", tags={"team": "red"})
    wire.acquire("b.held", pid="bob")
    wire.create("b.done", target="poll://any@beta")
    wire.settle("b.done")
    wire.create("no-task")
    return wire


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["a.held", "a.pending", "b.done", "b.held"]),
        ({"state": "acquired"}, ["a.held", "b.held"]),
        ({"state": "fulfilled"}, ["b.done"]),
        ({"target": "poll://any@Alpha"}, ["a.pending"]),
        ({"group": "Alpha"}, ["a.held", "a.pending"]),
        ({"group": "alpha"}, []),
        ({"pid": "alice"}, ["a.held"]),
        ({"pid": "nobody"}, []),
        ({"prefix": "b."}, ["b.done", "b.held"]),
        ({"tags": {"team": "red"}}, ["a.pending", "b.held"]),
        ({"tags": {"team": "red"}, "state": "acquired"}, ["b.held"]),
    ],
)
def test_a_task_search_joins_its_conditions(some: Wire, query: Json, names: list[str]) -> None:
    assert ids(some.send("task.search", query).data["tasks"]) == names


def test_a_task_search_goes_page_by_page(some: Wire) -> None:
    first = some.send("task.search", {"limit": 3})
    assert (ids(first.data["tasks"]), first.data["cursor"]) == (["a.held", "a.pending", "b.done"], "b.done")
    last = some.send("task.search", {"limit": 3, "cursor": "b.done"})
    assert ids(last.data["tasks"]) == ["b.held"]
    assert "cursor" not in last.data


def test_a_task_search_shows_the_records_of_task_get(some: Wire) -> None:
    found = some.send("task.search", {"pid": "alice"}).data["tasks"]
    assert found == [some.task("a.held")]


def test_a_task_search_sees_a_timeout_nobody_wrote_down(wire: Wire) -> None:
    wire.acquired("t", timeout_at=T0 + 10)
    wire.now = T0 + 10
    assert wire.send("task.search", {"state": "acquired"}).data["tasks"] == []
    assert wire.send("task.search", {"pid": "p"}).data["tasks"] == []
    assert ids(wire.send("task.search", {"state": "fulfilled"}).data["tasks"]) == ["t"]


def test_the_timeout_of_a_task_is_that_of_its_promise(wire: Wire) -> None:
    wire.task_create("t")
    assert wire.get("t").promise["timeoutAt"] == FAR
