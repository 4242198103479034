"""What `holdfast tasks list, info, fail, cancel, rerun` and `send` do: background tasks and their life."""

import argparse
import time

import msgspec

from holdfast.cli.calls import call_param
from holdfast.cli.failures import UsageError
from holdfast.cli.options import deadline
from holdfast.cli.output import (
    brief,
    instant,
    now_ms,
    print_block,
    print_done,
    print_json,
    print_line,
    print_more,
    print_promise,
    print_table,
    print_task,
    shown_payload,
)
from holdfast.cli.session import Session
from holdfast.client import expect
from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import JobSpec, JobStatus, queue_group
from holdfast.protocol.records import TaskState, TaskView
from holdfast.protocol.replies import PromiseReply, TaskReply, TasksReply
from holdfast.protocol.requests import PromiseCreate, PromiseGet, TaskCancel, TaskFail, TaskGet, TaskSearch
from holdfast.tasks.order import RERUN_OF, SCOPE, TASK, again, fresh_end, new_id
from holdfast.tasks.outcome import store_error
from holdfast.tasks.result import TaskError
from holdfast.worker.payload import Payloads

STATUSES: tuple[JobStatus, ...] = (
    "PENDING",
    "CLAIMED",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "EXPIRED",
)
# What the store can look for; the rest is picked from what it finds.
_states: dict[str, TaskState] = {"CLAIMED": "acquired", "RUNNING": "acquired", "PENDING": "pending"}


async def list_(session: Session, arguments: argparse.Namespace) -> None:
    entries = dict(arguments.tags)
    if arguments.name:
        entries[TASK] = arguments.name
    search = TaskSearch(
        state=None if arguments.status is None else _states.get(arguments.status, "fulfilled"),
        group=None if arguments.queue is None else queue_group(arguments.queue),
        tags=entries or None,
        prefix=arguments.prefix,
        limit=arguments.page,
        cursor=arguments.cursor,
    )
    pages = await session.pages(search, TasksReply, every=arguments.all)
    found = [task for page in pages for task in page.tasks if task.job is not None]
    if arguments.status is not None:
        found = [task for task in found if task.job is not None and task.job.status == arguments.status]
    if arguments.json:
        print_json(TasksReply(found, pages[-1].cursor))
        return
    print_table(
        ["id", "queue", "status", "attempts", "sent", "code", "worker"], [_row(task) for task in found]
    )
    print_more(pages[-1].cursor)


def _row(task: TaskView) -> list[str]:
    job = task.job
    assert job is not None
    return [
        task.id,
        job.queue,
        job.status,
        str(len(job.attempts)),
        instant(job.sent_at) or "",
        job.code or "",
        job.claimed_by or "",
    ]


async def info(session: Session, arguments: argparse.Namespace) -> None:
    view = (await session.ask(TaskGet(arguments.id), TaskReply)).task
    if arguments.json:
        print_json(TaskReply(view))
        return
    promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    job = view.job
    if job is None:
        raise UsageError(f"{arguments.id} belongs to a workflow: `holdfast tree {arguments.id}` shows it")
    print_block(
        [
            ("id", view.id),
            ("task", promise.tags.get(TASK)),
            ("queue", job.queue),
            ("status", job.status),
            ("code", job.code),
            ("priority", str(job.priority)),
            ("retries", f"{job.retries} of {job.retry.limit if job.retry else 0}"),
            ("sent", instant(job.sent_at)),
            ("enqueued", instant(job.enqueued_at)),
            ("claimed", instant(job.claimed_at)),
            ("claimed by", job.claimed_by),
            ("started", instant(job.started_at)),
            ("finished", instant(job.finished_at)),
            ("next retry", instant(job.next_retry_at) if view.state == "pending" else None),
            ("good until", instant(job.good_until)),
            ("key", job.unique),
            ("limit key", job.key),
            ("run again of", promise.tags.get(RERUN_OF)),
            ("param", shown_payload(promise.param)),
            ("value", shown_payload(promise.value)),
        ]
    )
    if job.attempts:
        print_line()
        print_table(
            ["attempt", "outcome", "code", "took", "retried", "worker"],
            [
                [
                    str(each.number),
                    each.outcome,
                    each.code or "",
                    f"{each.finished_at - each.started_at}ms",
                    "yes" if each.will_retry else "",
                    brief(each.pid or "", 40),
                ]
                for each in job.attempts
            ],
        )


async def fail(session: Session, arguments: argparse.Namespace) -> None:
    verdict = store_error(TaskError(arguments.code, arguments.message), Payloads())
    failed = TaskFail(arguments.id, arguments.version, arguments.code, verdict.value, arguments.retry_delay)
    reply = await session.ask(failed, TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_task(reply.task)


async def cancel(session: Session, arguments: argparse.Namespace) -> None:
    reply = await session.ask(TaskCancel(arguments.id, arguments.force), TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_done(False)


async def rerun(session: Session, arguments: argparse.Namespace) -> None:
    view = (await session.ask(TaskGet(arguments.id), TaskReply)).task
    if view.job is None or view.job.status not in ("FAILED", "CANCELLED", "EXPIRED"):
        status = view.state if view.job is None else view.job.status
        raise UsageError(f"{arguments.id} is {status}; only what failed, was cancelled or expired runs again")
    promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    _print(await session.ask(again(promise, now_ms(), fresh_end()), PromiseReply), arguments)


async def send(session: Session, arguments: argparse.Namespace) -> None:
    now = now_ms()
    task_id = arguments.id or new_id(arguments.func, time.time_ns() // 1_000_000, fresh_end())
    good_until = None if arguments.good_for is None else now + arguments.good_for
    spec = JobSpec(sent_at=now, good_until=good_until, key=arguments.limit_key, unique=arguments.key)
    entries = {
        **dict(arguments.tags),
        tags.ORIGIN: task_id,
        tags.BRANCH: task_id,
        tags.PARENT: task_id,
        SCOPE: "global",
        tags.TARGET: f"poll://any@{queue_group(arguments.queue)}",
        tags.JOB: msgspec.json.encode(spec).decode(),
        TASK: arguments.func,
    }
    if arguments.priority:
        entries[tags.PRIORITY] = str(arguments.priority)
    if arguments.delay is not None:
        entries[tags.DELAY] = str(now + arguments.delay)
    ends = limits.instant_ms_max if arguments.timeout is None else deadline(arguments.timeout, now)
    creation = PromiseCreate(task_id, ends, call_param(arguments), entries)
    _print(expect(await session.reply(creation), PromiseReply), arguments)


def _print(reply: PromiseReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
    else:
        print_promise(reply.promise)
