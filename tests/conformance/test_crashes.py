"""An execution that does not get on rests longer and longer, and is then halted with the reason."""

from __future__ import annotations

import pytest

from tests.conformance.test_executions import look
from tests.conformance.wire import FAR, MINUTE, SECOND, WORKERS, Wire

WORKFLOW = {"holdfast:workflow": "pay"}


def die(wire: Wire, name: str = "wf") -> None:
    """Whoever may take it does, and falls silent."""
    version = wire.task(name)["version"]
    assert wire.acquire(name, version=version, ttl=SECOND).status == 200
    wire.tick(wire.now + SECOND)


def rest(wire: Wire, name: str = "wf") -> int:
    """How long it rests from now on; then that is over."""
    view = look(wire, name)
    if view["status"] == "pending":
        return 0
    rested: int = view["dueAt"] - wire.now
    wire.tick(view["dueAt"])
    return rested


def test_it_rests_longer_after_each_crash_and_is_halted_after_the_tenth(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags=WORKFLOW, timeout_at=FAR)
    rests: list[int] = []
    for count in range(1, 10):
        die(wire)
        assert look(wire, "wf")["crashes"] == count
        rests.append(rest(wire))
    assert rests == [0, *(SECOND * 2**power for power in range(8))]
    die(wire)
    view = look(wire, "wf")
    assert (view["status"], view["code"]) == ("halted", "HF1408")
    assert view["error"] == "its worker died 10 times in a row without progress, the last one was p"


def test_its_promise_says_how_many_are_too_many(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "2"})
    die(wire)
    assert look(wire, "wf")["status"] == "pending"
    die(wire)
    assert look(wire, "wf")["status"] == "halted"


def test_one_that_is_continued_counts_anew(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "2"})
    die(wire)
    die(wire)
    assert wire.resume("wf").status == 200
    assert "crashes" not in look(wire, "wf")
    die(wire)
    assert look(wire, "wf")["status"] == "pending"


def test_what_is_no_execution_of_a_workflow_is_offered_for_ever(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, timeout_at=FAR)
    for _ in range(20):
        die(wire)
        assert look(wire, "wf")["status"] == "pending"


@pytest.mark.parametrize("kind", ["create", "settle", "lock", "event", "restart", "suspend"])
def test_progress_starts_the_count_anew(wire: Wire, kind: str) -> None:
    wire.create("p", timeout_at=FAR)
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "3"}, timeout_at=FAR)
    die(wire)
    die(wire)
    rest(wire)
    version = wire.task("wf")["version"]
    wire.acquire("wf", version=version)
    if kind == "create":
        wire.fence("wf", "promise.create", {"id": "wf:1", "timeoutAt": FAR}, version + 1)
    elif kind == "settle":
        wire.fence("wf", "promise.settle", {"id": "p", "state": "resolved"}, version + 1)
    elif kind == "lock":
        asked = {"id": "wf:1", "name": "printer", "timeoutAt": FAR}
        wire.fence("wf", "lock.acquire", asked, version + 1)
    elif kind == "event":
        wire.fence("wf", "event.await", {"id": "wf:1", "name": "paid", "timeoutAt": FAR}, version + 1)
    elif kind == "restart":
        assert wire.send("task.restart", {"id": "wf", "version": version + 1, "read": 0}).status == 200
    else:
        wire.suspend("wf", "p", version=version + 1)
        wire.settle("p")
    assert "crashes" not in look(wire, "wf")


def test_a_record_that_is_there_already_is_no_progress(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "3"}, timeout_at=FAR)
    for version in (1, 2):
        wire.acquire("wf", version=version - 1, ttl=SECOND)
        wire.fence("wf", "promise.create", {"id": "wf:1", "timeoutAt": FAR}, version)
        wire.tick(wire.now + SECOND)
    assert look(wire, "wf")["crashes"] == 2


def test_to_steer_others_and_to_be_refused_is_no_progress(wire: Wire) -> None:
    wire.create("other", target=WORKERS, timeout_at=FAR)
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "9"}, timeout_at=FAR)
    die(wire)
    version = wire.task("wf")["version"]
    wire.acquire("wf", version=version)
    for kind in ("execution.cancel", "execution.retry", "task.halt", "task.continue"):
        assert wire.fence("wf", kind, {"id": "other"}, version + 1).status == 200
    assert wire.fence("wf", "promise.settle", {"id": "ghost", "state": "resolved"}, version + 1).status == 200
    assert look(wire, "wf")["crashes"] == 1


def test_code_that_cannot_be_run_counts_and_its_error_is_the_reason(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "2"}, timeout_at=FAR)
    for version in (1, 2):
        wire.acquire("wf", version=version - 1)
        retry = {"delay": SECOND, "error": "no module named shop"}
        assert wire.release("wf", version, retry=retry).status == 200
        if version == 1:
            assert rest(wire) == SECOND
    view = look(wire, "wf")
    assert (view["status"], view["error"]) == (
        "halted",
        "it could not be run 2 times in a row: no module named shop",
    )


def test_a_release_without_an_error_counts_for_nothing(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "1"}, timeout_at=FAR)
    wire.acquire("wf")
    wire.release("wf", 1, retry={"delay": MINUTE})
    assert look(wire, "wf")["status"] == "waiting"


@pytest.mark.parametrize("wrong", ["0", "-1", "often", "1.5", ""])
def test_a_number_that_is_none_is_refused(wire: Wire, wrong: str) -> None:
    assert wire.create("wf", target=WORKERS, tags={"holdfast:crashes": wrong}).status == 400


def test_a_lapsed_lease_and_who_took_over_are_remembered(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags=WORKFLOW, timeout_at=FAR)
    wire.acquire("wf", version=0, pid="ann", ttl=SECOND)
    began = wire.now
    assert "lostClaims" not in look(wire, "wf")
    wire.tick(wire.now + MINUTE)  # the node looks late: the lease ended when it ended
    lost = {"worker": "ann", "since": began, "until": began + SECOND, "end": "lapsed"}
    assert look(wire, "wf")["lostClaims"] == [lost]
    wire.acquire("wf", version=1, pid="bob", ttl=MINUTE)
    taken = lost | {"takenBy": "bob", "takenAt": wire.now}
    assert look(wire, "wf")["lostClaims"] == [taken]
    wire.tick(wire.now + SECOND)
    wire.create("other", timeout_at=FAR)
    assert wire.suspend("wf", "other", version=2).status == 200
    assert look(wire, "wf")["lostClaims"] == [taken]
    wire.settle("other", "resolved")
    wire.acquire("wf", version=2, pid="cay", ttl=MINUTE)
    assert look(wire, "wf")["lostClaims"] == [taken]


def test_a_claim_that_is_given_back_with_an_error_is_remembered(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags=WORKFLOW, timeout_at=FAR)
    wire.acquire("wf", version=0, pid="ann", ttl=MINUTE)
    began = wire.now
    wire.tick(wire.now + SECOND)
    assert wire.release("wf", 1, retry={"delay": 0, "error": "no such workflow"}).status == 200
    [lost] = look(wire, "wf")["lostClaims"]
    assert lost == {"worker": "ann", "since": began, "until": wire.now, "end": "given_back"}


def test_the_last_twenty_lost_claims_are_kept(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags={"holdfast:crashes": "100"}, timeout_at=FAR)
    for _ in range(23):
        die(wire)
        rest(wire)
    lost = look(wire, "wf")["lostClaims"]
    assert len(lost) == 20
    assert [each["since"] for each in lost] == sorted(each["since"] for each in lost)
    assert "takenBy" not in lost[-1]
    assert all(each["takenBy"] == "p" for each in lost[:-1])


def test_claims_that_end_as_they_should_are_not_remembered(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags=WORKFLOW, timeout_at=FAR)
    wire.acquire("wf", version=0, ttl=MINUTE)
    assert wire.release("wf", 1).status == 200
    wire.tick(wire.now + MINUTE)
    wire.acquire("wf", version=1, ttl=MINUTE)
    assert "lostClaims" not in look(wire, "wf")
