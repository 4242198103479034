"""The rulings on where the published sources of the protocol disagree: K1 to K34, at least one test each."""

from __future__ import annotations

import pytest

from tests.conformance.wire import (
    CLIENT,
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
    sub,
    suspension,
)

DIALECTS = pytest.mark.parametrize("dialect", [A, B])


@DIALECTS
@pytest.mark.parametrize("kind", ["promise.register", "promise.register_callback"])
def test_k1_both_names_of_a_callback_work_and_are_echoed(wire: Wire, kind: str, dialect: str) -> None:
    wire.create("t", target=WORKERS)
    wire.create("dep")
    answer = wire.send(kind, {"awaited": "dep", "awaiter": "t"}, version=dialect)
    assert (answer.status, answer.kind) == (200, kind)
    assert wire.snap()["callbacks"] == [{"awaiter": "t", "awaited": "dep"}]


@DIALECTS
@pytest.mark.parametrize("kind", ["promise.subscribe", "promise.register_listener"])
def test_k1_both_names_of_a_listener_work_and_are_echoed(wire: Wire, kind: str, dialect: str) -> None:
    wire.create("p")
    answer = wire.send(kind, {"awaited": "p", "address": CLIENT}, version=dialect)
    assert (answer.status, answer.kind) == (200, kind)
    assert wire.snap()["listeners"] == [{"id": "p", "address": CLIENT}]


@DIALECTS
def test_k2_the_reply_speaks_the_version_of_the_caller(wire: Wire, dialect: str) -> None:
    assert wire.send("promise.create", creation("p"), version=dialect).head["version"] == dialect


def test_k2_a_newer_version_is_refused(wire: Wire) -> None:
    answer = wire.send("promise.create", creation("p"), version="2026-12-31")
    assert (answer.status, A in answer.data, B in answer.data) == (400, True, True), "it says what is spoken"


def test_k3_the_current_dialect_never_hears_the_old_words(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.listen("dep")
    with wire.dialect(B):
        wire.settle("dep")
    assert sorted(message["kind"] for message in wire.messages()) == ["execute", "unblock"]


def test_k3_the_old_dialect_hears_invoke_then_resume_and_notify(wire: Wire) -> None:
    wire.version = B
    wire.create("t", target=WORKERS)
    assert [message["kind"] for message in wire.messages(WORKERS)] == ["invoke"]
    wire.acquire("t")
    wire.create("dep")
    wire.suspend("t", "dep")
    wire.listen("dep")
    wire.settle("dep")
    assert [message["kind"] for message in wire.messages(WORKERS)] == ["resume"]
    assert [message["kind"] for message in wire.messages(CLIENT)] == ["notify"]


def test_k4_the_tag_invoke_is_an_alias_only_in_the_old_dialect(wire: Wire) -> None:
    tags = {"resonate:invoke": WORKERS}
    wire.create("current", tags=tags)
    with wire.dialect(B):
        wire.create("old", tags=tags)
    assert ids(wire.snap()["tasks"]) == ["old"]


def test_k4_the_tag_target_comes_before_its_alias(wire: Wire) -> None:
    wire.version = B
    wire.create("t", target=WORKERS, tags={"resonate:invoke": "poll://any@elsewhere"})
    assert len(wire.messages(WORKERS)) == 1
    assert len(wire.messages()) == 1


def test_k4_a_task_may_be_created_through_the_alias(wire: Wire) -> None:
    wire.version = B
    answer = wire.task_create("t", target=None, tags={"resonate:invoke": WORKERS})
    assert (answer.status, answer.task["state"]) == (200, "acquired")


@DIALECTS
def test_k5_an_acquire_is_answered_for_both_dialects_at_once(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.create("t", target=WORKERS)
    wire.create("dep")
    first = wire.acquire("t").data
    assert (first["task"]["id"], first["kind"], set(first["data"])) == ("t", "invoke", {"invoked"})
    wire.suspend("t", "dep")
    wire.settle("dep")
    second = wire.acquire("t", 1).data
    assert (second["kind"], second["data"]["awaited"]["id"]) == ("resume", "dep")


@DIALECTS
def test_k6_the_version_rises_by_one_on_acquire_and_nowhere_else(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.create("dep")
    wire.create("t", target=WORKERS)
    wire.acquire("t")
    seen = [wire.task("t")["version"]]
    wire.suspend("t", "dep")
    seen.append(wire.task("t")["version"])
    wire.settle("dep")
    seen.append(wire.task("t")["version"])
    wire.acquire("t", 1)
    seen.append(wire.task("t")["version"])
    wire.release("t", 2)
    seen.append(wire.task("t")["version"])
    wire.acquire("t", 2)
    wire.tick(T0 + HOUR)
    seen.append(wire.task("t")["version"])
    assert seen == [1, 1, 1, 2, 2, 3]


def test_k7_versions_start_at_zero_or_at_one_when_born_acquired(wire: Wire) -> None:
    wire.create("offered", target=WORKERS)
    assert wire.task("offered")["version"] == 0
    assert wire.task_create("held").task["version"] == 1
    assert wire.task_create("dead", timeout_at=T0).task["version"] == 0


def test_k8_only_a_listed_awaited_that_is_settled_lets_a_suspend_go_on(wire: Wire) -> None:
    for name in ("earlier", "listed", "open"):
        wire.create(name)
    wire.acquired("t")
    wire.callback("earlier", "t")
    wire.settle("earlier")
    wire.settle("listed")
    assert wire.suspend("t", "open", "listed").status == 300
    assert wire.suspend("t", "open").status == 200


@DIALECTS
def test_k9_an_empty_heartbeat_keeps_every_live_lease_of_the_process(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.task_create("a")
    wire.task_create("b", tags={"resonate:origin": "elsewhere"})
    wire.task_create("c", pid="q")
    wire.now = T0 + SECOND
    assert wire.heartbeat().data == {}
    late = (1, T0 + SECOND + MINUTE)
    assert (wire.due("a"), wire.due("b"), wire.due("c")) == (late, late, (1, T0 + MINUTE))


def test_k9_a_heartbeat_may_name_tasks_of_several_origins(wire: Wire) -> None:
    for name in ("x:1", "y.1"):
        wire.task_create(name, tags={"resonate:origin": name[0]})
    assert wire.heartbeat(("x:1", 1), ("y.1", 1)).data == {}


def test_k10_task_create_over_a_held_task_conflicts_or_shows_the_promise(wire: Wire) -> None:
    wire.task_create("t")
    assert wire.task_create("t").status == 409
    with wire.dialect(B):
        answer = wire.task_create("t")
    assert answer.status == 200
    assert answer.data.keys() >= {"promise"}
    assert "task" not in answer.data


def test_k10_in_the_old_dialect_a_pending_task_stays_as_it_is(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    with wire.dialect(B):
        assert "task" not in wire.task_create("t").data
    assert wire.task("t")["state"] == "pending"


def test_k11_fulfilling_a_settled_promise_conflicts_or_shows_it(wire: Wire) -> None:
    wire.acquired("t")
    settled = wire.settle("t").promise
    assert wire.fulfill("t").status == 409
    with wire.dialect(B):
        answer = wire.fulfill("t")
        assert (answer.status, answer.promise["settledAt"]) == (200, settled["settledAt"])
        assert wire.fulfill("t", 0).status == 409


def test_k12_only_a_true_replay_of_an_acquire_is_answered_again(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", pid="p", corr_id="c").status == 200
    assert wire.acquire("t", pid="p", corr_id="c").status == 200
    assert wire.acquire("t", pid="p", corr_id="d").status == 409
    assert wire.acquire("t", pid="q", corr_id="c").status == 409


def test_k13_the_id_is_the_key_unless_both_sides_bring_one(wire: Wire) -> None:
    wire.create("p", ikc="one")
    assert wire.create("p").status == 200
    assert wire.create("p", ikc="one").status == 200
    assert wire.create("p", ikc="two").status == 409
    wire.settle("p", iku="one")
    assert wire.settle("p").status == 200
    assert wire.settle("p", iku="one").status == 200
    assert wire.settle("p", iku="two").status == 409


@DIALECTS
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("task.acquire", {"id": "no", "version": 0, "pid": "p", "ttl": 1}),
        ("task.suspend", suspension("no", "dep")),
        (
            "task.fulfill",
            {"id": "no", "version": 1, "action": sub("promise.settle", {"id": "no", "state": "resolved"})},
        ),
        ("task.release", {"id": "no", "version": 1}),
        ("task.fence", {"id": "no", "version": 1, "action": sub("promise.create", creation("x"))}),
        ("task.start", {"id": "no", "version": 1}),
        ("task.halt", {"id": "no"}),
        ("task.continue", {"id": "no"}),
    ],
)
def test_k14_a_task_that_does_not_exist_is_404(wire: Wire, kind: str, data: Json, dialect: str) -> None:
    wire.create("dep")
    assert wire.send(kind, data, version=dialect).status == 404


@DIALECTS
def test_k15_the_richer_statuses_exist_in_both_dialects(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.create("done")
    wire.settle("done")
    wire.acquired("t")
    assert wire.suspend("t", "done").status == 300
    assert wire.suspend("t", "missing").status == 422
    assert wire.callback("done", "missing").status == 422


@DIALECTS
def test_k16_a_reply_without_content_is_an_empty_object(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.create("dep")
    wire.task_create("a")
    wire.task_create("b")
    wire.schedule("s")
    assert wire.heartbeat(("a", 1)).data == {}
    assert wire.release("a").data == {}
    assert wire.suspend("b", "dep").data == {}
    assert wire.send("schedule.delete", {"id": "s"}).data == {}


@pytest.mark.parametrize(
    ("dialect", "empty", "half"),
    [(A, {}, {"data": "eA=="}), (B, {"headers": {}, "data": ""}, {"headers": {}, "data": "eA=="})],
)
def test_k17_absent_headers_and_data_are_omitted_or_filled_in(
    wire: Wire, dialect: str, empty: Json, half: Json
) -> None:
    wire.version = dialect
    promise = wire.create("p", param={"data": "eA=="}).promise
    assert (promise["param"], promise["value"]) == (half, empty)


def test_k18_a_task_record_is_whole_in_the_current_dialect(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.task("t") == {"id": "t", "state": "pending", "version": 0, "resumes": 0}


@pytest.mark.parametrize("depends", ["callback", "listener"])
def test_k19_an_untargeted_promise_somebody_waits_for_expires_by_itself(wire: Wire, depends: str) -> None:
    wire.create("p", timeout_at=T0 + 10)
    if depends == "callback":
        wire.task_create("t")
        wire.suspend("t", "p")
    else:
        wire.listen("p")
    wire.tick(T0 + 10)
    assert wire.stored("promises", "p")["state"] == "rejected_timedout"
    assert len(wire.messages()) == 1


@pytest.mark.parametrize("tags", [{}, {"resonate:scope": "global"}, {"resonate:scope": "local"}])
def test_k20_any_promise_may_be_awaited(wire: Wire, tags: Json) -> None:
    wire.create("p", tags=tags)
    wire.acquired("t")
    assert wire.callback("p", "t").status == 200
    assert wire.listen("p").status == 200
    assert wire.suspend("t", "p").status == 200


def test_k21_a_timer_may_have_a_target_and_its_task_is_parked(wire: Wire) -> None:
    answer = wire.create("t", target=WORKERS, tags={"resonate:timer": "true"}, timeout_at=T0 + HOUR)
    assert answer.status == 200
    assert wire.due("t") == (0, T0 + HOUR)
    assert wire.messages() == []


def test_k22_an_awaited_named_twice_counts_once(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    assert wire.suspend("t", "dep", "dep").status == 200
    assert wire.snap()["callbacks"] == [{"awaiter": "t", "awaited": "dep"}]
    wire.settle("dep")
    assert wire.task("t")["resumes"] == 1


@pytest.mark.parametrize("name", ["root", "root.1", "root:1", "root:1.2", "other", "a.b.c", "d0123"])
def test_k23_lineage_tags_are_never_compared_with_the_id(wire: Wire, name: str) -> None:
    tags = {f"resonate:{tag}": "ro.ot" for tag in ("origin", "branch", "parent", "prefix")}
    assert wire.create(name, tags=tags, target=WORKERS).status == 200


def test_k23_promises_of_different_origins_may_await_each_other(wire: Wire) -> None:
    wire.create("x:1", tags={"resonate:origin": "x"})
    wire.acquired("y.1", tags={"resonate:origin": "y"})
    assert wire.callback("x:1", "y.1").status == 200
    assert wire.suspend("y.1", "x:1").status == 200


@pytest.mark.parametrize("state", ["suspended", "pending", "acquired"])
def test_k24_registering_on_a_settled_promise_wakes_and_counts_nothing(wire: Wire, state: str) -> None:
    wire.create("done")
    wire.settle("done")
    wire.create("open")
    wire.create("t", target=WORKERS)
    if state != "pending":
        wire.acquire("t")
    if state == "suspended":
        wire.suspend("t", "open")
    before = wire.snap()
    assert wire.callback("done", "t").status == 200
    assert wire.snap() == before


def test_k25_a_schedule_needs_no_target(wire: Wire) -> None:
    assert wire.schedule("s").status == 200
    wire.tick(T0 + MINUTE)
    assert wire.snap()["tasks"] == []
    assert len(wire.snap()["promises"]) == 1


@pytest.mark.parametrize("day", ["0", "7", "SUN"])
def test_k26_sunday_is_zero_or_seven_and_one_is_monday(wire: Wire, day: str) -> None:
    sunday = T0 + 3 * 24 * HOUR
    assert wire.schedule("sunday", f"0 0 * * {day}").schedule["nextRunAt"] == sunday
    assert wire.schedule("monday", "0 0 * * 1").schedule["nextRunAt"] == sunday + 24 * HOUR


def test_k26_a_date_that_never_comes_is_refused(wire: Wire) -> None:
    assert wire.schedule("s", "0 0 30 2 *").status == 400


def test_k27_lineage_is_added_where_absent_and_the_schedule_always(wire: Wire) -> None:
    wire.schedule("s", promiseId="x", promiseTags={"resonate:origin": "kept"})
    wire.tick(T0 + MINUTE)
    assert wire.get("x").promise["tags"] == {
        "resonate:schedule": "s",
        "resonate:origin": "kept",
        "resonate:branch": "x",
        "resonate:parent": "x",
        "resonate:prefix": "x",
    }


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("promise.create", {"id": "x", "timeoutAt": -1}),
        ("promise.create", {"id": "", "timeoutAt": 1}),
        ("promise.create", {"id": "x"}),
        ("promise.create", creation("x", target=WORKERS) | {"settle": {"state": "resolved"}}),
        ("promise.settle", {"id": "x", "state": "pending"}),
        ("promise.settle", {"id": "x"}),
    ],
)
def test_k28_a_malformed_inner_action_of_a_fence_is_an_outer_400(wire: Wire, kind: str, data: Json) -> None:
    wire.acquired("t")
    before = wire.snap()
    assert wire.fence("t", kind, data).status == 400
    assert wire.snap() == before


def test_k29_searches_exist_filter_and_see_the_view(wire: Wire) -> None:
    wire.create("dead", target=WORKERS, timeout_at=T0 + 10, tags={"k": "v"})
    wire.create("live", target=WORKERS, tags={"k": "v"})
    wire.create("other", target=WORKERS)
    wire.now = T0 + 10
    query = {"tags": {"k": "v"}, "state": "pending", "target": WORKERS}
    assert ids(wire.send("task.search", query).data["tasks"]) == ["live"]


def test_k30_halt_and_continue_need_no_version_but_check_one_that_is_given(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.halt("t", version=0).status == 409
    assert wire.halt("t").status == 200
    assert wire.resume("t", version=0).status == 409
    assert wire.resume("t").status == 200


def test_k31_the_status_is_in_the_head(wire: Wire) -> None:
    """How HTTP mirrors it is the HTTP server's matter; the envelope always carries it."""
    assert wire.get("missing").head["status"] == 404


@pytest.mark.parametrize(
    "delay", ["", "soon", "-1", "1.5", "1e3", "0x10", "1_000", "٣", str(INT_MAX), "9" * 30, "9" * 4_000]
)
def test_k32_a_malformed_delay_is_refused(wire: Wire, delay: str) -> None:
    assert wire.create("t", target=WORKERS, tags={"resonate:delay": delay}).status == 400
    assert wire.get("t").status == 404


@pytest.mark.parametrize("delay", [T0 + 10, T0 + 11])
def test_k32_a_delay_that_does_not_end_before_the_timeout_is_refused(wire: Wire, delay: int) -> None:
    answer = wire.create("t", target=WORKERS, timeout_at=T0 + 10, tags={"resonate:delay": str(delay)})
    assert answer.status == 400


def test_k32_a_delay_in_the_past_means_now(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:delay": str(T0 - HOUR)})
    assert wire.offers("t") == [0]


def test_k32_a_delay_without_a_target_is_refused(wire: Wire) -> None:
    assert wire.create("p", tags={"resonate:delay": str(T0 + HOUR)}).status == 400


@pytest.mark.parametrize("ttl", [1, 10_000, 60_000, 86_400_000])
def test_k33_the_lease_has_the_length_the_request_asks_for(wire: Wire, ttl: int) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", ttl=ttl).task["ttl"] == ttl
    assert wire.due("t") == (1, T0 + ttl)


@DIALECTS
def test_k34_an_empty_target_is_refused(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    assert wire.create("t", target="").status == 400
    assert wire.task_create("t", target="").status == 400
    assert wire.get("t").status == 404


@pytest.mark.parametrize("alias", ["", "nowhere"])
def test_k34_so_is_an_alias_that_leads_nowhere(wire: Wire, alias: str) -> None:
    wire.acquired("held")
    wire.version = B
    tags = {"resonate:invoke": alias}
    assert wire.create("t", tags=tags).status == 400
    assert wire.task_create("t", target=None, tags=tags).status == 400
    assert wire.fence("held", "promise.create", creation("t", tags=tags)).status == 400
    assert wire.schedule("s", promiseTags=tags).status == 400
    assert wire.get("t").status == 404


def test_k4_what_a_schedule_fires_may_have_its_target_through_the_alias(wire: Wire) -> None:
    with wire.dialect(B):
        wire.schedule("s", promiseId="x", promiseTags={"resonate:invoke": WORKERS})
    wire.tick(T0 + MINUTE)
    assert ids(wire.snap()["tasks"]) == ["x"]
