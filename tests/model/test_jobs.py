"""Random lives of background tasks: every store answers as the oracle does, and what must always hold holds.

`HOLDFAST_SEED` chooses the seed, `HOLDFAST_JOBS_OPS` the number of operations.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.backends import DirectBackend
from tests.conformance.wire import T0, Answer
from tests.counts import FULL, count_of
from tests.job_rules.wire import JobWire
from tests.model.jobs_oracle import JobsOracle, Json, Seen
from tests.seeds import seed_for_test

OPERATIONS = count_of("HOLDFAST_JOBS_OPS", quick=3_000, full=6_000)
QUEUES = ("mail", "slow")
STEMS = ("j", "j-", "j.k", "jé/", "é:")
SCOPES = ("j", "j-", "jé", "é", "é:")
KINDS = (
    ["create"] * 7 + ["task.claim"] * 8 + ["task.start"] * 3 + ["task.fulfill"] * 3 + ["task.fail"] * 5
    + ["task.release"] * 2 + ["task.snooze", "task.reschedule", "task.reschedule"]
    + ["task.cancel", "promise.settle", "task.halt", "task.continue", "task.continue"]
    + ["task.heartbeat", "task.get", "queue.set", "queue.pause", "queue.pause"] + ["tick"] * 6
)  # fmt: skip
TAKES_A_TURN = ("create", "task.start", "task.release", "task.continue", "task.reschedule")
WANTED = [
    ("create", 200), ("create", 409), ("task.claim", 200), ("task.start", 200), ("task.start", 409),
    ("task.fulfill", 200), ("task.fulfill", 409), ("task.fail", 200), ("task.fail", 409),
    ("task.cancel", 200), ("task.cancel", 409), ("task.halt", 200), ("task.continue", 200),
    ("task.release", 200), ("task.snooze", 200), ("task.snooze", 409), ("task.reschedule", 200),
    ("task.reschedule", 400), ("task.reschedule", 409),
    *(("end", status) for status in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")),
    *(("code", code) for code in ("WORKER_CRASHED", "TASK_EXPIRED", "TASK_TIMED_OUT", "BROKEN")),
    ("retried", True), ("start", "EXPIRED"), ("start", "sent back"),
]  # fmt: skip


class Difference(AssertionError):
    pass


def is_ripe(job: Json) -> bool:
    """Claimed, not started, and its deadline may come before it is."""
    return is_waiting(job) and job["good"] is not None


def is_waiting(job: Json) -> bool:
    return job["state"] == "acquired" and job["started"] is None


class Dice:
    """Chooses the next operation by what the oracle knows, so that most of them are near an edge."""

    def __init__(self, seed: int, oracle: JobsOracle) -> None:
        self._chance = random.Random(seed)
        self._oracle = oracle
        self._made = 0
        self.now = T0
        self.is_fair_world = False

    def next(self) -> tuple[str, Json]:
        chance = self._chance
        kind = chance.choice(KINDS)
        if chance.random() < 0.35:
            self.now += chance.choice([0, 1, 2, 10, 100, 700, 2_000])
        jobs = [*self._oracle.jobs.values()][-25:]
        if chance.random() < 0.1 and any(is_ripe(job) for job in jobs):
            kind = "task.start"
        claimed = [job for job in jobs if is_waiting(job)]
        if claimed and chance.random() < 0.03:
            return "queue.pause", {"name": chance.choice(claimed)["queue"], "paused": True}
        held_back = [job for job in jobs if is_waiting(job) and self._is_gated(job)]
        if held_back and chance.random() < 0.5:
            job = chance.choice(held_back)
            return "task.start", {"id": job["id"], "version": job["version"]}
        if kind == "tick":
            edges = [job[name] for job in jobs for name in ("due", "good") if job[name] is not None]
            near = [edge + chance.choice([-1, 0, 0, 1]) for edge in edges if edge + 5 >= self.now]
            if near and chance.random() < 0.8:
                self.now = max(self.now, min(chance.sample(near, min(3, len(near)))))
            return kind, {}
        if kind == "create" or not jobs:
            return "create", self._creation()
        if kind == "task.claim":
            data = {"queue": chance.choice(QUEUES), "count": chance.randint(1, 3), "pid": chance.choice("vw")}
            data |= {"ttl": chance.choice([50, 1_000, 60_000]), "start": chance.random() < 0.5}
            data |= {"scope": chance.choice(SCOPES)} if chance.random() < 0.2 else {}
            return kind, data | ({"ceiling": chance.choice([-1, 0, 1])} if chance.random() < 0.2 else {})
        if kind == "queue.set":
            return kind, {"name": chance.choice(QUEUES), **self._limits()}
        if kind == "queue.pause":
            return kind, {"name": chance.choice(QUEUES), "paused": chance.random() < 0.2}
        return kind, self._on_job(kind, jobs)

    def _is_gated(self, job: Json) -> bool:
        queue = self._oracle.queues.get(job["queue"], {})
        return "rate" in queue or "keyRate" in queue or queue.get("paused", False)

    def _creation(self) -> Json:
        chance = self._chance
        self._made += 1
        data: Json = {"id": f"{chance.choice(STEMS)}{self._made:05}", "queue": chance.choice(QUEUES)}
        if chance.random() < 0.2:
            data["scope"] = chance.choice(SCOPES)
        data["timeout"] = self.now + chance.choice([500, 5_000, 10**9, 10**9])
        if chance.random() < 0.5:
            data["goodUntil"] = self.now + chance.choice([-5, 0, 1, 50, 400, 3_000, 3_000, 100_000, 10**6])
        if chance.random() < 0.2:
            delay = self.now + chance.choice([1, 100, 400])
            if delay < min(data["timeout"], data.get("goodUntil", 10**15)):
                data["delay"] = delay
        if chance.random() < 0.6:
            data["retry"] = chance.choice([
                {"delays": [10, 300]}, {"delays": [50], "retries": 3}, {"base": 40, "retries": 4, "max": 200},
                {"delays": [5], "codes": ["BROKEN"]}, {"delays": [5], "codes": ["WORKER_CRASHED"]},
                {"delays": [5], "crashes": False}, {"delays": [1], "retries": 14},
            ])  # fmt: skip
        if chance.random() < 0.5:
            data["key"] = chance.choice("abc")
        if chance.random() < 0.35:
            data["unique"] = chance.choice("xyz")
            data["onUnique"] = chance.choice(["existing", "replace", "reject", "debounce"])
        if chance.random() < 0.5:
            data["name"] = chance.choice(["send", "send", "fetch"])
        if chance.random() < 0.3:
            data["priority"] = chance.choice([-1, 0, 1])
        return data

    def _limits(self) -> Json:
        chance = self._chance
        limits: Json = {}
        for name, choices in (("concurrency", [2, 4]), ("keyConcurrency", [1, 2])):
            if chance.random() < 0.4:
                limits[name] = chance.choice(choices)
        for name in ("rate", "keyRate"):
            if chance.random() < 0.35:
                limits[name] = {"count": chance.randint(1, 4), "perMs": chance.choice([10, 500, 3_000])}
        if self.is_fair_world and chance.random() < 0.6:
            limits["fair"] = True
            limits |= {"weights": {"a": chance.choice([2, 3])}} if chance.random() < 0.5 else {}
        return limits

    def _on_job(self, kind: str, jobs: list[Json]) -> Json:
        chance = self._chance
        state = {
            "task.continue": "halted",
            "task.get": "",
            "promise.settle": "",
            "task.reschedule": "pending",
        }.get(kind, "acquired")
        fitting = [job for job in jobs if job["state"] == state]
        job = chance.choice(fitting if fitting and chance.random() < 0.85 else jobs)
        if kind == "task.start":
            ripe = [job for job in jobs if is_ripe(job)]
            job = chance.choice(ripe) if ripe and chance.random() < 0.7 else job
            if job["good"] is not None and chance.random() < 0.5:
                self.now = max(self.now, job["good"] + chance.choice([-1, 0, 1]))
        data: Json = {"id": job["id"]}
        if kind in (
            "task.start",
            "task.fulfill",
            "task.fail",
            "task.release",
            "task.heartbeat",
            "task.snooze",
        ):
            data["version"] = max(0, job["version"] - (chance.random() < 0.08))
        if kind == "task.heartbeat":
            data["pid"] = job["pid"] or "w"
        if kind == "task.snooze":
            data["delay"] = chance.choice([1, 50, 2_000])
        if kind == "task.reschedule" and chance.random() < 0.6:
            data["at"] = self.now + chance.choice([-10, 0, 1, 300, 4_000])
        if kind == "task.cancel":
            data["force"] = chance.random() < 0.3
        if kind == "task.fail":
            data["code"] = chance.choice(["BROKEN", "BROKEN", "OTHER"])
            data |= {"delay": chance.choice([1, 70])} if chance.random() < 0.2 else {}
            data |= {"error": chance.choice(["eA==", "eQ=="])} if chance.random() < 0.5 else {}
            if job["good"] is not None and chance.random() < 0.5:  # a retry that lands on the deadline
                data["delay"] = max(1, job["good"] - self.now + chance.choice([-1, 0, 1]))
        if kind in ("task.fulfill", "promise.settle"):
            data["state"] = chance.choice(["resolved", "resolved", "rejected", "rejected_canceled"])
        return data


class Store:
    """A store under test, answering in the oracle's words."""

    def __init__(self, name: str) -> None:
        self.backend = DirectBackend(name)
        self.wire = JobWire(self.backend)  # type: ignore[arg-type]
        self.wire.send("debug.reset", {})

    def handle(self, kind: str, data: Json, now: int) -> Seen:
        wire = self.wire
        wire.now = now
        with wire.within(data.get("scope")):
            answer = self._send(kind, data)
        if answer.status >= 400:
            return answer.status, None
        if kind == "task.claim":
            return 200, [(item["task"]["id"], item["task"]["version"]) for item in answer.data["tasks"]]
        if kind in ("create", "task.fulfill", "promise.settle"):
            return 200, seen_promise(answer.promise)
        if kind in ("task.get", "task.start", "task.fail", "task.cancel", "task.snooze", "task.reschedule"):
            return 200, answer.task["job"]
        return 200, "lost" if kind == "task.heartbeat" and "lost" in answer.data else None

    def _send(self, kind: str, data: Json) -> Answer:
        wire = self.wire
        if kind == "create":
            spec = {key: value for key, value in data.items() if key != "scope"}
            name, timeout = spec.pop("id"), spec.pop("timeout")
            named = {"holdfast:task": spec.pop("name")} if "name" in spec else None
            return wire.enqueue(name, timeout_at=timeout, tags=named, **spec)
        if kind == "task.claim":
            more = {"ceiling": data["ceiling"]} if "ceiling" in data else {}
            names = ("count", "queue", "pid", "ttl", "start")
            return wire.take_all(**{name: data[name] for name in names}, **more)
        if kind == "task.fulfill":
            return wire.fulfill(data["id"], data["version"], data["state"])
        if kind == "task.heartbeat":
            return wire.heartbeat((data["id"], data["version"]), pid=data["pid"])
        return wire.send(kind, data)

    def close(self) -> None:
        self.backend.close()


def seen_promise(promise: Json) -> tuple[str, str, Json, int | None]:
    return promise["id"], promise["state"], promise["value"], promise.get("settledAt")


def compare(what: object, expected: object, found: object) -> None:
    if expected != found:
        raise Difference(f"{what}\n  oracle: {expected}\n  store:  {found}")


def compare_everything(oracle: JobsOracle, store: Store, now: int) -> None:
    """After a sweep nothing is left to interpretation: all that is stored is compared."""
    snap = store.wire.snap()
    tasks = {task["id"]: task for task in snap["tasks"]}
    dues = {row["id"]: row["timeout"] for row in snap["taskTimeouts"]}
    promises = {promise["id"]: promise for promise in snap["promises"]}
    compare("the tasks there are", set(oracle.jobs), set(tasks))
    for name, job in oracle.jobs.items():
        compare(name, oracle.see(job, now), tasks[name]["job"])
        compare(
            (name, "state"), (job["state"], job["version"]), (tasks[name]["state"], tasks[name]["version"])
        )
        compare((name, "due"), job["due"], dues.get(name))
        compare((name, "promise"), oracle.see_promise(job, now), seen_promise(promises[name]))
    for queue in QUEUES:
        found = store.wire.queue(queue)
        numbers = tuple(found[name] for name in ("pending", "delayed", "claimed", "running"))
        compare(queue, oracle.counts(queue), numbers)
    check_invariants(snap, now)


def check_invariants(snap: Json, now: int) -> None:
    holders: Counter[tuple[str, str]] = Counter()
    for task in snap["tasks"]:
        job = task["job"]
        attempts = job.get("attempts", [])
        ended = job["status"] in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
        assert (task["state"] == "fulfilled") == ended == ("outcome" in job) == ("finishedAt" in job)
        assert job["status"] not in ("CLAIMED", "RUNNING") or task["state"] == "acquired"
        assert [row["number"] for row in attempts] == [*range(1, len(attempts) + 1)]
        assert job.get("retries", 0) == sum(row.get("willRetry", False) for row in attempts)
        assert all(row["outcome"] == "FAILED" for row in attempts[:-1])
        assert [row["version"] for row in attempts] == sorted({row["version"] for row in attempts})
        assert all(row["startedAt"] <= row["finishedAt"] for row in attempts)
        assert job["status"] != "PENDING" or job.get("goodUntil", 10**15) > now
        assert job["status"] != "COMPLETED" or "code" not in job
        if not ended and "unique" in job:
            holders[job["queue"], job["unique"]] += 1
    assert set(holders.values()) <= {1}, holders


def run(stores: list[Store], seed: int, count: int, oracle: JobsOracle | None = None) -> Counter[Any]:
    oracle = oracle or JobsOracle()
    dice = Dice(seed, oracle)
    seen: Counter[Any] = Counter()
    for number in range(count):
        kind, data = dice.next()
        what = f"seed {seed}, step {number}: {kind} {data} at {dice.now}"
        if dice.is_fair_world and kind in TAKES_A_TURN:
            # Turns go by what waits as it is written; which ends a claim has written is nobody's business.
            oracle.tick(dice.now)
            for store in stores:
                store.wire.tick(dice.now)
        if kind == "tick":
            oracle.tick(dice.now)
            for store in stores:
                store.wire.tick(dice.now)
                if number % 5 == 0:
                    compare_everything(oracle, store, dice.now)
            continue
        was_held = kind == "task.start" and oracle.jobs[data["id"]]["state"] == "acquired"
        expected = oracle.handle(kind, data, dice.now)
        for store in stores:
            compare(what, expected, store.handle(kind, data, dice.now))
        seen[kind, expected[0]] += 1
        if kind == "task.start" and oracle.jobs[data["id"]]["state"] == "acquired":
            seen["start", oracle.see(oracle.jobs[data["id"]], dice.now)["status"]] += 1
        if was_held and oracle.jobs[data["id"]]["state"] == "pending":
            seen["start", "sent back"] += 1
        if len(oracle.jobs) > 150:  # a new world: large ones only cost time
            count_ends(oracle, seen)
            oracle.jobs.clear()
            oracle.queues.clear()
            dice.is_fair_world = not dice.is_fair_world
            for store in stores:
                store.wire.send("debug.reset", {})
    count_ends(oracle, seen)
    return seen


def count_ends(oracle: JobsOracle, seen: Counter[Any]) -> None:
    for job in oracle.jobs.values():
        seen["end", job["outcome"]] += 1
        seen["retried", job["retries"] > 0] += 1
        for row in job["attempts"]:
            seen["code", row.get("code")] += 1
        seen["code", job["code"]] += 1


@pytest.mark.sized
@pytest.mark.parametrize("name", ["memory", "sqlite", "postgres"])
def test_every_store_does_what_the_oracle_does(name: str) -> None:
    store = Store(name)
    try:
        count = OPERATIONS // 3 if name == "postgres" else OPERATIONS
        seen = run([store], seed_for_test(), count)
    finally:
        store.close()
    if name != "postgres":  # too short there
        missing = [cell for cell in WANTED if not seen[cell]]
        assert not missing, f"never seen: {missing} in {seen}"


class RetriesAtTheDeadline(JobsOracle):
    def retry_at(self, job: Json, code: str, delay: int | None, now: int) -> int | None:
        good = job["good"]
        return super().retry_at({**job, "good": None if good is None else good + 1}, code, delay, now)


class ExpiresOneTooLate(JobsOracle):
    def passed(self, instant: int, now: int) -> bool:
        return instant < now


class CountsALapsedClaim(JobsOracle):
    def back(self, job: Json, now: int, until: int = 0) -> None:
        super().back(job, now, until)
        job["retries"] += 1


class ForgetsWhoClaimedWhatExpired(JobsOracle):
    def expire(self, job: Json, at: int) -> None:
        self.unclaim(job)
        super().expire(job, at)


class LetsOneTooManyThrough(JobsOracle):
    def held(self, queue: str, key: str | None = None) -> int:
        return super().held(queue, key) - 1


class CancelsWhatRuns(JobsOracle):
    def task_cancel(self, data: Json, now: int) -> Seen:
        return super().task_cancel({**data, "force": True}, now)


class KeepsTheKeyOfWhatItDebounced(JobsOracle):
    def holder(self, data: Json, now: int) -> Json | None:
        found = super().holder(data, now)
        return None if data.get("onUnique") == "debounce" else found


class CountsASnooze(JobsOracle):
    def task_snooze(self, data: Json, now: int) -> Seen:
        answer = super().task_snooze(data, now)
        if answer[0] == 200:
            self.jobs[data["id"]]["retries"] += 1
        return answer


class PutsWhatIsOnOfferBehindOthers(JobsOracle):
    def task_reschedule(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is not None and job["state"] == "pending":
            job["parked"] = True
        return super().task_reschedule(data, now)


class SharesKeysBetweenTasks(JobsOracle):
    def is_same_task(self, data: Json, job: Json) -> bool:
        return True


class RetriesEveryCode(JobsOracle):
    def is_retried(self, rule: Json, code: str) -> bool:
        return code != "WORKER_CRASHED" or super().is_retried(rule, code)


class RetriesACrashOnlyIfItIsListed(JobsOracle):
    def is_retried(self, rule: Json, code: str) -> bool:
        return super().is_retried(rule, code) and code in rule.get("codes", [code])


class ClaimsTheOldestFirst(JobsOracle):
    def place(self, job: Json) -> int:
        return int(job["created"])


class ClaimsWhatCameBackLast(JobsOracle):
    def back(self, job: Json, now: int, until: int = 0) -> None:
        super().back(job, now, until)
        job["since"] = max(now, until)


class RetriesEveryCrash(JobsOracle):
    def is_retried(self, rule: Json, code: str) -> bool:
        return super().is_retried({**rule, "crashes": True}, code)


class ForgetsTheRunThatCrashed(JobsOracle):
    def failed(
        self, job: Json, code: str, value: Json, delay: int | None, now: int, crash: bool,
        error: str | None = None,
    ) -> None:  # fmt: skip
        if crash:
            self.back(job, now)
        else:
            super().failed(job, code, value, delay, now, crash, error)


class BeginsWhatIsClaimedWhateverTheQueueSays(JobsOracle):
    def task_start(self, data: Json, now: int) -> Seen:
        queues, self.queues = self.queues, {}
        try:
            return super().task_start(data, now)
        finally:
            self.queues = queues


class CountsAClaimAgainstTheRate(JobsOracle):
    def task_claim(self, data: Json, now: int) -> Seen:
        seen = super().task_claim(data, now)
        if not data["start"]:
            for name, _ in seen[1]:
                self.count_begin(self.jobs[name], now)
        return seen


class GivesAnIdleKeyCredit(JobsOracle):
    def served(self, queue: Json, job: Json) -> int:
        return 0


class ForgetsTheWeights(JobsOracle):
    def weight(self, queue: Json, job: Json) -> int:
        return 1


class TakesAnotherTurnForWhatComesBack(JobsOracle):
    def back(self, job: Json, now: int, until: int = 0) -> None:
        job["turn"] = 0
        super().back(job, now, until)


class KeepsTheTurnOfWhatRested(JobsOracle):
    def turn(self, job: Json) -> int:
        return super().turn({**job, "parked": False})


class PutsTheUnfairBeforeThoseWithTurns(JobsOracle):
    def turn(self, job: Json) -> int:
        return super().turn(job) if self.queues.get(job["queue"], {}).get("fair") else int(job["turn"])


MUTANTS = [
    GivesAnIdleKeyCredit, ForgetsTheWeights, TakesAnotherTurnForWhatComesBack, KeepsTheTurnOfWhatRested,
    PutsTheUnfairBeforeThoseWithTurns,
    RetriesAtTheDeadline, ExpiresOneTooLate, CountsALapsedClaim, ForgetsWhoClaimedWhatExpired,
    LetsOneTooManyThrough, CancelsWhatRuns, KeepsTheKeyOfWhatItDebounced, RetriesEveryCode,
    SharesKeysBetweenTasks, CountsASnooze, PutsWhatIsOnOfferBehindOthers,
    RetriesACrashOnlyIfItIsListed, RetriesEveryCrash, ClaimsTheOldestFirst, ClaimsWhatCameBackLast,
    ForgetsTheRunThatCrashed, BeginsWhatIsClaimedWhateverTheQueueSays, CountsAClaimAgainstTheRate,
]  # fmt: skip


@pytest.mark.sized
@pytest.mark.parametrize("mutant", MUTANTS if FULL else MUTANTS[::8], ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_is_found(mutant: type[JobsOracle]) -> None:
    store = Store("memory")
    try:
        with pytest.raises(Difference):
            run([store], 11, 20_000, mutant())
    finally:
        store.close()
