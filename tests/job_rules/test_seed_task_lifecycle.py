"""What the task lifecycle says, sentence by sentence, on every store."""

from __future__ import annotations

import itertools

import pytest

from tests.conformance.wire import MINUTE, SECOND, T0, Json
from tests.job_rules.wire import JobWire, job_creation

DEADLINE = T0 + 10 * SECOND


def test_pending_means_queued_waiting_to_be_claimed(wire: JobWire) -> None:
    wire.enqueue()
    assert wire.status() == "PENDING"
    assert wire.offers("j") == [0]


def test_claimed_means_a_worker_has_claimed_the_task_preparing_to_execute(wire: JobWire) -> None:
    wire.claimed()
    assert (wire.status(), "startedAt" in wire.job()) == ("CLAIMED", False)


def test_running_means_actively_executing(wire: JobWire) -> None:
    wire.claimed()
    wire.start("j")
    assert wire.status() == "RUNNING"


def test_completed_means_finished_successfully(wire: JobWire) -> None:
    wire.running()
    wire.fulfill("j")
    assert wire.status() == "COMPLETED"


def test_failed_means_an_error_returned_or_an_exception(wire: JobWire) -> None:
    wire.running()
    wire.fail(code="UNHANDLED_EXCEPTION")
    assert (wire.status(), wire.job()["code"]) == ("FAILED", "UNHANDLED_EXCEPTION")


def test_cancelled_means_cancelled_before_execution(wire: JobWire) -> None:
    wire.enqueue()
    wire.cancel()
    assert wire.status() == "CANCELLED"


def test_expired_means_the_deadline_passed_before_execution_started(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.tick(DEADLINE)
    assert wire.status() == "EXPIRED"


def test_a_claimed_task_is_reserved_for_its_worker(wire: JobWire) -> None:
    wire.claimed()
    assert wire.take(pid="other") == []
    assert wire.acquire("j", 1, pid="other").status == 409


def test_claim_timeout_requeues_because_user_code_never_ran(wire: JobWire) -> None:
    wire.claimed()
    wire.tick(T0 + MINUTE)
    assert (wire.status(), "attempts" in wire.job()) == ("PENDING", False)


def test_an_execution_that_ends_with_an_error_is_failed_not_completed(wire: JobWire) -> None:
    wire.running()
    wire.fulfill("j", state="rejected")
    assert wire.status() == "FAILED"


def test_a_worker_crash_is_detected_via_missing_heartbeats(wire: JobWire) -> None:
    wire.running()
    wire.now = T0 + MINUTE - 1
    wire.heartbeat(("j", 1), pid="w")
    wire.tick(T0 + 2 * MINUTE - 2)
    assert wire.status() == "RUNNING"
    wire.tick(T0 + 2 * MINUTE - 1)
    assert (wire.status(), wire.job()["code"]) == ("FAILED", "WORKER_CRASHED")


def test_a_retry_happens_only_if_a_policy_is_configured(wire: JobWire) -> None:
    wire.running()
    wire.fail()
    assert wire.status() == "FAILED"


def test_a_retry_happens_only_if_retries_remain(wire: JobWire) -> None:
    wire.running(retry={"delays": [5]})
    wire.fail()
    wire.tick(T0 + 5)
    wire.take(start=True)
    wire.fail(version=2)
    assert wire.status() == "FAILED"


def test_a_retry_sets_pending_increments_the_count_and_schedules_the_next(wire: JobWire) -> None:
    wire.running(retry={"delays": [5]})
    job = wire.fail().task["job"]
    assert (job["status"], job["retries"], job["nextRetryAt"]) == ("PENDING", 1, T0 + 5)


def test_the_claim_filters_out_expired_tasks(wire: JobWire) -> None:
    wire.enqueue("dead", goodUntil=DEADLINE)
    wire.enqueue("live")
    wire.now = DEADLINE
    assert wire.take(1) == ["live"], "and goes on to the next one"


def test_many_expired_tasks_do_not_hide_a_live_one(wire: JobWire) -> None:
    for number in range(30):
        wire.enqueue(f"dead{number:02}", goodUntil=DEADLINE)
    wire.now += 1
    wire.enqueue("live")
    wire.now = DEADLINE
    assert wire.take(3) == ["live"]


def test_expired_while_claimed_is_detected_at_the_start(wire: JobWire) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.now = DEADLINE
    assert wire.start("j").status == 409
    assert wire.status() == "EXPIRED"


def test_an_expired_claim_names_the_task_and_the_worker(wire: JobWire) -> None:
    wire.claimed(goodUntil=DEADLINE)
    wire.now = DEADLINE
    wire.start("j")
    promise = wire.get("j").promise
    assert promise["value"] == {"headers": {"holdfast-code": "TASK_EXPIRED", "holdfast-worker": "w"}}


@pytest.mark.parametrize("path", ["start", "sweep", "sweep after the lease"])
def test_claim_metadata_is_preserved_for_forensics(wire: JobWire, path: str) -> None:
    wire.claimed(goodUntil=T0 + MINUTE)
    wire.now = T0 + MINUTE + (5 if path == "sweep after the lease" else 0)
    if path == "start":
        wire.start("j")
    else:
        wire.tick()
    job = wire.job()
    assert (job["status"], job["claimedBy"], job["claimedAt"]) == ("EXPIRED", "w", T0)
    assert "attempts" not in job


def test_expiry_takes_precedence_over_a_pause(wire: JobWire) -> None:
    wire.enqueue("a", goodUntil=DEADLINE)
    wire.enqueue("b", goodUntil=DEADLINE)
    wire.halt("a")
    wire.pause()
    wire.tick(DEADLINE)
    assert (wire.status("a"), wire.status("b")) == ("EXPIRED", "EXPIRED")


def test_expiry_takes_precedence_over_a_cancel(wire: JobWire) -> None:
    wire.enqueue(goodUntil=DEADLINE)
    wire.now = DEADLINE
    assert wire.cancel().status == 409
    assert wire.status() == "EXPIRED"


def test_sent_at_is_immutable_and_the_callers(wire: JobWire) -> None:
    wire.running(sentAt=T0 - 7, retry={"delays": [5]})
    wire.fail()
    wire.tick(T0 + 5)
    wire.take(start=True)
    wire.fulfill("j", 2)
    assert wire.job()["sentAt"] == T0 - 7


def test_enqueued_at_is_when_it_becomes_eligible_and_is_updated_on_retry(wire: JobWire) -> None:
    wire.enqueue(delay=T0 + 100, retry={"delays": [50]})
    assert wire.job()["enqueuedAt"] == T0 + 100
    wire.tick(T0 + 100)
    wire.take(start=True)
    wire.fail()
    assert wire.job()["enqueuedAt"] == T0 + 150


@pytest.mark.parametrize("instant", ["claimedAt", "startedAt", "finishedAt"])
def test_each_timestamp_is_set_when_its_event_happens(wire: JobWire, instant: str) -> None:
    wire.enqueue()
    seen: list[str] = []
    for event in (lambda: wire.take(), lambda: wire.start("j"), lambda: wire.fulfill("j")):
        wire.now += 10
        event()
        seen += [
            name for name in ("claimedAt", "startedAt", "finishedAt") if wire.job().get(name) == wire.now
        ]
    assert seen == ["claimedAt", "startedAt", "finishedAt"]
    assert instant in wire.job()


def test_the_claimers_heartbeat_keeps_a_claim_and_the_runners_a_run(wire: JobWire) -> None:
    wire.claimed("a")
    wire.running("b")
    for minute in range(1, 4):
        wire.now = T0 + minute * MINUTE - 1
        wire.heartbeat(("a", 1), ("b", 1), pid="w")
        wire.tick(T0 + minute * MINUTE)
    assert (wire.status("a"), wire.status("b")) == ("CLAIMED", "RUNNING")


def test_good_until_also_caps_retries(wire: JobWire) -> None:
    wire.running(goodUntil=T0 + 50, retry={"delays": [50]})
    wire.fail()
    assert (wire.status(), wire.job()["attempts"][0].get("willRetry", False)) == ("FAILED", False)


def test_a_version_counts_claims_and_an_attempt_counts_runs(wire: JobWire) -> None:
    wire.claimed(retry={"delays": [5]})
    wire.tick(T0 + MINUTE)
    wire.take(start=True)
    wire.fail(version=2)
    wire.tick(wire.now + 5)
    wire.take(start=True)
    wire.fulfill("j", 3)
    assert [(row["number"], row["version"]) for row in wire.job()["attempts"]] == [(1, 2), (2, 3)]


# --- retry rules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "delays"),
    [
        ({"delays": [5, 7]}, [5, 7]),
        ({"delays": [5, 7], "retries": 4}, [5, 7, 7, 7]),
        ({"delays": [5, 7], "retries": 1}, [5]),
        ({"base": 100, "retries": 4}, [100, 200, 400, 800]),
        ({"base": 100, "factor": 3, "max": 500, "retries": 4}, [100, 300, 500, 500]),
        ({"base": 100, "factor": 1.5, "retries": 3}, [100, 150, 225]),
    ],
)
def test_the_rule_says_how_long_each_retry_waits(wire: JobWire, rule: Json, delays: list[int]) -> None:
    wire.enqueue(retry=rule)
    found: list[int] = []
    for version in range(1, len(delays) + 2):
        wire.tick(wire.now)
        assert wire.take(start=True) == ["j"]
        job = wire.fail(version=version).task["job"]
        if job["status"] == "FAILED":
            break
        found.append(job["nextRetryAt"] - wire.now)
        wire.now = job["nextRetryAt"]
    assert found == delays
    assert wire.status() == "FAILED"


def test_a_worker_may_choose_the_delay_but_not_the_retry(wire: JobWire) -> None:
    wire.running("a", retry={"delays": [5]})
    assert wire.fail("a", delay=77).task["job"]["nextRetryAt"] == T0 + 77
    wire.running("b")
    assert wire.fail("b", delay=77).task["job"]["status"] == "FAILED"


def test_jitter_stays_within_a_quarter_and_is_the_same_for_the_same_retry(wire: JobWire) -> None:
    delays: list[int] = []
    for number in range(20):
        wire.running(f"j{number}", retry={"delays": [1000], "jitter": True})
        delays.append(wire.fail(f"j{number}").task["job"]["nextRetryAt"] - T0)
    assert all(750 <= delay <= 1250 for delay in delays)
    assert len(set(delays)) > 10
    wire.send("debug.reset", {})
    wire.running("j3", retry={"delays": [1000], "jitter": True})
    assert wire.fail("j3").task["job"]["nextRetryAt"] - T0 == delays[3]


# --- offers -----------------------------------------------------------------------------------------------


def test_a_task_that_nobody_claims_is_offered_ever_more_seldom(wire: JobWire) -> None:
    wire.enqueue()
    instants = [T0]
    for _ in range(4):
        due = wire.due("j")
        assert due is not None
        instants.append(due[1])
        wire.tick(due[1])
        assert wire.offers("j") == [0]
    assert [instant - T0 for instant in instants] == [0, 30_000, 60_000, 120_000, 240_000]


def test_one_commit_wakes_a_bounded_number_of_workers(wire: JobWire) -> None:
    replies = wire.batch(*(("promise.create", job_creation(f"j{number}")) for number in range(100)))
    assert {reply.status for reply in replies} == {200}
    assert len(wire.messages("poll://any@queue.mail")) == 64
    assert len(wire.take(1_000)) == 100


def test_a_task_is_not_preloaded_with_its_branch(wire: JobWire) -> None:
    wire.create("root", tags={"resonate:branch": "root"})
    wire.enqueue(tags={"resonate:branch": "root"})
    assert wire.take_all().data["tasks"][0]["preload"] == []


# --- schedules --------------------------------------------------------------------------------------------


def scheduled(wire: JobWire, spec: str = "{}", cron: str = "@every 60s", **more: object) -> None:
    tags = {"resonate:target": "poll://any@queue.mail", "holdfast:job": spec}
    assert wire.schedule("s", cron, promiseTags=tags, **more).status == 200


def test_a_scheduled_task_keeps_its_retry_policy(wire: JobWire) -> None:
    scheduled(wire, '{"retry":{"delays":[5]}}')
    wire.tick(T0 + MINUTE)
    [name] = wire.take(start=True)
    assert wire.fail(name).task["job"]["status"] == "PENDING"


def test_an_interval_never_drifts(wire: JobWire) -> None:
    scheduled(wire, cron="@every 90s")
    fired: list[int] = []
    for late in (3, 1_000, 60_000):
        due = wire.send("schedule.get", {"id": "s"}).schedule["nextRunAt"]
        fired.append(due)
        wire.tick(due + late)
    assert all(instant % 90_000 == 0 for instant in fired)
    assert [b - a for a, b in itertools.pairwise(fired)] == [90_000, 90_000]


def test_the_deadline_of_a_scheduled_task_counts_from_its_occurrence(wire: JobWire) -> None:
    scheduled(wire, '{"goodFor":5000}')
    wire.tick(T0 + MINUTE + 4_999)
    [name] = wire.take()
    assert wire.job(name)["goodUntil"] == T0 + MINUTE + 5_000
    wire.tick(T0 + 2 * MINUTE + 5_000)
    assert wire.status(f"s-{T0 + 2 * MINUTE}") == "EXPIRED"


@pytest.mark.parametrize("policy", ["existing", "reject", "replace", "debounce"])
def test_an_occurrence_whose_unique_key_is_taken_follows_the_policy(wire: JobWire, policy: str) -> None:
    scheduled(wire, f'{{"unique":"k","onUnique":"{policy}"}}')
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    first, second = (wire.send("task.get", {"id": f"s-{T0 + n * MINUTE}"}) for n in (1, 2))
    if policy in ("existing", "reject"):
        assert (first.task["job"]["status"], second.status) == ("PENDING", 404)
    else:
        assert (first.task["job"]["status"], second.task["job"]["status"]) == ("CANCELLED", "PENDING")
