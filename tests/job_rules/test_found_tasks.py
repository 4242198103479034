"""Background tasks are found beside executions, newest first, in the same words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.test_executions import counts, ids, look
from tests.conformance.wire import SECOND, T0
from tests.job_rules.test_search import fill
from tests.job_rules.wire import JobWire, job_creation

STATUSES = ("pending", "claimed", "running", "completed", "failed", "cancelled", "expired", "halted")


@pytest.mark.parametrize("status", STATUSES)
def test_a_background_task_is_found_by_its_status(wire: JobWire, status: str) -> None:
    wire.create("workflow", target="poll://any@queue.mail")
    fill(wire)
    wire.tick()
    assert ids(wire, status=[status], kind="task") == [status]
    assert look(wire, status)["status"] == status
    assert counts(wire, kind="task")[status] == 1
    assert ids(wire, kind="execution") == ["workflow"]


def test_a_delayed_one_waits(wire: JobWire) -> None:
    wire.enqueue("j", delay=T0 + SECOND)
    found = look(wire, "j")
    assert (found["status"], found["since"], found["dueAt"]) == ("waiting", T0, T0 + SECOND)
    wire.now = T0 + SECOND
    wire.tick()
    assert look(wire, "j")["status"] == "pending"


def test_failures_are_found_by_code_queue_and_name(wire: JobWire) -> None:
    def send(name: str, task: str, **more: Any) -> None:
        creation = job_creation(name, **more)
        creation["tags"]["holdfast:task"] = task
        assert wire.send("promise.create", creation).status == 200

    send("a", "send_mail")
    send("b", "send_mail", queue="slow")
    send("c", "resize", queue="slow")
    wire.take_all(start=True, count=9)
    wire.take_all(start=True, count=9, queue="slow")
    for name in "abc":
        wire.fail(name, code="BROKEN" if name != "b" else "ODD")
    assert ids(wire, code="BROKEN") == ["c", "a"]
    assert ids(wire, code="BROKEN", queue="slow") == ["c"]
    assert ids(wire, name="send_mail") == ["b", "a"]
    assert ids(wire, code="BROKEN", name="send_mail") == ["a"]
    assert look(wire, "b")["name"] == "send_mail"


def test_a_running_one_tells_its_worker_queue_and_attempts(wire: JobWire) -> None:
    wire.running("j")
    found = look(wire, "j")
    assert (found["worker"], found["queue"], found["attempts"]) == ("w", "mail", 1)
    assert found["since"] == T0
    wire.fulfill("j", 1)
    assert look(wire, "j")["worker"] == "w", "who did it"


def test_a_deadline_that_has_passed_makes_it_expired(wire: JobWire) -> None:
    wire.enqueue("j", goodUntil=T0 + SECOND)
    wire.now = T0 + SECOND
    assert look(wire, "j")["status"] == "expired"
    assert ids(wire, status=["pending"]) == []
    wire.tick()
    assert ids(wire, status=["expired"]) == ["j"]


def test_an_execution_in_a_queue_tells_which(wire: JobWire) -> None:
    wire.create("e", target="poll://any@queue.mail", tags={"holdfast:queue": "{}"})
    assert (look(wire, "e")["kind"], look(wire, "e")["queue"]) == ("execution", "mail")
    assert ids(wire, queue="mail", kind="execution") == ["e"]
