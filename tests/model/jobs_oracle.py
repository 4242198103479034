"""Background tasks and queues once more, from the contract alone, sharing no code with the engine.

`handle(kind, data, now)` answers (status, what a caller can see). A job is one dictionary.
"""

from __future__ import annotations

from typing import Any

from tests.model import fields

Json = dict[str, Any]
Seen = tuple[int, Any]

RETRY_MS = 30_000
OPEN = ("pending", "acquired", "halted")


class JobsOracle:
    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        self.queues: dict[str, Json] = {}
        self.waited: list[str] = []  # what was on offer before the request at hand

    def handle(self, kind: str, data: Json, now: int) -> Seen:
        self.waited = [
            job["id"] for job in self.jobs.values() if job["state"] == "pending" and not job["parked"]
        ]
        answer: Seen = getattr(self, kind.replace(".", "_"))(data, now)
        return answer

    # --- what time does ------------------------------------------------------------------------------

    def passed(self, instant: int, now: int) -> bool:
        return instant <= now

    def expired(self, job: Json, now: int) -> bool:
        good = job["good"]
        return (
            job["state"] in OPEN
            and job["started"] is None
            and good is not None
            and good < job["timeout"]
            and self.passed(good, now)
        )

    def over(self, job: Json, now: int) -> bool:
        return job["state"] not in OPEN or job["timeout"] <= now or self.expired(job, now)

    def write_end(self, job: Json, now: int) -> None:
        """Whatever time has done to it, if anything."""
        if self.expired(job, now):
            self.expire(job, max(job["good"], job["created"]))
        elif job["state"] in OPEN and job["timeout"] <= now:
            job["promise"] = ("rejected_timedout", {}, job["timeout"])
            outcome = "EXPIRED" if job["started"] is None else "FAILED"
            self.end(job, outcome, job["timeout"], "TASK_TIMED_OUT")

    def expire(self, job: Json, at: int) -> None:
        job["promise"] = ("rejected", self.error_value("TASK_EXPIRED", job), at)
        self.end(job, "EXPIRED", at, "TASK_EXPIRED")

    def error_value(self, code: str, job: Json) -> Json:
        worker = {} if job["claimed_by"] is None else {"holdfast-worker": job["claimed_by"]}
        return {"headers": {"holdfast-code": code} | worker}

    def end(self, job: Json, outcome: str, at: int, code: str | None) -> None:
        if job["started"] is not None:
            self.attempt(job, "COMPLETED" if outcome == "COMPLETED" else "FAILED", at, code, False)
        job.update(
            state="fulfilled", outcome=outcome, finished=at, code=code, due=None, pid=None, next_retry=None
        )

    def attempt(self, job: Json, outcome: str, at: int, code: str | None, again: bool) -> None:
        row = {"number": len(job["attempts"]) + 1, "version": job["version"], "outcome": outcome}
        row |= {"startedAt": job["started"], "finishedAt": at}
        row |= {"willRetry": True} if again else {}
        row |= {} if code is None else {"code": code}
        job["attempts"].append(row | {"pid": job["pid"]})

    def cap(self, job: Json, instant: int) -> int:
        return instant if job["good"] is None or job["started"] is not None else min(instant, job["good"])

    def wait(self, job: Json, now: int, until: int = 0) -> None:
        """Pending, and either resting until an instant or on offer."""
        job.update(state="pending", pid=None, acquired=None, parked=until > now)
        job["since"] = until if until > now else job["eligible"]
        job["turn"] = self.turn(job)
        job["due"] = self.cap(job, until if until > now else now + RETRY_MS)

    def offer_again(self, job: Json, now: int) -> None:
        waited = min(now - job["since"], 3_600_000)
        job.update(parked=False, due=self.cap(job, now + max(RETRY_MS, waited)))
        job["turn"] = self.turn(job)

    def turn(self, job: Json) -> int:
        """Where it stands among those that wait with the same priority; none while it rests."""
        queue = self.queues.get(job["queue"], {})
        if job["parked"] or job["turn"] or not (queue.get("fair") or queue.get("served")):
            return 0 if job["parked"] else int(job["turn"])
        waiting = [
            other for other in self.jobs.values()
            if other is not job
            and ((other["state"] == "pending" and not other["parked"]) or other["id"] in self.waited)
            and (other["queue"], other["priority"]) == (job["queue"], job["priority"])
        ]  # fmt: skip
        if not queue.get("fair"):
            return max([other["turn"] for other in waiting], default=0)
        mine = [other["turn"] for other in waiting if other["key"] == job["key"]]
        behind = max([self.served(queue, job), *mine])
        return int(behind + 1_000_000 // self.weight(queue, job))

    def served(self, queue: Json, job: Json) -> int:
        return int(queue.get("served", {}).get(job["priority"], 0))

    def weight(self, queue: Json, job: Json) -> int:
        return int(queue.get("weights", {}).get(job["key"], 1))

    def unclaim(self, job: Json) -> None:
        job.update(claimed_at=None, claimed_by=None)

    def back(self, job: Json, now: int, until: int = 0) -> None:
        """Given back without having been counted."""
        if self.expired({**job, "started": None}, now):
            self.expire(job, now)
            return
        job["started"] = None
        self.unclaim(job)
        self.wait(job, now, until)

    def is_retried(self, rule: Json, code: str) -> bool:
        """A worker that died is no answer of the function: the list is not about that."""
        if code == "WORKER_CRASHED":
            return bool(rule.get("crashes", True))
        return code in rule.get("codes", [code])

    def retry_at(self, job: Json, code: str, delay: int | None, now: int) -> int | None:
        rule = job["retry"]
        if rule is None:
            return None
        most = rule.get("retries", len(rule.get("delays", ())))
        if job["retries"] >= most or not self.is_retried(rule, code):
            return None
        if delay is None and "delays" in rule:
            delay = rule["delays"][min(job["retries"], len(rule["delays"]) - 1)]
        if delay is None:
            delay = min(rule["max"], rule["base"] * 2 ** job["retries"])
        assert delay is not None
        instant: int = now + delay
        good = job["timeout"] if job["good"] is None else min(job["good"], job["timeout"])
        return instant if instant < good else None

    def failed(
        self, job: Json, code: str, value: Json, delay: int | None, now: int, crash: bool,
        error: str | None = None,
    ) -> None:  # fmt: skip
        again = self.retry_at(job, code, delay, now)
        if again is None:
            job["promise"] = ("rejected", value, now)
            self.end(job, "FAILED", now, code)
            return
        self.attempt(job, "FAILED", now, code, True)
        if error is not None:
            job["attempts"][-1]["error"] = error
        for row in job["attempts"][:-10]:
            row.pop("error", None)
        job.update(started=None, retries=job["retries"] + 1, bounces=0, eligible=again, next_retry=again)
        if crash:
            self.unclaim(job)
        self.wait(job, now, again)

    def tick(self, now: int) -> None:
        self.waited = []
        for job in self.jobs.values():
            if job["timeout"] <= now:
                self.write_end(job, now)
        due = [job for job in self.jobs.values() if job["due"] is not None and job["due"] <= now]
        for job in sorted(due, key=lambda job: (job["due"], job["id"])):
            self.write_end(job, now)
            if job["state"] == "acquired" and job["started"] is not None:
                self.failed(job, "WORKER_CRASHED", self.error_value("WORKER_CRASHED", job), None, now, True)
            elif job["state"] == "acquired":
                self.back(job, now)
            elif job["state"] == "pending":
                self.offer_again(job, now)

    # --- what a caller sees --------------------------------------------------------------------------

    def see(self, job: Json, now: int) -> Json:
        job = {**job, "attempts": [*job["attempts"]]}
        self.write_end(job, now)
        status = job["outcome"]
        if status is None and job["state"] == "acquired":
            status = "CLAIMED" if job["started"] is None else "RUNNING"
        started = job["started"]
        if started is None and job["attempts"]:
            started = job["attempts"][-1]["startedAt"]
        shown = {
            "status": status or "PENDING", "queue": job["queue"], "priority": job["priority"],
            "sentAt": job["created"], "enqueuedAt": job["eligible"], "goodUntil": job["good"],
            "retry": job["retry"], "key": job["key"], "unique": job["unique"],
            "claimedAt": job["claimed_at"], "claimedBy": job["claimed_by"],
            "acquiredAt": job["acquired"] if job["state"] == "acquired" else None, "startedAt": started,
            "nextRetryAt": job["next_retry"], "retries": job["retries"] or None,
            "attempts": job["attempts"] or None, "outcome": job["outcome"], "code": job["code"],
            "finishedAt": job["finished"],
        }  # fmt: skip
        return {name: value for name, value in shown.items() if value is not None}

    def see_promise(self, job: Json, now: int) -> tuple[str, str, Json, int | None]:
        job = {**job, "attempts": [*job["attempts"]]}
        self.write_end(job, now)
        return (job["id"], *job["promise"])

    # --- requests ------------------------------------------------------------------------------------

    def create(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is not None:
            return 200, self.see_promise(job, now)
        holder = self.holder(data, now)
        if holder is not None:
            how = data.get("onUnique", "existing")
            running = holder["started"] is not None
            if not self.reaches(data, holder):
                return 409, None
            if not self.is_same_task(data, holder):
                return 409, None
            if how == "existing":
                return 200, self.see_promise(holder, now)
            if how == "reject" or (how == "replace" and running):
                return 409, None
            if running:
                holder["unique"] = None
            else:
                self.cancelled(holder, now)
        born: Json = {
            "id": data["id"], "state": "pending", "version": 0, "queue": data["queue"],
            "priority": data.get("priority", 0), "created": now, "timeout": data["timeout"],
            "good": data.get("goodUntil"), "retry": data.get("retry"), "key": data.get("key"),
            "unique": data.get("unique"), "retries": 0, "bounces": 0, "attempts": [], "started": None,
            "claimed_at": None, "claimed_by": None, "acquired": None, "next_retry": None, "outcome": None,
            "code": None, "finished": None, "pid": None, "ttl": None, "promise": ("pending", {}, None),
            "eligible": max(now, data.get("delay", 0)), "turn": 0, "name": data.get("name"),
        }  # fmt: skip
        self.jobs[data["id"]] = born
        self.wait(born, now, data.get("delay", 0))
        self.write_end(born, now)
        return 200, self.see_promise(born, now)

    def is_same_task(self, data: Json, job: Json) -> bool:
        """Or not known to be another one."""
        return None in (data.get("name"), job["name"]) or data["name"] == job["name"]

    def reaches(self, data: Json, job: Json) -> bool:
        """May the caller know of this job?"""
        return data.get("scope") is None or fields.reaches(data["scope"], job["id"])

    def holder(self, data: Json, now: int) -> Json | None:
        if data.get("unique") is None:
            return None
        for job in self.jobs.values():
            if (job["queue"], job["unique"]) == (data["queue"], data["unique"]) and job["state"] in OPEN:
                self.write_end(job, now)
                if job["state"] in OPEN:
                    return job
        return None

    def cancelled(self, job: Json, now: int) -> None:
        job["promise"] = ("rejected_canceled", self.error_value("TASK_CANCELLED", job), now)
        self.end(job, "CANCELLED", now, "TASK_CANCELLED")

    def task_claim(self, data: Json, now: int) -> Seen:
        ready = sorted(
            (-job["priority"], job["turn"], self.place(job), job["created"], job["id"])
            for job in self.jobs.values()
            if job["state"] == "pending" and not job["parked"] and not self.over(job, now)
            and job["queue"] == data["queue"] and job["priority"] <= data.get("ceiling", 10**6)
            and self.reaches(data, job)
        )  # fmt: skip
        granted: list[tuple[str, int]] = []
        queue = self.queues.get(data["queue"], {"meters": {}})
        before = {meter: [*untils] for meter, untils in queue["meters"].items()}
        for *_, name in ready:
            job = self.jobs[name]
            if len(granted) < data["count"] and self.room(job, now):
                self.grant(job, data["pid"], data["ttl"], data["start"], now)
                granted.append((name, job["version"]))
        if not data["start"]:  # only what begins counts
            queue["meters"] = before
        return 200, granted

    def place(self, job: Json) -> int:
        """What has been ready longer goes first."""
        since: int = job["since"]
        return since

    def grant(self, job: Json, pid: str, ttl: int, start: bool, now: int) -> None:
        job.update(state="acquired", version=job["version"] + 1, pid=pid, ttl=ttl, acquired=now, parked=False)
        job.update(claimed_at=now, claimed_by=pid, started=now if start else None)
        job["due"] = self.cap(job, now + ttl)
        self.count_begin(job, now)
        queue = self.queues.get(job["queue"], {})
        if queue.get("fair") and job["turn"] > self.served(queue, job):
            queue.setdefault("served", {})[job["priority"]] = job["turn"]

    def count_begin(self, job: Json, now: int) -> None:
        queue = self.queues.get(job["queue"], {})
        for name, meter in (("rate", ""), ("keyRate", job["key"])):
            rate = queue.get(name)
            if rate is not None and meter is not None:
                slot = max(1, -(-rate["perMs"] // 32))
                until = -(-now // slot) * slot + rate["perMs"]
                queue["meters"].setdefault(meter, []).append(until)

    def held(self, queue: str, key: str | None = None) -> int:
        return sum(
            job["state"] == "acquired" and job["queue"] == queue and (key is None or job["key"] == key)
            for job in self.jobs.values()
        )

    def room(self, job: Json, now: int) -> bool:
        queue, key = self.queues.get(job["queue"]), job["key"]
        if queue is None:
            return True
        if self.held(job["queue"]) >= queue.get("concurrency", 10**9):
            return False
        if key is not None and self.held(job["queue"], key) >= queue.get("keyConcurrency", 10**9):
            return False
        return self.may_begin(job, now)

    def may_begin(self, job: Json, now: int) -> bool:
        queue, key = self.queues.get(job["queue"]), job["key"]
        if queue is None:
            return True
        if queue["paused"]:
            return False
        for name, meter in (("rate", ""), ("keyRate", key)):
            if name in queue and meter is not None:
                spent = [until for until in queue["meters"].get(meter, ()) if until > now]
                if len(spent) >= queue[name]["count"]:
                    return False
        return True

    def driven(self, data: Json, now: int) -> Json | None:
        job = self.jobs.get(data["id"])
        if job is None or self.over(job, now) or job["state"] != "acquired":
            return None
        return job if job["version"] == data["version"] else None

    def task_get(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        return (404, None) if job is None else (200, self.see(job, now))

    def task_start(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if self.driven(data, now) is None or (job["started"] is None and job["due"] <= now):
            return 409, None
        if job["started"] is None and not self.may_begin(job, now):
            self.back(job, now)
            return 409, None
        if job["started"] is None:
            job.update(started=now, due=now + job["ttl"])
            self.count_begin(job, now)
        return 200, self.see(job, now)

    def task_fulfill(self, data: Json, now: int) -> Seen:
        job = self.driven(data, now)
        if job is None or job["started"] is None:
            return (404 if data["id"] not in self.jobs else 409), None
        return self.promise_settle(data, now)

    def promise_settle(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if self.over(job, now):
            self.write_end(job, now)  # a request that succeeds writes down what it has found
            return 200, self.see_promise(job, now)
        outcome = {"resolved": "COMPLETED", "rejected": "FAILED", "rejected_canceled": "CANCELLED"}[
            data["state"]
        ]
        job["promise"] = (data["state"], {}, now)
        self.end(job, outcome, now, "TASK_CANCELLED" if outcome == "CANCELLED" else None)
        return 200, self.see_promise(job, now)

    def task_fail(self, data: Json, now: int) -> Seen:
        job = self.driven(data, now)
        if job is None or job["started"] is None:
            return (404 if data["id"] not in self.jobs else 409), None
        value = {"headers": {"holdfast-code": data["code"]}}
        self.failed(job, data["code"], value, data.get("delay"), now, False, data.get("error"))
        return 200, self.see(job, now)

    def task_release(self, data: Json, now: int) -> Seen:
        job = self.driven(data, now)
        if job is None:
            return (404 if data["id"] not in self.jobs else 409), None
        job["bounces"] = job["bounces"] + 1 if now - job["acquired"] < 1_000 else 0
        rest = min(60_000, 100 * 2 ** (job["bounces"] - 2)) if job["bounces"] >= 2 else 0
        self.back(job, now, now + rest)
        return 200, None

    def task_snooze(self, data: Json, now: int) -> Seen:
        job = self.driven(data, now)
        if job is None or job["started"] is None:
            return (404 if data["id"] not in self.jobs else 409), None
        until = now + data["delay"]
        if not self.expired({**job, "started": None}, now):
            job.update(eligible=until, bounces=0)
        self.back(job, now, until)
        return 200, self.see(job, now)

    def task_reschedule(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if self.over(job, now) or job["state"] != "pending":
            return 409, None
        at = max(now, data.get("at", now))
        if at >= job["timeout"] or (job["good"] is not None and at >= job["good"]):
            return 400, None
        if job["parked"] or at > now:
            job.update(eligible=at, bounces=0)
            job["next_retry"] = None if job["next_retry"] is None else at
            self.wait(job, now, at)
        return 200, self.see(job, now)

    def task_cancel(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if not self.over(job, now):
            if job["started"] is not None and not data["force"]:
                return 409, None
            self.cancelled(job, now)
        seen = self.see(job, now)
        return (200, seen) if seen["status"] == "CANCELLED" else (409, None)

    def task_halt(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if self.over(job, now):
            return 409, None
        if job["state"] != "halted":
            held = job["state"] == "acquired"
            if self.expired({**job, "started": None}, now):
                self.expire(job, now)
            else:
                job.update(
                    state="halted", due=job["good"], pid=None, acquired=None, parked=False, started=None
                )
                if held:
                    self.unclaim(job)
        return 200, None

    def task_continue(self, data: Json, now: int) -> Seen:
        job = self.jobs.get(data["id"])
        if job is None:
            return 404, None
        if self.over(job, now) or job["state"] != "halted":
            return 409, None
        job["bounces"] = 0
        self.wait(job, now, job["eligible"])
        return 200, None

    def task_heartbeat(self, data: Json, now: int) -> Seen:
        job = self.driven(data, now)
        if job is None or job["pid"] != data["pid"]:
            return 200, "lost"
        job["due"] = self.cap(job, now + job["ttl"])
        return 200, None

    def queue_set(self, data: Json, now: int) -> Seen:
        before = self.queues.get(data["name"], {"paused": False, "meters": {}})
        limits = {name: limit for name, limit in data.items() if name != "name"}
        timed = "rate" in limits or "keyRate" in limits
        self.queues[data["name"]] = limits | {
            "paused": before["paused"], "meters": before["meters"] if timed else {},
            "served": before.get("served", {}),
        }  # fmt: skip
        return 200, None

    def queue_pause(self, data: Json, now: int) -> Seen:
        self.queues.setdefault(data["name"], {"meters": {}})["paused"] = data["paused"]
        return 200, None

    def counts(self, name: str) -> tuple[int, int, int, int]:
        jobs = [job for job in self.jobs.values() if job["queue"] == name]
        pending = [job for job in jobs if job["state"] == "pending"]
        held = [job for job in jobs if job["state"] == "acquired"]
        running = sum(job["started"] is not None for job in held)
        return len(pending), sum(job["parked"] for job in pending), len(held) - running, running
