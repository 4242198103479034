"""execution.tag: whoever holds an execution changes its tags, by which people find it."""

from __future__ import annotations

import pytest

from tests.conformance.test_executions import look
from tests.conformance.wire import FAR, MINUTE, WORKERS, Answer, Json, Wire


def tag(wire: Wire, tags: Json, version: int = 1) -> Answer:
    reply = wire.fence("wf", "execution.tag", {"id": "wf", "tags": tags}, version)
    return reply if reply.status != 200 else Answer("execution.tag", reply.data["action"]["head"], reply.data)


def held(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"colour": "red", "stage": "new"}, timeout_at=FAR)
    wire.acquire("wf")


def found(wire: Wire, tags: Json) -> list[str]:
    reply = wire.send("execution.search", {"tags": tags})
    return [each["id"] for each in reply.data["executions"]]


def test_tags_are_set_and_removed_and_found_by(wire: Wire) -> None:
    held(wire)
    assert tag(wire, {"stage": "packed", "colour": None}).status == 200
    assert look(wire, "wf")["tags"] == {"resonate:target": WORKERS, "stage": "packed"}
    assert found(wire, {"stage": "packed"}) == ["wf"]
    assert found(wire, {"stage": "new"}) == []
    assert found(wire, {"colour": "red"}) == []


def test_they_stay_when_it_has_ended(wire: Wire) -> None:
    held(wire)
    tag(wire, {"stage": "sent"})
    wire.fulfill("wf")
    assert found(wire, {"stage": "sent"}) == ["wf"]


def test_whoever_has_lost_it_changes_nothing(wire: Wire) -> None:
    held(wire)
    wire.tick(wire.now + 2 * MINUTE)
    assert tag(wire, {"stage": "packed"}).status == 409
    assert look(wire, "wf")["tags"]["stage"] == "new"


def test_they_outlive_claims_and_retries(wire: Wire) -> None:
    held(wire)
    tag(wire, {"stage": "packed"})
    wire.fulfill("wf", state="rejected")
    wire.send("execution.retry", {"id": "wf"})
    assert look(wire, "wf")["tags"]["stage"] == "packed"


@pytest.mark.parametrize(
    "tags", [{"resonate:target": "x"}, {"holdfast:queue": None}, {"stage": 5}, {"a": "x" * 5_000}]
)
def test_what_the_protocol_reads_is_not_changed(wire: Wire, tags: Json) -> None:
    held(wire)
    assert tag(wire, tags).status == 400


def test_there_are_so_many_tags_and_no_more(wire: Wire) -> None:
    held(wire)
    assert tag(wire, {f"t{number}": "x" for number in range(61)}).status == 200
    assert tag(wire, {"one more": "x"}).status == 400
    assert "one more" not in look(wire, "wf")["tags"]


def test_it_is_no_request_by_itself(wire: Wire) -> None:
    held(wire)
    assert wire.send("execution.tag", {"id": "wf", "tags": {"stage": "x"}}).status == 400


def test_an_execution_changes_no_tags_but_its_own(wire: Wire) -> None:
    held(wire)
    wire.create("other", target=WORKERS)
    assert wire.fence("wf", "execution.tag", {"id": "other", "tags": {"stage": "x"}}).status == 400
