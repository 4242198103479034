"""Planted faults: the product, wrong in one way each. The simulation must find every one in a few seeds.

Each is a patch that is applied while it runs, and says on which stores it can show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine import (
    claims,
    dispatch,
    fence,
    job_requests,
    jobs,
    promises,
    restart,
    schedules,
    sweep,
    tasks,
    transitions,
    view,
)
from holdfast.engine.view import is_open
from holdfast.engine.working_set import WorkingSet
from holdfast.host.heartbeat import Heartbeat
from holdfast.host.outbox import Outbox, PendingRequest
from holdfast.host.session import Session
from holdfast.node import node as node_module
from holdfast.node.group import CommitOutcome
from holdfast.protocol import cron, limits
from holdfast.protocol.errors import ClaimLost
from holdfast.protocol.records import Millis, Promise, Task, TaskRef
from holdfast.protocol.replies import EMPTY, HeartbeatReply, PromiseReply, Reply
from holdfast.protocol.requests import PromiseCreate, Request, RequestData, TaskSuspend
from holdfast.store.interface import Result, Work, drive
from holdfast.store.sqlite import SqliteFile
from holdfast.testing.faults import StoreKind
from holdfast.workflow import journal
from holdfast.workflow.execution import Execution
from holdfast.workflow.fenced_writer import FencedWriter

Patch = pytest.MonkeyPatch


def _replace(patch: Patch, kind: type[RequestData], handler: Any) -> None:
    handlers: dict[Any, Any] = dispatch.HANDLERS
    patch.setitem(handlers, kind, handler)


def skips_the_version_check(patch: Patch) -> None:
    def held_task(task_id: str, version: int, ws: WorkingSet, now: Millis, *_: Any) -> Task:
        task = tasks.find_task(task_id, ws)
        if not is_open(task, now) or task.state != "acquired":
            raise ClaimLost("not held")
        return task

    for module in (tasks, fence, restart):
        patch.setattr(module, "held_task", held_task)


def acknowledges_before_the_commit(patch: Patch) -> None:
    def run(self: Any, work: Callable[[], Work[Result]]) -> Result:
        execute = self._transaction.connection.execute
        if self._transaction.connection.in_transaction:
            execute("COMMIT")
        execute("BEGIN IMMEDIATE")
        return drive(work(), self._transaction.perform)

    patch.setattr(SqliteFile, "run", run)


def forgets_callbacks_in_a_crash(patch: Patch) -> None:
    original = SqliteFile.open

    def open_and_forget(self: Any) -> Millis:
        now = original(self)
        self._transaction.connection.execute("DELETE FROM callbacks")
        return now

    patch.setattr(SqliteFile, "open", open_and_forget)


def loses_the_order_of_observations(patch: Patch) -> None:
    original = journal.Journal.add

    def add(self: journal.Journal, record: Promise) -> None:
        if journal.OBSERVED not in (record.value.headers or {}):
            original(self, record)

    patch.setattr(journal.Journal, "add", add)


def never_lapses_a_lease(patch: Patch) -> None:
    original = sweep.task_due

    def task_due(request: Request, data: sweep.TaskDue, ws: WorkingSet, now: Millis) -> Reply:
        task = ws.task(data.id)
        if task is not None and task.state == "acquired":
            ws.put_task(replace(task, due_at=now + 60_000))
            return Reply(200, EMPTY)
        return original(request, data, ws, now)

    _replace(patch, sweep.TaskDue, task_due)


def ignores_what_the_heartbeat_says_is_lost(patch: Patch) -> None:
    original: Any = Heartbeat._notice_woken  # pyright: ignore

    def notice(self: Heartbeat, refs: list[TaskRef], reply: HeartbeatReply, lease_ends_s: float) -> None:
        original(self, refs, HeartbeatReply(None, reply.woken), lease_ends_s)

    patch.setattr(Heartbeat, "_notice_woken", notice)


def never_offers_again(patch: Patch) -> None:
    original = sweep.task_due

    def task_due(request: Request, data: sweep.TaskDue, ws: WorkingSet, now: Millis) -> Reply:
        task = ws.task(data.id)
        if task is not None and task.state == "pending" and not task.parked:
            ws.put_task(replace(task, due_at=min(now + ws.rules.retry_ms, limits.instant_ms_max)))
            return Reply(200, EMPTY)
        return original(request, data, ws, now)

    _replace(patch, sweep.TaskDue, task_due)


def sleeps_on_what_has_settled(patch: Patch) -> None:
    """A suspension does not look whether what it waits for is there already."""

    def suspend(request: Request, data: TaskSuspend, ws: WorkingSet, now: Millis) -> Reply:
        task = tasks.held_task(data.id, data.version, ws, now)
        for action in data.actions:
            ws.add_callback(action.data.awaited, task.id)
        rest = {"due_at": None, "pid": None, "ttl": None, "corr_id": None, "acquired_at": None}
        ws.put_task(replace(task, state="suspended", resumes=0, **rest))
        return Reply(200, EMPTY)

    _replace(patch, TaskSuspend, suspend)


def grants_without_a_new_version(patch: Patch) -> None:
    original = transitions.grant

    def grant(task: Task, *rest: Any, **options: Any) -> Task:
        ws = rest[3]
        granted = replace(original(task, *rest, **options), version=max(task.version, 1))
        ws.put_task(granted)
        return granted

    patch.setattr(tasks, "grant", grant)


def forget_the_clock(patch: Patch) -> None:
    """It stops when it is told that the claim is lost, and not when its lease is over by its own clock."""
    patch.setattr(Execution, "lease_ends_s", property(lambda _: inf, ignore_all), raising=False)


def drives_on_past_its_lease(patch: Patch) -> None:
    forget_the_clock(patch)
    patch.setattr(Heartbeat, "_notice_woken", ignore_all)
    patch.setattr(Heartbeat, "_ring", ignore_all)


def ignore_all(*_: Any) -> None:
    pass


def creates_again_what_exists(patch: Patch) -> None:
    """A second promise.create resets the promise."""

    def create(request: Request, action: PromiseCreate, target: Any, ws: WorkingSet, now: Millis) -> Promise:
        existing = ws.promise(action.id)
        if existing is not None and existing.state != "pending" and action.settle is None:
            ws.put_promise(replace(existing, state="pending", settled_at=None))
        return original(request, action, target, ws, now)

    original = promises.create_promise
    patch.setattr(promises, "create_promise", create)
    patch.setattr(fence, "create_promise", create)


def fires_a_schedule_twice(patch: Patch) -> None:
    original = cron.due_occurrences

    def due_occurrences(*rest: Any) -> list[Millis]:
        due = list(original(*rest))
        return [*due, due[-1] - 1] if due else due

    patch.setattr(schedules, "due_occurrences", due_occurrences)


def never_fires_a_schedule(patch: Patch) -> None:
    def due_occurrences(*rest: Any) -> list[Millis]:
        return []

    patch.setattr(schedules, "due_occurrences", due_occurrences)


def waits_for_a_message_only(patch: Patch) -> None:
    """A caller registers once and counts on the message."""
    original = Session.__init__

    def init(self: Session, settings: Any, registry: Any, providers: Any, seams: Any, tasks: Any) -> None:
        original(self, settings, registry, providers, replace(seams, listen_again_s=float("inf")), tasks)

    patch.setattr(Session, "__init__", init)


def forgets_what_is_due(patch: Patch) -> None:
    """A node sweeps when it starts, and afterwards only what its own commits made due first."""
    original = node_module.Node._finish_sweep  # pyright: ignore[reportPrivateUsage]

    def finish_sweep(self: Any, taken: Any, done: Any) -> None:
        if done.exception() is None:
            outcome = done.result()
            quiet: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()
            quiet.set_result(replace(outcome, next_due=None))
            done = quiet
        original(self, taken, done)

    patch.setattr(node_module.Node, "_finish_sweep", finish_sweep)


def writes_without_the_fence(patch: Patch) -> None:
    """An execution records its steps as plain promises, and its own clock does not stop it in time."""

    async def write(self: Any, actions: Sequence[Any], asked: Sequence[Any] = ()) -> Sequence[Reply]:
        plain = [getattr(action, "data", action) for action in actions]
        replies: Sequence[Reply] = await self.ask([*plain, *asked])
        for reply in replies[: len(plain)]:
            if isinstance(reply.data, PromiseReply):
                self.learn(reply.data.promise)
        return replies[len(plain) :]

    patch.setattr(FencedWriter, "write", write)
    forget_the_clock(patch)
    patch.setattr(Heartbeat, "_ring", ignore_all)


# --- background tasks --------------------------------------------------------------------------------------


def does_not_count_a_retry(patch: Patch) -> None:
    original = jobs.fail

    def fail(task: Task, code: str, value: Any, delay: Any, ws: WorkingSet, now: Millis, **more: Any) -> None:
        original(task, code, value, delay, ws, now, **more)
        after = ws.task(task.id)
        assert after is not None
        if after.state == "pending":
            ws.put_task(replace(after, retries=task.retries))

    patch.setattr(jobs, "fail", fail)


def starts_what_has_expired(patch: Patch) -> None:
    """Nobody looks at the deadline of a task when it is claimed, and no timer rings for it."""

    def before_deadline(task: Task, instant: Millis) -> Millis:
        return instant

    def is_expired(task: Task, now: Millis) -> bool:
        return False

    for module in (claims, tasks, view, jobs):
        patch.setattr(module, "is_expired", is_expired)
    for module in (transitions, tasks):
        patch.setattr(module, "before_deadline", before_deadline)


def takes_a_late_result(patch: Patch) -> None:
    """Whoever ever held a background task may say how it ended."""

    def held_task(task_id: str, version: int, ws: WorkingSet, now: Millis, *more: Any) -> Task:
        task = tasks.find_task(task_id, ws)
        return original(task_id, task.version if task.job is not None else version, ws, now, *more)

    original = tasks.held_task
    patch.setattr(tasks, "held_task", held_task)
    patch.setattr(job_requests, "held_task", held_task)


def lets_one_too_many_through(patch: Patch) -> None:
    def is_shut(self: claims.Gate) -> bool:
        most = self.queue.concurrency
        return self.queue.paused or (most is not None and sum(self.held.values()) > most)

    patch.setattr(claims.Gate, "is_shut", property(is_shut))


def begins_before_its_time(patch: Patch) -> None:
    def offer(task: Task, ws: WorkingSet, now: Millis, *, rest_until: Millis = 0, **more: Any) -> None:
        original(task, ws, now, rest_until=rest_until if task.job is None else 0, **more)

    original = transitions.offer
    patch.setattr(promises, "offer", offer)
    patch.setattr(jobs, "offer", offer)


def forgets_that_it_crashed(patch: Patch) -> None:
    """A running task whose lease has lapsed is offered again, whatever its policy says."""

    def due(task: Task, ws: WorkingSet, now: Millis) -> None:
        if task.state == "acquired" and task.started_at is not None:
            jobs.go_back(task, ws, now)
        else:
            original(task, ws, now)

    original = jobs.due
    patch.setattr(jobs, "due", due)


def forgets_what_was_not_answered(patch: Patch) -> None:
    """A worker tells a result once, whether or not anybody hears it."""
    original = Outbox._again  # pyright: ignore[reportPrivateUsage]

    def again(self: Outbox, letters: list[PendingRequest]) -> None:
        original(self, [letter for letter in letters if letter.once])

    patch.setattr(Outbox, "_again", again)


class Where(Struct, frozen=True):
    """Where it is looked for: in at most so many seeds, on these stores."""

    seeds: int = 200
    stores: tuple[StoreKind, ...] = ("memory", "sqlite", "shared")


Mutation = Callable[[Patch], None]
MUTANTS: dict[Mutation, Where] = {
    skips_the_version_check: Where(),
    acknowledges_before_the_commit: Where(stores=("sqlite",)),
    forgets_callbacks_in_a_crash: Where(stores=("sqlite",)),
    loses_the_order_of_observations: Where(),
    never_lapses_a_lease: Where(),
    ignores_what_the_heartbeat_says_is_lost: Where(),
    never_offers_again: Where(),
    sleeps_on_what_has_settled: Where(),
    grants_without_a_new_version: Where(),
    drives_on_past_its_lease: Where(),
    creates_again_what_exists: Where(),
    fires_a_schedule_twice: Where(),
    never_fires_a_schedule: Where(),
    waits_for_a_message_only: Where(),
    forgets_what_is_due: Where(),
    writes_without_the_fence: Where(),
    does_not_count_a_retry: Where(),
    starts_what_has_expired: Where(),
    takes_a_late_result: Where(seeds=400),  # it takes a pause of just the right length
    lets_one_too_many_through: Where(),
    begins_before_its_time: Where(),
    forgets_that_it_crashed: Where(),
    forgets_what_was_not_answered: Where(),
}
