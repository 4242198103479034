"""How far steps and background tasks have come: told by a heartbeat, and given to the next attempt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.test_executions import look
from tests.conformance.wire import FAR, MINUTE, SECOND, WORKERS, Json, Wire


def beat(wire: Wire, *updates: Json, name: str = "wf", version: int = 1, pid: str = "p") -> Any:
    tasks = [{"id": name, "version": version}]
    progress = [{"id": name, **update} for update in updates]
    return wire.send("task.heartbeat", {"pid": pid, "tasks": tasks, "progress": progress})


def held(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, timeout_at=FAR)
    wire.acquire("wf")


def test_a_heartbeat_tells_it_and_everybody_who_looks_sees_it(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.4, "data": '{"rows":17}'})
    told = [{"step": "wf:1", "at": wire.now, "fraction": 0.4, "data": '{"rows":17}'}]
    assert wire.task("wf")["progress"] == told
    assert look(wire, "wf")["progress"] == told


def test_the_latest_report_of_each_step_counts(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.1}, {"step": "wf:2", "fraction": 0.2})
    beat(wire, {"step": "wf:1", "fraction": 0.3})
    told = wire.task("wf")["progress"]
    assert [(each["step"], each["fraction"]) for each in told] == [("wf:2", 0.2), ("wf:1", 0.3)]


def test_it_outlives_the_claim(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.4})
    wire.tick(wire.now + 2 * MINUTE)
    reply = wire.acquire("wf", version=1)
    assert reply.data["task"]["progress"][0]["fraction"] == 0.4


def test_a_step_that_is_recorded_has_none_any_more(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.4}, {"step": "wf:2", "fraction": 0.5})
    creation = {"id": "wf:1", "timeoutAt": FAR}
    wire.fence("wf", "promise.create", creation)
    assert len(wire.task("wf")["progress"]) == 2, "it is only announced"
    wire.fence("wf", "promise.settle", {"id": "wf:1", "state": "resolved"})
    assert [each["step"] for each in wire.task("wf")["progress"]] == ["wf:2"]
    wire.fence("wf", "promise.create", {"id": "wf:2", "timeoutAt": FAR, "settle": {"state": "rejected"}})
    assert "progress" not in wire.task("wf")


def test_whoever_does_not_hold_it_tells_nothing(wire: Wire) -> None:
    held(wire)
    assert beat(wire, {"fraction": 0.4}, version=2).data["lost"]
    assert beat(wire, {"fraction": 0.4}, pid="other").data["lost"]
    assert "progress" not in wire.task("wf")


def test_one_that_has_ended_or_begins_again_has_none(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.4})
    wire.fulfill("wf", state="rejected")
    assert "progress" not in look(wire, "wf")
    wire.send("execution.retry", {"id": "wf"})
    assert "progress" not in look(wire, "wf")


def test_of_many_steps_the_latest_are_kept(wire: Wire) -> None:
    held(wire)
    for number in range(20):
        beat(wire, {"step": f"wf:{number}", "fraction": 0.4})
    assert [each["step"] for each in wire.task("wf")["progress"]] == [f"wf:{n}" for n in range(4, 20)]


def test_another_generation_has_none(wire: Wire) -> None:
    held(wire)
    beat(wire, {"step": "wf:1", "fraction": 0.4})
    wire.send(
        "task.restart", {"id": "wf", "version": 1, "generation": 0, "param": {}, "read": 0, "forget": []}
    )
    assert "progress" not in wire.task("wf")


def test_a_background_task_keeps_its_latest_report_unless_it_completes(wire: Wire) -> None:
    job = {"resonate:target": "poll://any@queue.q", "holdfast:job": '{"retry":{"retries":1,"delays":[1000]}}'}
    for name in ("good", "bad"):
        wire.send("promise.create", {"id": name, "timeoutAt": FAR, "tags": job})
        wire.acquire(name)
        wire.start(name)
        beat(wire, {"fraction": 0.4}, name=name)
    wire.fulfill("good")
    wire.send("task.fail", {"id": "bad", "version": 1, "code": "BROKEN"})
    assert "progress" not in wire.task("good")
    assert wire.task("bad")["progress"][0]["fraction"] == 0.4
    wire.tick(wire.now + SECOND)
    wire.acquire("bad", version=1)
    wire.start("bad", version=2)
    wire.send("task.fail", {"id": "bad", "version": 2, "code": "BROKEN"})
    assert wire.task("bad")["progress"][0]["fraction"] == 0.4, "how far it came"


@pytest.mark.parametrize(
    "update",
    [
        {"fraction": 1.5},
        {"fraction": -0.1},
        {"fraction": "half"},
        {"data": "[1]"},
        {"data": "no JSON"},
        {"data": '{"x":"' + "x" * 1_024 + '"}'},
        {"step": 5},
    ],
)
def test_what_is_no_progress_is_refused(wire: Wire, update: Json) -> None:
    held(wire)
    assert beat(wire, update).status == 400
