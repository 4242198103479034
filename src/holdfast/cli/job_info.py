"""`holdfast tasks info`: all that is known of one background task, or of the task of an execution."""

import argparse

from holdfast.cli.durations import format_duration
from holdfast.cli.output import (
    brief,
    instant,
    print_block,
    print_json,
    print_line,
    print_table,
    shown_halt,
    shown_payload,
)
from holdfast.cli.payloads import called_function
from holdfast.cli.progress_bar import print_progress
from holdfast.cli.session import CliSession
from holdfast.jobs.telling import last_trouble, read_trouble
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.jobs import Attempt
from holdfast.protocol.records import Promise, TaskView
from holdfast.protocol.replies import PromiseReply, TaskReply
from holdfast.protocol.requests import PromiseGet, TaskGet


async def info(session: CliSession, arguments: argparse.Namespace) -> None:
    view = (await session.ask(TaskGet(arguments.id), TaskReply)).task
    if arguments.json:
        print_json(TaskReply(view))
        return
    promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    job = view.job
    if job is None:
        _print_execution(view, promise)
        return
    print_block(
        [
            ("id", view.id),
            ("task", promise.tags.get(tags.TASK)),
            ("queue", job.queue),
            ("status", "HALTED" if view.state == "halted" else job.status),
            ("halted", None if view.halted is None else instant(view.halted.at)),
            ("reason", shown_halt(view)),
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
            ("run again of", promise.tags.get(tags.RERUN_OF)),
            ("param", shown_payload(promise.param)),
            ("value", shown_payload(promise.value)),
        ]
    )
    print_progress(view.progress)
    if job.attempts:
        print_line()
        print_table(
            ["attempt", "outcome", "code", "took", "retried", "worker", "error"],
            [
                [
                    str(each.number),
                    each.outcome,
                    each.code or "",
                    format_duration(each.finished_at - each.started_at),
                    "yes" if each.will_retry else "",
                    brief(each.pid or "", 40),
                    brief(_error_of(each, promise), 60),
                ]
                for each in job.attempts
            ],
        )


def _error_of(attempt: Attempt, promise: Promise) -> str:
    """What a failed attempt said, as far as it can be read without the app's codec."""
    if attempt.outcome == "COMPLETED":
        return ""
    if attempt.will_retry:
        return read_trouble(attempt.error, Payloads()).message
    return last_trouble(promise, Payloads()).message


def _print_execution(view: TaskView, promise: Promise) -> None:
    print_block(
        [
            ("id", view.id),
            ("workflow", called_function(promise.param)),
            ("state", view.state if promise.state == "pending" else promise.state),
            ("halted", None if view.halted is None else instant(view.halted.at)),
            ("reason", shown_halt(view, 2_000)),
            ("worker", view.pid),
            ("version", str(view.version)),
            ("retries", str(view.retries) if view.retries else None),
            ("error", None if view.halted is not None else view.error),
            ("created", instant(promise.created_at)),
            ("deadline", instant(promise.timeout_at) if promise.settled_at is None else None),
            ("settled", instant(promise.settled_at)),
            ("param", shown_payload(promise.param)),
            ("value", shown_payload(promise.value)),
        ]
    )
    print_line()
    print_line(f"`holdfast tree {view.id}` draws what it did.")
