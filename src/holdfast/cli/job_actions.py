"""What `holdfast tasks list, info, fail, cancel, promote, reschedule, rerun` and `send` do."""

import argparse
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.cli.calls import call_arguments
from holdfast.cli.failures import UsageError
from holdfast.cli.options import deadline
from holdfast.cli.output import (
    ago,
    instant,
    now_ms,
    print_done,
    print_json,
    print_more,
    print_promise,
    print_table,
    print_task,
    shown_halt,
)
from holdfast.cli.session import CliSession
from holdfast.client import expect
from holdfast.jobs.options import SendOptions
from holdfast.jobs.outcome import AttemptResult, store_error
from holdfast.jobs.policy import rule_of
from holdfast.jobs.result import TaskError
from holdfast.jobs.send_request import SendError, again, fresh_end, make_orders
from holdfast.jobs.task import AnyTask, TaskDefinition, TaskOptions
from holdfast.jobs.telling import write_trouble
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.ids import new_id
from holdfast.protocol.jobs import JobStatus, queue_group
from holdfast.protocol.records import TaskView
from holdfast.protocol.replies import PromiseReply, TaskReply, TasksReply
from holdfast.protocol.requests import PromiseGet, TaskCancel, TaskFail, TaskGet, TaskReschedule, TaskSearch
from holdfast.steps.providers import Providers
from holdfast.steps.retry import Retry
from holdfast.workflow.same_call import check_same_call

# A task, the priority of a queue, the codec of arguments, and who provides some of them.
Declared = tuple[AnyTask, Callable[[str], int | None], Payloads, Providers | None]

STATUSES: tuple[JobStatus, ...] = (
    "PENDING",
    "CLAIMED",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "EXPIRED",
)
HALTED = "HALTED"  # what no worker may claim until it is continued, executions too


async def list_(session: CliSession, arguments: argparse.Namespace) -> None:
    entries = dict(arguments.tags)
    if arguments.name:
        entries[tags.TASK] = arguments.name
    search = TaskSearch(
        state="halted" if arguments.status == HALTED else None,
        status=None if arguments.status == HALTED else arguments.status,
        group=None if arguments.queue is None else queue_group(arguments.queue),
        tags=entries or None,
        prefix=arguments.prefix,
        limit=arguments.page,
        cursor=arguments.cursor,
    )
    pages = await session.pages(search, TasksReply, every=arguments.all)
    found = [task for page in pages for task in page.tasks if task.job is not None or task.state == "halted"]
    if arguments.status is not None:
        found = [task for task in found if _status(task) == arguments.status]
    if arguments.json:
        print_json(TasksReply(found, pages[-1].cursor))
        return
    columns = ["id", "queue", "status", "attempts", "sent", "code", "worker"]
    rows = [_row(task) for task in found]
    if any(task.halted is not None for task in found):
        columns.append("halted")
        rows = [[*row, _why_halted(task)] for row, task in zip(rows, found, strict=True)]
    print_table(columns, rows)
    print_more(pages[-1].cursor)


def _status(task: TaskView) -> str:
    return HALTED if task.state == "halted" or task.job is None else task.job.status


def _row(task: TaskView) -> list[str]:
    job, code = task.job, None if task.halted is None else task.halted.code
    if job is None:  # an execution
        return [task.id, "", HALTED, "", "", code or "", ""]
    return [
        task.id,
        job.queue,
        _status(task),
        str(len(job.attempts)),
        instant(job.sent_at) or "",
        code or job.code or "",
        job.claimed_by or "",
    ]


def _why_halted(task: TaskView) -> str:
    return "" if task.halted is None else f"{ago(task.halted.at)}: {shown_halt(task, 80)}"


async def fail(session: CliSession, arguments: argparse.Namespace) -> None:
    failure = store_error(TaskError(arguments.code, arguments.message), Payloads())
    said = AttemptResult(failure.value, failure.code, message=failure.message)
    failed = TaskFail(
        arguments.id,
        arguments.version,
        arguments.code,
        failure.value,
        arguments.retry_delay,
        write_trouble(said, Payloads()),
    )
    reply = await session.ask(failed, TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_task(reply.task)


async def cancel(session: CliSession, arguments: argparse.Namespace) -> None:
    reply = await session.ask(TaskCancel(arguments.id, arguments.force), TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_done(False)


async def reschedule(session: CliSession, arguments: argparse.Namespace) -> None:
    """Without an instant: now."""
    reply = await session.ask(TaskReschedule(arguments.id, getattr(arguments, "at", None)), TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_done(False)


async def rerun(session: CliSession, arguments: argparse.Namespace) -> None:
    view = (await session.ask(TaskGet(arguments.id), TaskReply)).task
    if view.job is None or view.job.status not in ("FAILED", "CANCELLED", "EXPIRED"):
        status = view.state if view.job is None else view.job.status
        raise UsageError(f"{arguments.id} is {status}; only what failed, was cancelled or expired runs again")
    promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    _print(await session.ask(again(promise, now_ms(), fresh_end()), PromiseReply), arguments)


async def send(session: CliSession, arguments: argparse.Namespace) -> None:
    """The same requests as the library's: with `--app` the task is what the app declares."""
    task, queue_priority, payloads, providers = declared_task(arguments, arguments.func)
    if arguments.delay is not None and arguments.at is not None:
        raise UsageError("--delay and --at both say when it starts: give one of them")
    if arguments.on_conflict != "existing" and arguments.key is None:
        raise UsageError("--on-conflict needs a key: give --key")
    task_id = arguments.id or new_id(arguments.func, now_ms(), fresh_end())
    now = await session.now(task_id)
    options = SendOptions(
        id=task_id,
        queue=arguments.queue,
        priority=arguments.priority,
        good_until_ms=None if arguments.good_for is None else now + arguments.good_for,
        delay_ms=arguments.delay,
        at_ms=arguments.at,
        time_limit_s=None if arguments.time_limit is None else arguments.time_limit / 1000,
        on_conflict=arguments.on_conflict,
        timeout_ms=None if arguments.timeout is None else deadline(arguments.timeout, now) - now,
        key=arguments.key,
        limit_key=arguments.limit_key,
    )
    [order] = make_orders(
        task,
        options,
        [call_arguments(arguments)],
        sent_at=now,
        queue_priority=queue_priority(arguments.queue or task.queue),
        payloads=payloads,
        fresh=fresh_end,
        providers=providers,
    )
    if isinstance(order, SendError):
        raise UsageError(order.message)
    creation = replace(order.creation, tags={**dict(arguments.tags), **order.creation.tags})
    reply = expect(await session.reply(creation), PromiseReply)
    if reply.promise.id == task_id:  # else it is the one that holds the unique key
        check_same_call(creation.param, reply.promise, payloads, is_task=True)
    _print(reply, arguments)


def declared_task(arguments: argparse.Namespace, name: str) -> Declared:
    """The task as an app declares it; or as the options say, because no node knows what is declared where."""
    if arguments.app is None:
        retry = None
        if arguments.attempts is not None:
            retry = rule_of(Retry(attempts=arguments.attempts, delay=arguments.retry_base / 1000))
        task: AnyTask = TaskDefinition(_unknown, name, TaskOptions(retry=retry))
        return task, lambda _: None, Payloads(), None
    if arguments.attempts is not None:
        raise UsageError("--attempts and --app cannot both be given: the app says how often it is tried")
    from holdfast.cli.worker import find_app

    app = find_app(arguments.app)
    return app.tasks.find(name), app.tasks.priority_of, app.payloads, app.providers


def _unknown(*args: Any, **kwargs: Any) -> Any:
    """Stands for a function that is declared elsewhere: any arguments fit."""


def _print(reply: PromiseReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
    else:
        print_promise(reply.promise)
