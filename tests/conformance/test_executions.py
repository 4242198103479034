"""Executions are looked at, found newest first, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import FAR, MINUTE, SECOND, T0, WORKERS, Json, Wire, suspension

WORKFLOW = "holdfast:workflow"
PAGES_MAX = 100  # no test here has so many executions


def look(wire: Wire, name: str) -> Json:
    answer = wire.send("execution.get", {"id": name})
    assert answer.status == 200, answer
    found: Json = answer.data["execution"]
    return found


def pages(wire: Wire, **filters: Any) -> list[list[str]]:
    """The ids of each page of a search."""
    found: list[list[str]] = []
    cursor: str | None = None
    while len(found) < PAGES_MAX:
        more = {} if cursor is None else {"cursor": cursor}
        answer = wire.send("execution.search", {**filters, **more})
        assert answer.status == 200, answer
        found.append([execution["id"] for execution in answer.data["executions"]])
        cursor = answer.data.get("cursor")
        if cursor is None:
            return found
    raise AssertionError(f"the pages do not end: {found[:5]} ...")


def ids(wire: Wire, **filters: Any) -> list[str]:
    return [name for page in pages(wire, **filters) for name in page]


def counts(wire: Wire, **filters: Any) -> Json:
    answer = wire.send("execution.count", filters)
    assert answer.status == 200, answer
    return {status: number for status, number in answer.data["counts"].items() if number}


def begin(wire: Wire, *names: str, **tags: str) -> None:
    """Executions, each a second newer than the one before."""
    for name in names:
        wire.create(name, target=WORKERS, tags=tags)
        wire.now += SECOND


def reach_every_status(wire: Wire) -> None:
    begin(wire, "pending", "running", "suspended", "halted", "completed", "failed", "cancelled", "timed_out")
    wire.create("waiting", target=WORKERS, tags={"resonate:delay": str(wire.now + 10 * MINUTE)})
    wire.create("p", timeout_at=FAR)
    for name in ("running", "suspended", "completed", "failed"):
        wire.acquire(name)
    wire.suspend("suspended", "p")
    wire.halt("halted", reason="by hand", code="HF5101")
    wire.fulfill("completed")
    wire.fulfill("failed", state="rejected", value={"headers": {"holdfast-code": "BROKEN"}})
    wire.settle("cancelled", "rejected_canceled")
    wire.create("late", target=WORKERS, timeout_at=wire.now + SECOND)
    wire.now += SECOND
    wire.tick()


EVERY = ("pending", "waiting", "running", "suspended", "halted", "completed", "failed", "cancelled")


@pytest.mark.parametrize("status", EVERY)
def test_an_execution_is_found_by_its_status(wire: Wire, status: str) -> None:
    reach_every_status(wire)
    expected = [status] if status != "pending" else ["timed_out", "pending"]
    assert ids(wire, status=[status]) == expected
    assert look(wire, expected[0])["status"] == status
    assert counts(wire, status=[status]) == {status: len(expected)}


def test_one_that_timed_out_is_found_as_that(wire: Wire) -> None:
    reach_every_status(wire)
    assert ids(wire, status=["timed_out"]) == ["late"]


def test_the_newest_comes_first(wire: Wire) -> None:
    begin(wire, "b", "c", "a")
    assert ids(wire) == ["a", "c", "b"]
    assert pages(wire, limit=1) == [["a"], ["c"], ["b"]]
    assert pages(wire, limit=2) == [["a", "c"], ["b"]]


def test_of_one_instant_the_last_id_comes_first(wire: Wire) -> None:
    for name in ("b", "c", "a"):
        wire.create(name, target=WORKERS)
    assert pages(wire, limit=1) == [["c"], ["b"], ["a"]]


def test_pages_of_several_statuses_are_in_one_order(wire: Wire) -> None:
    begin(wire, "a", "b", "c", "d")
    wire.acquire("b")
    wire.halt("c")
    assert pages(wire, status=["pending", "running", "halted"], limit=3) == [["d", "c", "b"], ["a"]]


def test_a_page_that_is_read_while_others_start_misses_nothing(wire: Wire) -> None:
    begin(wire, "a", "b", "c")
    first = wire.send("execution.search", {"limit": 2}).data
    begin(wire, "d")
    second = wire.send("execution.search", {"limit": 2, "cursor": first["cursor"]}).data
    assert [each["id"] for each in second["executions"]] == ["a"]


def test_an_execution_is_found_by_the_name_of_its_workflow(wire: Wire) -> None:
    begin(wire, "a", "b", **{WORKFLOW: "pay"})
    begin(wire, "c", **{WORKFLOW: "ship"})
    wire.acquire("a")
    assert ids(wire, name="pay") == ["b", "a"]
    assert ids(wire, name="pay", status=["running"]) == ["a"]
    assert ids(wire, name="pa") == []
    assert look(wire, "c")["name"] == "ship"
    assert counts(wire, name="pay") == {"pending": 1, "running": 1}


def test_a_long_name_is_found_as_well(wire: Wire) -> None:
    begin(wire, "a", **{WORKFLOW: "x" * 2_000})
    begin(wire, "b", **{WORKFLOW: "x" * 1_999 + "y"})
    assert ids(wire, name="x" * 2_000) == ["a"]


def test_failures_are_found_by_their_code(wire: Wire) -> None:
    begin(wire, "a", "b", "c", "d")
    for name, code in (("a", "BROKEN"), ("b", "ODD"), ("c", "BROKEN")):
        wire.acquire(name)
        wire.fulfill(name, state="rejected", value={"headers": {"holdfast-code": code}})
    wire.acquire("d")
    wire.fulfill("d", value={"headers": {"holdfast-code": "BROKEN"}})
    assert ids(wire, code="BROKEN") == ["c", "a"]
    assert ids(wire, code="BROKEN", status=["cancelled"]) == []
    assert look(wire, "b")["code"] == "ODD"
    assert "code" not in look(wire, "d"), "it has not failed"
    assert counts(wire, code="ODD") == {"failed": 1}


def test_all_filters_hold_together(wire: Wire) -> None:
    begin(wire, "a:1", "a:2", "b:1", colour="red", **{WORKFLOW: "pay"})
    wire.create("a:3", target="poll://any@others", tags={"colour": "red"})
    assert ids(wire, tags={"colour": "red"}, prefix="a:") == ["a:3", "a:2", "a:1"]
    assert ids(wire, tags={"colour": "red"}, queue="workers", prefix="a:") == ["a:2", "a:1"]
    assert ids(wire, tags={"colour": "red", "size": "1"}) == []
    assert ids(wire, since=T0 + SECOND, until=T0 + 2 * SECOND) == ["a:2"]
    assert ids(wire, name="pay", since=T0 + SECOND) == ["b:1", "a:2"]
    assert ids(wire, kind="task") == []
    assert counts(wire, tags={"colour": "red"}, queue="others") == {"pending": 1}


def test_a_promise_without_a_target_is_no_execution(wire: Wire) -> None:
    wire.create("p")
    assert ids(wire) == []
    for name, kind in (("p", "execution.get"), ("none", "execution.get"), ("none", "execution.cancel")):
        answer = wire.send(kind, {"id": name})
        assert (answer.status, answer.head["code"]) == (404, "HF1401"), (kind, name)


def test_a_deadline_that_is_not_written_down_yet_counts(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0 + SECOND)
    wire.now = T0 + SECOND
    found = look(wire, "t")
    assert (found["status"], found["since"], found["settledAt"]) == ("timed_out", T0 + SECOND, T0 + SECOND)
    assert ids(wire, status=["pending"]) == []
    assert wire.send("execution.search", {}).data["executions"][0]["status"] == "timed_out"
    wire.tick()
    assert ids(wire, status=["timed_out"]) == ["t"]


def test_who_waits_for_what_is_kept_while_it_is_suspended(wire: Wire) -> None:
    wire.create("p", timeout_at=FAR)
    wire.acquired("t")
    waits = [
        {"id": "p", "what": "promise", "file": "shop.py", "line": 12, "function": "checkout", "fiber": "0"}
    ]
    wire.now += SECOND
    assert wire.send("task.suspend", {**suspension("t", "p"), "waits": waits}).status == 200
    found = look(wire, "t")
    assert (found["status"], found["since"]) == ("suspended", T0 + SECOND)
    assert found["waits"] == [{**waits[0], "since": T0, "dueAt": FAR}]
    wire.now += SECOND
    wire.settle("p")
    woken = look(wire, "t")
    assert (woken["status"], woken["since"]) == ("pending", T0 + 2 * SECOND)
    assert "waits" not in woken


def test_a_wait_tells_since_when_and_until_when_by_the_promise_and_not_by_the_worker(wire: Wire) -> None:
    wire.create("p", timeout_at=FAR)
    wire.create("for-ever", timeout_at=9_007_199_254_740_991)
    wire.now += SECOND
    wire.acquired("t")
    told = [{"id": each, "since": 1, "dueAt": 2} for each in ("p", "for-ever", "unknown")]
    assert wire.send("task.suspend", {**suspension("t", "p"), "waits": told}).status == 200
    assert look(wire, "t")["waits"] == [
        {"id": "p", "since": T0, "dueAt": FAR},
        {"id": "for-ever", "since": T0},
        {"id": "unknown"},
    ]


@pytest.mark.parametrize("end", ["halt", "settle"])
def test_nothing_is_said_of_waits_that_are_over(wire: Wire, end: str) -> None:
    wire.create("p", timeout_at=FAR)
    wire.acquired("t")
    wire.send("task.suspend", {**suspension("t", "p"), "waits": [{"id": "p"}]})
    wire.halt("t") if end == "halt" else wire.settle("t")
    assert "waits" not in look(wire, "t")


def test_a_suspension_that_does_not_happen_keeps_no_waits(wire: Wire) -> None:
    wire.create("p")
    wire.settle("p")
    wire.acquired("t")
    assert wire.send("task.suspend", {**suspension("t", "p"), "waits": [{"id": "p"}]}).status == 300
    assert look(wire, "t")["status"] == "running"


def test_a_running_one_tells_who_holds_it_and_how_often_it_was_taken(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t", retry={"delay": 5 * SECOND, "error": "no room"})
    resting = look(wire, "t")
    assert (resting["status"], resting["dueAt"], resting["error"]) == ("waiting", T0 + 5 * SECOND, "no room")
    assert resting["retries"] == 1
    wire.acquire("t", version=1)
    found = look(wire, "t")
    assert (found["worker"], found["attempts"], found["dueAt"]) == ("p", 2, T0 + MINUTE)
    assert found["group"] == "workers"


def test_a_halted_one_tells_why(wire: Wire) -> None:
    wire.acquired("t")
    wire.now += SECOND
    wire.halt("t", reason="other code", code="HF5101")
    found = look(wire, "t")
    assert (found["error"], found["code"], found["since"]) == ("other code", "HF5101", T0 + SECOND)


def test_what_has_ended_tells_when(wire: Wire) -> None:
    wire.acquired("t")
    wire.now += SECOND
    wire.fulfill("t")
    found = look(wire, "t")
    assert (found["status"], found["since"], found["settledAt"]) == ("completed", T0 + SECOND, T0 + SECOND)


def test_a_caller_sees_what_its_prefix_covers(wire: Wire) -> None:
    begin(wire, "a", "a:1", "ab", "b", "a-2", **{WORKFLOW: "pay"})
    with wire.within("a"):
        assert pages(wire, limit=2) == [["a-2", "a:1"], ["a"]]
        assert ids(wire, name="pay", status=["pending"]) == ["a-2", "a:1", "a"]
        assert counts(wire) == {"pending": 3}


def test_within_an_array_a_search_sees_what_came_before(wire: Wire) -> None:
    create = {"id": "t", "timeoutAt": FAR, "tags": {"resonate:target": WORKERS}}
    _, found = wire.batch(("promise.create", create), ("execution.search", {}))
    assert [each["id"] for each in found.data["executions"]] == ["t"]


@pytest.mark.parametrize(
    "search",
    [
        {"status": []},
        {"status": ["done"]},
        {"status": "running"},
        {"kind": "workflow"},
        {"name": ""},
        {"code": ""},
        {"queue": ""},
        {"since": -1},
        {"until": 2**53},
        {"tags": {"k": 1}},
        {"cursor": "t"},
        {"cursor": "12/"},
        {"limit": 0},
    ],
    ids=str,
)
def test_a_search_that_makes_no_sense_is_refused(wire: Wire, search: Json) -> None:
    assert wire.send("execution.search", search).status == 400


@pytest.mark.parametrize(
    "waits",
    [[{"id": "p"}] * 17, [{"id": ""}], [{"id": "p", "line": -1}], [{"id": "p", "what": "x" * 1_025}]],
    ids=["too many", "no id", "no line", "too long"],
)
def test_waits_are_bounded(wire: Wire, waits: list[Json]) -> None:
    wire.create("p", timeout_at=FAR)
    wire.acquired("t")
    assert wire.send("task.suspend", {**suspension("t", "p"), "waits": waits}).status == 400
    assert wire.send("task.suspend", {**suspension("t", "p"), "waits": []}).status == 200


def test_what_an_execution_calls_is_an_execution_too(wire: Wire) -> None:
    wire.acquired("t")
    call = {"id": "t:1", "timeoutAt": FAR, "tags": {"resonate:target": WORKERS, WORKFLOW: "pay"}}
    wire.fence("t", "promise.create", call)
    assert ids(wire, name="pay") == ["t:1"]
