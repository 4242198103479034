"""Checks what the records of background tasks say in the end, whatever happened to them.

1. The end of a task and that of its promise are the same. Its attempts are counted, each made at a later
   version and after the one before it, and follow each other as the retry rule says.
2. Nothing began before its delay or its retry was over, or at or after its `good_until`.
3. What completed, or failed by a code of its own, was begun at that version. What was begun is counted as an
   attempt, unless its worker gave it back.
4. No two open tasks had the same key at once, and no queue had more running at once than it lets through.
5. A crash is written down only where something can have crashed, or been cut off.
"""

from collections.abc import Collection, Container, Iterable
from itertools import pairwise
from typing import Final

from holdfast.jobs.codes import RESERVED
from holdfast.protocol import tags
from holdfast.protocol.jobs import WORKER_CRASHED, Attempt, Job, RetryRule
from holdfast.protocol.limits import job_jitter_permille
from holdfast.protocol.records import Millis, Promise, Task
from holdfast.store.memory import MemoryStore

ENDS: Final = {
    "resolved": ("COMPLETED",),
    "rejected": ("FAILED", "EXPIRED"),
    "rejected_canceled": ("CANCELLED",),
    "rejected_timedout": ("FAILED", "EXPIRED"),
}

Claim = tuple[str, int]  # of a task, at a version


def check_histories(
    store: MemoryStore,
    begun: Collection[Claim],
    given_back: Container[Claim],
    crashes_until: Millis | None = None,
) -> list[str]:
    """`begun`: the claims whose function began; `given_back`: those that somebody wanted to be rid of.
    `crashes_until`: no attempt that began later crashed."""
    wrong: list[str] = []
    for key, task in store.tasks.items():
        if task.job is not None and task.job.outcome is not None:
            found = [
                *_check_end(store.promises[key], task.job),
                *_check_attempts(task, task.job),
                *_check_times(store.promises[key], task.job),
                *_check_begun(task, task.job, begun),
                *_check_crashes(task.job, crashes_until),
            ]
            wrong += [f"{key}: {sentence}" for sentence in found]
    return [*wrong, *_check_kept(store, begun, given_back), *_check_keys(store), *_check_limits(store)]


def _check_end(promise: Promise, job: Job) -> list[str]:
    if job.outcome not in ENDS.get(promise.state, ()):
        return [f"it is {job.outcome}, its promise {promise.state}"]
    completed = [attempt for attempt in job.attempts if attempt.outcome == "COMPLETED"]
    if len(completed) != (job.outcome == "COMPLETED"):
        return [f"it is {job.outcome} after {len(completed)} attempts that succeeded"]
    last = job.attempts[-1] if job.attempts else None
    if job.outcome == "FAILED" and last is not None and not last.will_retry and last.code != job.code:
        return [f"it failed by {job.code}, its last attempt by {last.code}"]
    return []


def _check_attempts(task: Task, job: Job) -> list[str]:
    attempts, rule = job.attempts, job.retry
    numbers = [attempt.number for attempt in attempts]
    if numbers != [*range(1, len(attempts) + 1)]:
        return [f"its attempts are numbered {numbers}"]
    versions = [attempt.version for attempt in attempts]
    if versions != sorted(set(versions)) or any(version > task.version for version in versions):
        return [f"its attempts were made at {versions}, it is at {task.version}"]
    followed = [attempt for attempt in attempts if attempt.will_retry]
    if len(followed) != task.retries or task.retries > (0 if rule is None else rule.limit):
        return [f"{len(followed)} attempts were followed by a retry, {task.retries} were counted"]
    if any(not attempt.will_retry for attempt in attempts[:-1]):
        return ["an attempt follows the last one"]
    stray = [attempt.code for attempt in followed if not _is_retried(rule, attempt.code)]
    return [f"{stray[0]} was retried"] if stray else []


def _is_retried(rule: RetryRule | None, code: str | None) -> bool:
    """A worker that died is retried whatever codes are listed, unless that is forbidden."""
    if rule is None:
        return False
    if code == WORKER_CRASHED:
        return rule.crashes
    return rule.codes is None or code in rule.codes


def _check_times(promise: Promise, job: Job) -> list[str]:
    wrong: list[str] = []
    earliest = int(promise.tags.get(tags.DELAY, promise.created_at))
    for attempt in job.attempts:
        if attempt.started_at < earliest:
            wrong.append(f"attempt {attempt.number} began at {attempt.started_at}, not before {earliest}")
        if attempt.finished_at < attempt.started_at:
            wrong.append(f"attempt {attempt.number} ended before it began")
        if job.good_until is not None and attempt.started_at >= job.good_until:
            wrong.append(f"attempt {attempt.number} began at {attempt.started_at}, past {job.good_until}")
        earliest = attempt.finished_at + _least_wait(job, attempt)
    return wrong


def _least_wait(job: Job, attempt: Attempt) -> Millis:
    """What a rule of delays lets pass at least. A function may choose a wait of its own: not with a crash."""
    rule = job.retry
    if rule is None or attempt.code != WORKER_CRASHED:
        return 0
    before = attempt.number - 1
    if rule.base is None:
        delay = rule.delays[min(before, len(rule.delays) - 1)]
    else:
        delay = int(min(rule.max, rule.base * rule.factor**before))
    return delay - (delay * job_jitter_permille // 1000 + 1 if rule.jitter else 0)


def _check_begun(task: Task, job: Job, begun: Container[Claim]) -> list[str]:
    told = [attempt for attempt in job.attempts if attempt.code not in RESERVED]
    return [
        f"attempt {attempt.number} is {attempt.outcome}, and nobody began it"
        for attempt in told
        if (task.id, attempt.version) not in begun
    ]


def _check_kept(store: MemoryStore, begun: Collection[Claim], given_back: Container[Claim]) -> list[str]:
    kept = {
        (key, attempt.version)
        for key, task in store.tasks.items()
        if task.job is not None
        for attempt in task.job.attempts
    }
    return [
        f"{key} ran at version {version}, and no attempt was counted"
        for key, version in begun
        if (key, version) not in kept and (key, version) not in given_back
    ]


def _check_crashes(job: Job, crashes_until: Millis | None) -> list[str]:
    return [
        f"attempt {attempt.number} by {attempt.pid} is said to have crashed, and nothing went wrong"
        for attempt in job.attempts
        if attempt.code == WORKER_CRASHED and crashes_until is not None and attempt.started_at > crashes_until
    ]


def _check_keys(store: MemoryStore) -> list[str]:
    holders: dict[str, list[tuple[Millis, Millis, str]]] = {}
    for key, task in store.tasks.items():
        if task.job is not None and task.job.unique is not None and task.job.finished_at is not None:
            life = store.promises[key].created_at, task.job.finished_at, key
            holders.setdefault(task.job.unique, []).append(life)
    wrong: list[str] = []
    for unique, lives in holders.items():
        lives.sort()
        for (_, until, first), (since, _, second) in pairwise(lives):
            if since < until:
                wrong.append(f"{first} and {second} had the key {unique} at once")
    return wrong


def _check_limits(store: MemoryStore) -> list[str]:
    wrong: list[str] = []
    for queue in store.queues.values():
        group = f"@queue.{queue.name}"
        jobs = [task.job for task in store.tasks.values() if task.job and task.target.endswith(group)]
        most = _most_at_once(attempt for job in jobs for attempt in job.attempts)
        if queue.concurrency is not None and most > queue.concurrency:
            wrong.append(f"{most} tasks of {queue.name} ran at once, it lets {queue.concurrency} through")
    return wrong


def _most_at_once(attempts: Iterable[Attempt]) -> int:
    edges: list[tuple[Millis, int]] = []
    for attempt in attempts:
        if attempt.finished_at > attempt.started_at:  # what took no time met nobody
            edges += [(attempt.started_at, 1), (attempt.finished_at, -1)]
    running = most = 0
    for _, change in sorted(edges):  # at one instant, ends come first
        running += change
        most = max(most, running)
    return most
