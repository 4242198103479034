"""The life of a background task, row by row: from a state, by an event, to a state, and what is written.

Every row is tried on every store. Instants are the row's own; the instant of a deadline counts as passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.wire import FAR, MINUTE, SECOND, T0, Json
from tests.job_rules.wire import JobWire, job_creation

DEADLINE = T0 + 10 * SECOND
RETRY = {"delays": [SECOND, 2 * SECOND]}


def headers(wire: JobWire, name: str = "j") -> Json:
    return dict(wire.get(name).promise["value"].get("headers", {}))


def attempt(number: int, *, at: int, code: str | None = None, **more: Any) -> Json:
    """A row as it is shown: what is left out of the record is left out here."""
    row: Json = {"number": number, "version": number, "outcome": "FAILED", "startedAt": T0, "finishedAt": at}
    row |= {"pid": "w"} | ({} if code is None else {"code": code})
    return row | more


def test_row_1_a_sent_task_is_pending_with_the_callers_and_the_servers_instant(wire: JobWire) -> None:
    wire.enqueue(sentAt=T0 - 500)
    job = wire.job()
    assert (job["status"], job["sentAt"], job["enqueuedAt"]) == ("PENDING", T0 - 500, T0)
    assert "attempts" not in job


def test_row_2_a_scheduled_task_is_pending_and_eligible_at_its_delay(wire: JobWire) -> None:
    wire.enqueue(delay=T0 + 5 * SECOND)
    assert (wire.status(), wire.job()["enqueuedAt"]) == ("PENDING", T0 + 5 * SECOND)
    wire.tick(T0 + 5 * SECOND - 1)
    assert wire.take() == []
    wire.tick(T0 + 5 * SECOND)
    assert wire.offers("j") == [0]
    assert wire.take() == ["j"]


def test_row_3_a_claim_names_the_worker_and_the_instant(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE - 1
    assert wire.take(ttl=5) == ["j"]
    job = wire.job()
    assert (job["status"], job["claimedAt"], job["claimedBy"]) == ("CLAIMED", DEADLINE - 1, "w")
    assert job["acquiredAt"] == DEADLINE - 1
    assert "startedAt" not in job


def test_row_3_nothing_is_claimed_at_its_deadline(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    assert wire.take() == []
    assert wire.stored("promises", "j")["state"] == "rejected", "the claim that met it wrote it down"
    assert wire.status() == "EXPIRED"


def test_row_3_nothing_is_claimed_before_its_retry(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.fail()
    wire.tick(T0 + SECOND - 1)
    assert wire.take() == []
    wire.tick(T0 + SECOND)
    assert wire.take() == ["j"]


def test_row_4_a_lapsed_claim_is_claimed_by_anyone_under_a_new_version(wire: JobWire) -> None:
    wire.claimed()
    wire.tick(T0 + MINUTE)
    assert wire.take(pid="other") == ["j"]
    assert (wire.task("j")["version"], wire.job()["claimedBy"]) == (2, "other")
    assert wire.start("j", 1).status == 409


def test_row_5_the_claimers_heartbeat_extends_the_lease(wire: JobWire) -> None:
    wire.claimed()
    wire.now = T0 + MINUTE - 1
    assert wire.heartbeat(("j", 1), pid="w").data == {}
    wire.tick(T0 + MINUTE)
    assert wire.status() == "CLAIMED"
    wire.tick(T0 + 2 * MINUTE - 1)
    assert wire.status() == "PENDING"


def test_row_5_no_heartbeat_extends_a_claim_past_the_deadline(wire: JobWire) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.now = DEADLINE - 1
    assert wire.heartbeat(("j", 1), pid="w").data == {}
    wire.now = DEADLINE
    assert wire.heartbeat(("j", 1), pid="w").data == {"lost": [{"id": "j", "version": 1}]}
    wire.tick()
    assert wire.stored("promises", "j")["state"] == "rejected"


@pytest.mark.parametrize("late", [0, 1, 5_000])
def test_row_6_the_sweep_expires_what_waits_past_its_deadline(wire: JobWire, late: int) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.tick(DEADLINE - 1)
    assert wire.status() == "PENDING"
    wire.tick(DEADLINE + late)
    job = wire.job()
    assert (job["status"], job["outcome"], job["code"]) == ("EXPIRED", "EXPIRED", "TASK_EXPIRED")
    assert job["finishedAt"] == DEADLINE
    assert "attempts" not in job
    promise = wire.get("j").promise
    assert (promise["state"], promise["settledAt"]) == ("rejected", DEADLINE)
    assert headers(wire) == {"holdfast-code": "TASK_EXPIRED"}


def test_row_6_the_sweep_expires_what_rests_before_a_retry(wire: JobWire) -> None:
    wire.running(goodUntil=DEADLINE, retry={"delays": [9 * SECOND]})
    assert wire.fail().task["job"]["nextRetryAt"] == DEADLINE - SECOND
    wire.tick(DEADLINE - 1)
    assert wire.status() == "PENDING"
    wire.tick(DEADLINE)
    job = wire.job()
    assert (job["status"], len(job["attempts"]), job["claimedBy"]) == ("EXPIRED", 1, "w")


@pytest.mark.parametrize("swept", [True, False])
def test_row_7_and_9_at_the_deadline_it_is_too_late_to_start(wire: JobWire, swept: bool) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.now = DEADLINE
    if swept:
        wire.tick(DEADLINE)
    assert wire.start("j").status == 409
    job = wire.job()
    assert (job["status"], job["claimedAt"], job["claimedBy"]) == ("EXPIRED", T0, "w")
    assert headers(wire) == {"holdfast-code": "TASK_EXPIRED", "holdfast-worker": "w"}
    assert "attempts" not in job
    wire.tick(DEADLINE)
    assert wire.stored("promises", "j")["settledAt"] == DEADLINE


def test_row_8_a_worker_that_starts_before_the_deadline_runs(wire: JobWire) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.now = DEADLINE - 1
    answer = wire.start("j")
    assert answer.task["startedAt"] == DEADLINE - 1
    job = wire.job()
    assert (job["status"], job["claimedAt"], job["claimedBy"]) == ("RUNNING", T0, "w")
    assert wire.due("j") == (1, DEADLINE - 1 + MINUTE), "the lease begins anew"


@pytest.mark.parametrize("halted", [True, False])
def test_row_8_what_is_halted_cannot_start(wire: JobWire, halted: bool) -> None:
    wire.claimed()
    if halted:
        wire.halt("j")
    assert wire.start("j").status == (409 if halted else 200)


def test_row_8_starting_twice_is_starting_once(wire: JobWire) -> None:
    wire.claimed()
    wire.start("j")
    wire.now += 5
    assert wire.start("j").task["startedAt"] == T0


def test_row_10_another_owner_and_a_lapsed_lease_cannot_start_and_change_nothing(wire: JobWire) -> None:
    wire.claimed()
    before = wire.snap()
    assert wire.start("j", 2).status == 409
    wire.now = T0 + MINUTE
    assert wire.start("j", 1).status == 409, "the lease ends at this instant"
    assert wire.snap() == before
    wire.now = T0 + MINUTE - 1
    assert wire.start("j", 1).status == 200


def test_row_11_a_halted_claim_goes_back_and_is_continued_unclaimed(wire: JobWire) -> None:
    wire.claimed()
    wire.halt("j")
    job = wire.job()
    assert (job["status"], "claimedBy" in job) == ("PENDING", False)
    assert wire.take() == []
    wire.resume("j")
    assert wire.take(start=True) == ["j"]


def test_row_11_an_expired_task_is_not_put_back_by_a_pause(wire: JobWire) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.halt("j")
    wire.now = DEADLINE
    assert wire.resume("j").status == 409
    assert wire.status() == "EXPIRED"
    wire.tick()
    assert wire.stored("promises", "j")["state"] == "rejected"


@pytest.mark.parametrize("claimed", [True, False])
def test_row_12_a_cancelled_task_has_its_code_and_no_attempt(wire: JobWire, claimed: bool) -> None:
    wire.enqueue()
    if claimed:
        wire.take()
    answer = wire.cancel()
    assert (answer.status, answer.task["job"]["status"]) == (200, "CANCELLED")
    job = wire.job()
    assert (job["code"], job["finishedAt"], "attempts" in job) == ("TASK_CANCELLED", T0, False)
    assert wire.get("j").promise["state"] == "rejected_canceled"
    assert headers(wire)["holdfast-code"] == "TASK_CANCELLED"


def test_row_13_a_claim_whose_lease_lapses_goes_back_uncounted(wire: JobWire) -> None:
    wire.claimed(retry=RETRY)
    wire.tick(T0 + MINUTE - 1)
    assert wire.status() == "CLAIMED"
    wire.tick(T0 + MINUTE)
    job = wire.job()
    assert (job["status"], job["enqueuedAt"], job.get("retries", 0)) == ("PENDING", T0, 0)
    assert not {"claimedAt", "claimedBy", "attempts"} & job.keys()
    assert wire.offers("j") == [1]


def test_row_14_a_worker_gives_back_what_it_cannot_run(wire: JobWire) -> None:
    wire.claimed()
    assert wire.release("j").status == 200
    assert (wire.status(), "claimedBy" in wire.job()) == ("PENDING", False)
    assert wire.take(pid="other") == ["j"]


def test_row_15_a_result_completes_the_task_and_its_attempt(wire: JobWire) -> None:
    wire.running()
    wire.now += 7
    assert wire.fulfill("j", value={"data": "b2s="}).status == 200
    job = wire.job()
    assert (job["status"], job["finishedAt"], "code" in job) == ("COMPLETED", T0 + 7, False)
    assert job["attempts"] == [attempt(1, at=T0 + 7, outcome="COMPLETED")]
    assert (job["claimedBy"], job["startedAt"]) == ("w", T0)
    assert wire.get("j").promise["value"] == {"data": "b2s="}


def test_row_16_a_failure_with_a_retry_left_is_pending_again(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.now += 7
    answer = wire.fail()
    job = answer.task["job"]
    assert (job["status"], job["retries"]) == ("PENDING", 1)
    assert job["nextRetryAt"] == job["enqueuedAt"] == T0 + 7 + SECOND
    assert (job["claimedBy"], job["claimedAt"], job["startedAt"]) == ("w", T0, T0)
    assert job["attempts"] == [attempt(1, at=T0 + 7, code="BROKEN", willRetry=True)]
    assert "code" not in job
    assert wire.get("j").promise["state"] == "pending"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, "BROKEN"),
        ({"retry": {"delays": [5], "codes": ["OTHER"]}}, "BROKEN"),
        ({"retry": {"delays": [5], "codes": []}}, "BROKEN"),
        ({"retry": {"delays": [5], "retries": 0}}, "BROKEN"),
    ],
    ids=["no rule", "code not listed", "no code listed", "no retries"],
)
def test_row_17_a_failure_without_a_retry_is_final(wire: JobWire, spec: Json, code: str) -> None:
    wire.running(**spec)
    wire.now += 7
    answer = wire.fail(code=code, value={"data": "ZXJy"})
    assert answer.task["state"] == "fulfilled"
    job = wire.job()
    assert (job["status"], job["code"], job["finishedAt"]) == ("FAILED", "BROKEN", T0 + 7)
    assert job["attempts"] == [attempt(1, at=T0 + 7, code="BROKEN")]
    assert wire.get("j").promise | {"tags": {}} == {
        "id": "j", "state": "rejected", "param": {}, "tags": {},
        "value": {"headers": {"holdfast-code": "BROKEN"}, "data": "ZXJy"},
        "timeoutAt": FAR, "createdAt": T0, "settledAt": T0 + 7,
    }  # fmt: skip


def test_row_17_retries_are_exhausted_after_the_last_one(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    for version, delay in ((1, SECOND), (2, 2 * SECOND)):
        wire.fail(version=version)
        wire.tick(wire.now + delay)
        assert wire.take(start=True) == ["j"]
    wire.fail(version=3)
    job = wire.job()
    assert (job["status"], job["retries"]) == ("FAILED", 2)
    assert [(row["number"], row.get("willRetry", False)) for row in job["attempts"]] == [
        (1, True),
        (2, True),
        (3, False),
    ]


def test_row_16_what_was_told_of_the_latest_ten_failures_is_kept(wire: JobWire) -> None:
    wire.enqueue("j", retry={"delays": [1], "retries": 13})
    for number in range(1, 14):
        assert wire.take(start=True) == ["j"]
        wire.fail(version=number, error=f"e{number}", value={"data": "bG9uZw=="})
        wire.tick(wire.now + 1)
    rows = wire.job()["attempts"]
    assert [row.get("error") for row in rows] == [None] * 3 + [f"e{number}" for number in range(4, 14)]
    assert wire.take(start=True) == ["j"]
    wire.fail(version=14, error="last", value={"data": "bGFzdA=="})
    assert "error" not in wire.job()["attempts"][-1], "it is what the promise says"
    assert wire.get("j").promise["value"]["data"] == "bGFzdA=="


def test_row_16_what_is_told_of_a_failure_has_a_size(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    assert wire.fail(error="x" * 4_097).status == 400
    assert wire.fail(error="x" * 4_096).status == 200


def test_row_17_what_is_over_waits_for_no_retry(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.fail()
    assert "nextRetryAt" in wire.job()
    wire.cancel("j")
    assert "nextRetryAt" not in wire.job()
    assert wire.job()["finishedAt"] == T0


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        ({}, {"holdfast-code": "BROKEN"}),
        ({"headers": {"a": "b"}}, {"a": "b", "holdfast-code": "BROKEN"}),
        ({"headers": {"holdfast-code": "MINE"}}, {"holdfast-code": "MINE"}),
    ],
)
def test_row_17_the_value_of_a_failure_says_its_code(wire: JobWire, value: Json, headers: Json) -> None:
    wire.running()
    wire.fail(value=value)
    assert wire.get("j").promise["value"]["headers"] == headers


@pytest.mark.parametrize(("lands", "status"), [(-1, "PENDING"), (0, "FAILED"), (1, "FAILED")])
def test_row_18_a_retry_must_begin_strictly_before_the_deadline(
    wire: JobWire, lands: int, status: str
) -> None:
    wire.running(goodUntil=DEADLINE, retry={"delays": [10 * SECOND + lands]})
    wire.fail()
    job = wire.job()
    assert (job["status"], job.get("retries", 0)) == (status, 1 if status == "PENDING" else 0)
    assert status == "PENDING" or job["code"] == "BROKEN"


def test_row_18_a_failure_past_the_deadline_is_failed_and_not_expired(wire: JobWire) -> None:
    wire.running(goodUntil=DEADLINE, retry=RETRY)
    wire.now = DEADLINE + 5
    wire.fail()
    assert (wire.status(), wire.job()["code"]) == ("FAILED", "BROKEN")


@pytest.mark.parametrize(
    "codes", [{}, {"codes": ["WORKER_CRASHED"]}, {"codes": ["SMTP_DOWN"]}, {"codes": []}],
    ids=["no codes", "listed", "not listed", "no code listed"],
)  # fmt: skip
def test_row_19_a_crash_is_tried_again_whatever_codes_are_listed(wire: JobWire, codes: Json) -> None:
    wire.running(retry=RETRY | codes)
    wire.tick(T0 + MINUTE - 1)
    assert wire.status() == "RUNNING"
    wire.tick(T0 + MINUTE)
    job = wire.job()
    assert (job["status"], job["retries"]) == ("PENDING", 1)
    assert job["nextRetryAt"] == job["enqueuedAt"] == T0 + MINUTE + SECOND
    assert not {"claimedAt", "claimedBy"} & job.keys()
    assert job["startedAt"] == T0
    assert job["attempts"] == [attempt(1, at=T0 + MINUTE, code="WORKER_CRASHED", willRetry=True)]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"retry": RETRY | {"crashes": False}},
        {"retry": RETRY | {"crashes": False, "codes": ["WORKER_CRASHED"]}},
        {"retry": RETRY | {"retries": 0}},
    ],
    ids=["no rule", "crashes are not retried", "even if listed", "no retries"],
)
def test_row_20_a_crash_that_is_not_retried_fails_the_task(wire: JobWire, spec: Json) -> None:
    wire.running(**spec)
    wire.tick(T0 + MINUTE)
    job = wire.job()
    assert (job["status"], job["code"], job["claimedBy"]) == ("FAILED", "WORKER_CRASHED", "w")
    assert job["attempts"] == [attempt(1, at=T0 + MINUTE, code="WORKER_CRASHED")]
    assert headers(wire) == {"holdfast-code": "WORKER_CRASHED", "holdfast-worker": "w"}


def test_row_19_what_may_not_crash_again_is_retried_for_its_own_failures(wire: JobWire) -> None:
    wire.running(retry=RETRY | {"crashes": False})
    wire.fail()
    assert wire.status() == "PENDING"


def test_row_19_a_crash_that_the_worker_itself_reports_is_one_too(wire: JobWire) -> None:
    """A child process of the worker's died: the code is the same, and so is the rule."""
    wire.running(retry=RETRY | {"codes": ["SMTP_DOWN"]})
    wire.fail(code="WORKER_CRASHED")
    assert wire.status() == "PENDING"


@pytest.mark.parametrize(
    ("good_until", "status"), [(MINUTE + SECOND, "FAILED"), (MINUTE + SECOND + 1, "PENDING")]
)
def test_row_20_a_crash_whose_retry_would_come_too_late_fails_the_task(
    wire: JobWire, good_until: int, status: str
) -> None:
    wire.running(retry=RETRY, goodUntil=T0 + good_until)
    wire.tick(T0 + MINUTE)
    assert wire.status() == status


def test_row_21_a_deadline_that_passes_during_the_run_changes_nothing(wire: JobWire) -> None:
    wire.running(goodUntil=DEADLINE)
    wire.tick(DEADLINE + 1)
    assert wire.status() == "RUNNING"
    assert wire.heartbeat(("j", 1), pid="w").data == {}
    assert wire.fulfill("j").status == 200
    assert wire.status() == "COMPLETED"


def test_row_22_a_paused_queue_lets_what_runs_finish(wire: JobWire) -> None:
    wire.running()
    wire.pause()
    assert wire.fulfill("j").status == 200
    assert wire.status() == "COMPLETED"


@pytest.mark.parametrize("state", ["PENDING", "CLAIMED", "retry wait", "COMPLETED", "EXPIRED"])
def test_row_23_a_late_result_is_dropped(wire: JobWire, state: str) -> None:
    wire.running(retry=RETRY, goodUntil=DEADLINE)
    if state == "retry wait":
        wire.fail()
    elif state == "COMPLETED":
        wire.fulfill("j")
    elif state == "EXPIRED":
        wire.fail()
        wire.tick(DEADLINE)
    else:
        wire.release("j")
        if state == "CLAIMED":
            assert wire.take() == ["j"]
    before = wire.snap()
    for version in (0, 1):
        assert wire.fulfill("j", version, value={"data": "bGF0ZQ=="}).status == 409
        assert wire.fail("j", version).status == 409
    assert wire.snap() == before


def test_row_23_a_result_of_a_claim_that_never_started_is_refused(wire: JobWire) -> None:
    wire.claimed()
    before = wire.snap()
    assert wire.fulfill("j").status == 409
    assert wire.fail().status == 409
    assert wire.snap() == before


def test_row_23_a_zombie_cannot_finish_what_another_worker_runs_now(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + MINUTE + SECOND)
    assert wire.take(pid="other", start=True) == ["j"]
    assert wire.fulfill("j", 1).status == 409
    assert wire.fulfill("j", 2).status == 200
    assert [row["pid"] for row in wire.job()["attempts"]] == ["w", "other"]


def swept(wire: JobWire, now: int) -> bool:
    wire.tick(now)
    return True


ENDS: dict[str, Callable[[JobWire], object]] = {
    "COMPLETED": lambda wire: wire.fulfill("j"),
    "FAILED": lambda wire: wire.fail(),
    "CANCELLED": lambda wire: wire.cancel(force=True),
    "EXPIRED": lambda wire: (wire.release("j"), swept(wire, DEADLINE)),
}
EVENTS: dict[str, Callable[[JobWire], bool]] = {
    "claim": lambda wire: wire.take() == [],
    "acquire": lambda wire: wire.acquire("j", 1).status == 409,
    "start": lambda wire: wire.start("j").status == 409,
    "fulfill": lambda wire: wire.fulfill("j").status == 409,
    "fail": lambda wire: wire.fail().status == 409,
    "release": lambda wire: wire.release("j").status == 409,
    "halt": lambda wire: wire.halt("j").status == 409,
    "continue": lambda wire: wire.resume("j").status == 409,
    "heartbeat": lambda wire: "lost" in wire.heartbeat(("j", 1), pid="w").data,
    "settle": lambda wire: wire.settle("j", "rejected").status == 200,
    "create": lambda wire: wire.enqueue(goodUntil=DEADLINE).status == 200,
    "sweep": lambda wire: swept(wire, FAR + MINUTE),
    "fence": lambda wire: wire.fence("j", "promise.create", {"id": "x", "timeoutAt": FAR}).status == 409,
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("end", ENDS)
def test_row_24_nothing_changes_a_task_that_has_ended(wire: JobWire, end: str, event: str) -> None:
    wire.running(goodUntil=DEADLINE)
    ENDS[end](wire)
    before = wire.snap()
    assert before["tasks"][0]["job"]["status"] == end
    assert EVENTS[event](wire)
    assert wire.snap() == before


@pytest.mark.parametrize(
    ("end", "force", "status"), [("COMPLETED", True, 409), ("FAILED", False, 409), ("EXPIRED", True, 409),
                                 ("CANCELLED", False, 200), ("CANCELLED", True, 200)]
)  # fmt: skip
def test_row_24_only_what_is_cancelled_can_be_cancelled_again(
    wire: JobWire, end: str, force: bool, status: int
) -> None:
    wire.running(goodUntil=DEADLINE)
    ENDS[end](wire)
    before = wire.snap()
    assert wire.cancel(force=force).status == status
    assert wire.snap() == before


def test_a_task_that_runs_is_cancelled_only_with_force_and_leaves_an_attempt(wire: JobWire) -> None:
    wire.running()
    refused = wire.cancel()
    assert (refused.status, "HF1203" in refused.data, wire.status()) == (409, True, "RUNNING")
    wire.now += 3
    assert wire.cancel(force=True).task["job"]["status"] == "CANCELLED"
    assert wire.job()["attempts"] == [attempt(1, at=T0 + 3, code="TASK_CANCELLED")]
    assert wire.fulfill("j").status == 409


def test_whoever_holds_a_task_that_others_end_is_told(wire: JobWire) -> None:
    wire.running("a")
    wire.claimed("b", goodUntil=DEADLINE)
    wire.running("c")
    wire.running("d", timeout_at=DEADLINE)
    wire.cancel("a", force=True)
    wire.settle("c", "resolved")
    wire.tick(DEADLINE)
    told = [message["data"]["promise"]["id"] for message in wire.messages("poll://uni@queue.mail/w")]
    assert told == ["a", "b", "c", "d"]


def test_whoever_ends_its_own_task_is_not_told(wire: JobWire) -> None:
    wire.running("a")
    wire.running("b")
    wire.fulfill("a")
    wire.fail("b")
    assert wire.messages("poll://uni@queue.mail/w") == []


@pytest.mark.parametrize(("started", "outcome"), [(True, "FAILED"), (False, "EXPIRED")])
@pytest.mark.parametrize("swept", [True, False])
def test_the_promises_own_deadline_ends_the_task(
    wire: JobWire, started: bool, outcome: str, swept: bool
) -> None:
    wire.enqueue(timeout_at=DEADLINE)
    wire.take(start=started)
    wire.now = DEADLINE
    if swept:
        wire.tick()
    job = wire.job()
    assert (job["status"], job["code"], job["finishedAt"]) == (outcome, "TASK_TIMED_OUT", DEADLINE)
    assert len(job.get("attempts", [])) == started
    assert wire.get("j").promise["state"] == "rejected_timedout"


def test_a_retry_that_would_begin_at_the_promises_deadline_is_not_made(wire: JobWire) -> None:
    wire.running(timeout_at=T0 + SECOND, retry=RETRY)
    wire.fail()
    assert wire.status() == "FAILED"


@pytest.mark.parametrize("swept", [False, True])
def test_of_two_deadlines_the_first_decides_however_late_the_sweep(wire: JobWire, swept: bool) -> None:
    wire.enqueue("a", goodUntil=DEADLINE, timeout_at=DEADLINE + 1)
    wire.enqueue("b", goodUntil=DEADLINE, timeout_at=DEADLINE)
    wire.enqueue("c", goodUntil=DEADLINE + 1, timeout_at=DEADLINE)
    wire.now = DEADLINE + 100
    if swept:
        wire.tick()
    states = {name: wire.get(name).promise["state"] for name in "abc"}
    assert states == {"a": "rejected", "b": "rejected_timedout", "c": "rejected_timedout"}
    assert {wire.status(name) for name in "abc"} == {"EXPIRED"}


@pytest.mark.parametrize(
    ("state", "status"),
    [("resolved", "COMPLETED"), ("rejected", "FAILED"), ("rejected_canceled", "CANCELLED")],
)
@pytest.mark.parametrize("started", [True, False])
def test_anybody_may_settle_its_promise(wire: JobWire, state: str, status: str, started: bool) -> None:
    wire.enqueue()
    wire.take(start=started)
    assert wire.settle("j", state, value={"headers": {"holdfast-code": "MINE"}}).status == 200
    job = wire.job()
    assert (job["status"], len(job.get("attempts", []))) == (status, started)
    assert job.get("code") == (None if status == "COMPLETED" else "MINE")


def test_settling_what_has_expired_answers_with_the_expiry(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    promise = wire.settle("j", "resolved").promise
    assert (promise["state"], promise["settledAt"]) == ("rejected", DEADLINE)
    assert wire.stored("promises", "j")["state"] == "rejected"


def test_a_reader_sees_the_expiry_before_anybody_has_written_it(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    seen = wire.get("j").promise
    task = wire.task("j")
    found = wire.send("promise.search", {}).data["promises"]
    assert wire.stored("promises", "j")["state"] == "pending"
    wire.tick()
    assert wire.get("j").promise == seen == found[0]
    assert wire.task("j") == task


def test_a_failed_result_is_final_and_its_code_is_in_the_header(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.fulfill("j", state="rejected", value={"headers": {"holdfast-code": "INVALID"}, "data": "e30="})
    job = wire.job()
    assert (job["status"], job["code"], job["attempts"][0]["code"]) == ("FAILED", "INVALID", "INVALID")
    assert job.get("retries", 0) == 0


def test_a_run_that_is_given_back_past_its_deadline_expires_at_that_instant_and_shows_that_it_began(
    wire: JobWire,
) -> None:
    wire.running(goodUntil=DEADLINE)
    wire.now = DEADLINE + 50
    wire.release("j")
    job = wire.job()
    assert (job["status"], job["finishedAt"]) == ("EXPIRED", DEADLINE + 50)
    [attempt] = job["attempts"]
    assert (attempt["outcome"], attempt["code"]) == ("FAILED", "TASK_EXPIRED")
    assert wire.get("j").promise["settledAt"] == DEADLINE + 50
    assert job.get("retries", 0) == 0


def test_a_run_that_is_given_back_counts_nothing(wire: JobWire) -> None:
    wire.running(retry=RETRY)
    wire.release("j")
    job = wire.job()
    assert (job["status"], job.get("retries", 0)) == ("PENDING", 0)
    assert not {"attempts", "claimedBy", "startedAt"} & job.keys()


@pytest.mark.parametrize("past", [-1, 0, 1])
def test_a_task_born_past_its_deadline_is_born_expired(wire: JobWire, past: int) -> None:
    promise = wire.enqueue(goodUntil=T0 + past).promise
    assert promise["state"] == ("pending" if past > 0 else "rejected")
    assert wire.status() == ("PENDING" if past > 0 else "EXPIRED")
    assert past > 0 or promise["settledAt"] == T0
    assert wire.offers("j") == ([0] if past > 0 else [])


def test_a_workflow_is_woken_when_its_task_expires_or_fails(wire: JobWire) -> None:
    for name in ("a", "b"):
        wire.acquired(f"wf-{name}")
    wire.enqueue("a", goodUntil=DEADLINE)
    wire.enqueue("b")
    for name in ("a", "b"):
        assert wire.suspend(f"wf-{name}", name).status == 200
    assert wire.take(2, start=False) == ["a", "b"]
    wire.start("b")
    wire.fail("b")
    assert wire.task("wf-b")["state"] == "pending"
    wire.tick(DEADLINE)
    assert wire.task("wf-a")["state"] == "pending"


def test_a_task_may_be_made_inside_a_fence(wire: JobWire) -> None:
    wire.acquired("wf")

    answer = wire.fence("wf", "promise.create", job_creation("j", retry=RETRY))
    assert answer.data["action"]["head"]["status"] == 200
    assert wire.take() == ["j"]


def test_a_suspension_and_a_release_with_a_retry_are_for_workflows(wire: JobWire) -> None:
    wire.create("p")
    wire.running()
    before = wire.snap()
    for answer in (wire.suspend("j", "p"), wire.release("j", retry={"delay": 5})):
        assert (answer.status, "HF1206" in answer.data) == (409, True)
    wire.acquired("wf")
    for answer in (wire.fail("wf"), wire.cancel("wf")):
        assert (answer.status, "HF1206" in answer.data) == (409, True)
    assert wire.task("j") == before["tasks"][0]


def test_who_begins_to_listen_past_its_deadline_is_told_that_it_has_expired(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    listened = wire.send("promise.register_listener", {"awaited": "j", "address": "poll://any@default"})
    assert listened.promise["state"] == "rejected"


def test_nobody_is_suspended_on_a_task_past_its_deadline(wire: JobWire) -> None:
    branch = {"resonate:branch": "t"}
    wire.acquired("t", tags=branch)
    wire.enqueue(goodUntil=DEADLINE, tags=branch)
    wire.now = DEADLINE
    answer = wire.suspend("t", "j")
    assert answer.status == 300, "what it waits for has ended"
    assert [(other["id"], other["state"]) for other in answer.data["preload"]] == [("j", "rejected")]


def test_who_acquires_is_shown_that_a_task_has_expired(wire: JobWire) -> None:
    branch = {"resonate:branch": "t"}
    wire.create("t", target="poll://any@default", tags=branch)
    wire.enqueue(goodUntil=DEADLINE, tags=branch)
    wire.now = DEADLINE
    answer = wire.acquire("t")
    assert [(other["id"], other["state"]) for other in answer.data["preload"]] == [("j", "rejected")]


def test_no_search_for_what_is_pending_finds_a_task_past_its_deadline(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    assert wire.send("promise.search", {"state": "pending"}).data["promises"] == []
    assert wire.send("task.search", {"state": "pending"}).data["tasks"] == []
    wire.tick()
    assert [one["id"] for one in wire.send("promise.search", {"state": "rejected"}).data["promises"]] == ["j"]


# -- later, and sooner -------------------------------------------------------------------------------------


def test_a_snooze_waits_and_counts_nothing(wire: JobWire) -> None:
    wire.running("j", retry={"delays": [5]})
    answer = wire.send("task.snooze", {"id": "j", "version": 1, "delay": SECOND})
    job = answer.task["job"]
    assert (job["status"], job["enqueuedAt"], job.get("attempts", [])) == ("PENDING", wire.now + SECOND, [])
    assert ("retries" in answer.task, "claimedBy" in job) == (False, False)
    assert wire.take() == []
    wire.now += SECOND
    wire.tick()
    assert wire.take() == ["j"]


def test_a_background_task_does_not_continue_as_new(wire: JobWire) -> None:
    wire.running("j")
    assert wire.send("task.restart", {"id": "j", "version": 1}).status == 409


def test_only_what_has_started_can_snooze(wire: JobWire) -> None:
    wire.claimed("j")
    assert wire.send("task.snooze", {"id": "j", "version": 1, "delay": 1}).status == 409
    assert wire.send("task.snooze", {"id": "j", "version": 2, "delay": 1}).status == 409
    assert wire.send("task.snooze", {"id": "x", "version": 1, "delay": 1}).status == 404
    for delay in (0, -1, 30 * 86_400_000 + 1, "1", None):
        assert wire.send("task.snooze", {"id": "j", "version": 1, "delay": delay}).status == 400


def test_a_snooze_past_its_deadline_expires_it(wire: JobWire) -> None:
    wire.running("j", goodUntil=wire.now + SECOND)
    wire.now += SECOND
    assert wire.send("task.snooze", {"id": "j", "version": 1, "delay": 1}).task["job"]["status"] == "EXPIRED"


def test_what_is_delayed_is_promoted_and_put_off(wire: JobWire) -> None:
    wire.enqueue("j", delay=wire.now + SECOND)
    later = wire.send("task.reschedule", {"id": "j", "at": wire.now + 5 * SECOND})
    assert later.task["job"]["enqueuedAt"] == wire.now + 5 * SECOND
    wire.now += 2 * SECOND
    wire.tick()
    assert wire.take() == []
    assert wire.send("task.reschedule", {"id": "j"}).task["job"]["enqueuedAt"] == wire.now
    assert wire.take() == ["j"]


def test_what_does_not_wait_cannot_be_rescheduled(wire: JobWire) -> None:
    wire.claimed("j")
    refused = wire.send("task.reschedule", {"id": "j"})
    assert (refused.status, refused.head["code"]) == (409, "HF1219")
    wire.send("task.cancel", {"id": "j"})
    over = wire.send("task.reschedule", {"id": "j"})
    assert (over.status, over.head["code"]) == (409, "HF1205")
    assert wire.send("task.reschedule", {"id": "x"}).status == 404
    assert wire.send("task.reschedule", {"id": "x", "at": -1}).status == 400


def test_a_reschedule_lies_before_the_deadlines(wire: JobWire) -> None:
    wire.enqueue("j", goodUntil=wire.now + SECOND)
    assert wire.send("task.reschedule", {"id": "j", "at": wire.now + SECOND}).status == 400
    assert wire.send("task.reschedule", {"id": "j", "at": wire.now + SECOND - 1}).status == 200


def test_what_is_on_offer_keeps_its_place_when_it_is_promoted(wire: JobWire) -> None:
    wire.enqueue("a")
    wire.now += 1
    wire.enqueue("b")
    wire.now += 1
    assert wire.send("task.reschedule", {"id": "a"}).status == 200
    assert wire.take() == ["a"]
