"""`holdfast tasks ...`: what may be written on the command line."""

import argparse

from holdfast.cli import job_actions as jobs, task_actions as actions
from holdfast.cli.calls import add_call
from holdfast.cli.halted import add_continue
from holdfast.cli.job_info import info
from holdfast.cli.options import (
    Subparsers,
    add_creation,
    add_declared,
    add_paging,
    add_payload,
    add_tags,
    default_target,
    duration,
    instant,
    instant_help,
)
from holdfast.cli.session import add_command
from holdfast.jobs.options import ON_CONFLICT

states = ("pending", "acquired", "suspended", "halted", "fulfilled")
settlements = ("resolved", "rejected", "rejected_canceled")


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_background(commands)
    add_command(commands, "get", "show a task", actions.get).add_argument("id", help="the id of the task")

    create = add_command(
        commands, "create", "create a promise with a task and claim it at once", actions.create
    )
    create.add_argument("id", help="the id of the task")
    add_creation(create, target=default_target)
    _add_claim(create)

    acquire = add_command(commands, "acquire", "claim a task by its id", actions.acquire)
    _add_ref(acquire)
    _add_claim(acquire)

    claim = add_command(commands, "claim", "claim pending tasks of groups", actions.claim)
    claim.add_argument("groups", nargs="+", metavar="GROUP", help="claim tasks of these groups of workers")
    claim.add_argument("--count", type=int, default=1, help="how many, at most (1)")
    _add_claim(claim)

    _add_ref(add_command(commands, "start", "report that a claimed task has started", actions.start))

    fence = add_command(
        commands, "fence", "create or settle a promise as the holder of a task", actions.fence
    )
    _add_ref(fence)
    which = fence.add_mutually_exclusive_group(required=True)
    which.add_argument("--create", metavar="PROMISE", help="create this promise under the fence")
    which.add_argument("--settle", metavar="PROMISE", help="settle this promise under the fence")
    fence.add_argument("--state", choices=settlements, default="resolved", help="with --settle (resolved)")
    add_creation(fence)

    heartbeat = add_command(commands, "heartbeat", "keep claims alive", actions.heartbeat)
    heartbeat.add_argument("--pid", required=True, help="the name of the process that holds them")
    heartbeat.add_argument(
        "refs", nargs="*", metavar="ID@VERSION", help="which tasks (all that the pid holds)"
    )

    suspend = add_command(
        commands, "suspend", "give a task back until one of some promises settles", actions.suspend
    )
    _add_ref(suspend)
    suspend.add_argument("awaited", nargs="+", metavar="PROMISE", help="wait for one of these")

    fulfill = add_command(commands, "fulfill", "finish a task: settle its promise", actions.fulfill)
    _add_ref(fulfill)
    fulfill.add_argument("--state", choices=settlements, default="resolved", help="how it ends (resolved)")
    add_payload(fulfill, "value")
    fulfill.add_argument("--key", help="an idempotency key")

    release = add_command(commands, "release", "give a task back for another worker", actions.release)
    _add_ref(release)
    release.add_argument(
        "--retry-delay",
        metavar="DURATION",
        type=duration,
        help="wait this long before another worker gets it",
    )
    release.add_argument("--error", help="why it failed; with --retry-delay")

    halt = add_command(commands, "halt", "halt a task until it is continued", actions.halt)
    _add_ref(halt, required=False)
    halt.add_argument("--reason", metavar="TEXT", default="halted by hand", help="why (%(default)s)")
    halt.add_argument("--code", help="a code for the reason, for `continue --all --code`")
    add_continue(commands)

    search = add_command(commands, "search", "list tasks, by id", actions.search)
    search.add_argument("--state", choices=states, help="only in this state")
    search.add_argument("--target", metavar="ADDRESS", help="only for this address")
    search.add_argument("--group", help="only for workers of this group")
    search.add_argument("--pid", help="only held by this process")
    add_paging(search)


def _add_background(commands: "Subparsers[argparse.ArgumentParser]") -> None:
    """Those of queues: what their lifecycle says, and what can be done about it."""
    listing = add_command(commands, "list", "list background tasks and halted tasks, by id", jobs.list_)
    listing.add_argument("--status", choices=(*jobs.STATUSES, jobs.HALTED), help="only in this state")
    listing.add_argument("--queue", help="only of this queue")
    listing.add_argument("--name", help="only of this function")
    add_paging(listing)

    show = add_command(
        commands, "info", "show a background task with its times and attempts, or an execution", info
    )
    show.add_argument("id", help="the id of the task")

    fail = add_command(commands, "fail", "report that an attempt at a background task has failed", jobs.fail)
    _add_ref(fail)
    fail.add_argument("--code", required=True, help="what went wrong, like SMTP_DOWN")
    fail.add_argument("--message", metavar="TEXT", help="the error message, for people")
    fail.add_argument(
        "--retry-delay",
        metavar="DURATION",
        type=duration,
        help="if it is retried, wait at least this long",
    )

    add_command(commands, "promote", "start a waiting background task now", jobs.reschedule).add_argument(
        "id", help="the id of the task"
    )
    later = add_command(
        commands, "reschedule", "start a waiting background task at another time", jobs.reschedule
    )
    later.add_argument("id", help="the id of the task")
    later.add_argument("--at", type=instant, metavar="INSTANT", required=True, help=instant_help)

    cancel = add_command(commands, "cancel", "end a background task", jobs.cancel)
    cancel.add_argument("id", help="the id of the task")
    cancel.add_argument("--force", action="store_true", help="also while it runs")

    add_command(commands, "rerun", "run a failed task again, under a new id", jobs.rerun).add_argument(
        "id", help="the id of the task"
    )

    send = add_command(commands, "send", "queue a background task", jobs.send)
    send.add_argument("--id", help="the id of the task (a new one)")
    add_call(send, required=True)
    add_declared(send)
    send.add_argument("--queue", help="where it waits (what the app says, or default)")
    send.add_argument("--priority", type=int, help="higher ones first")
    send.add_argument(
        "--delay", metavar="DURATION", type=duration, help="start no earlier than after this time"
    )
    send.add_argument(
        "--good-for", metavar="DURATION", type=duration, help="start no later than after this time"
    )
    send.add_argument("--at", type=instant, metavar="INSTANT", help=f"start no earlier; {instant_help}")
    send.add_argument("--time-limit", metavar="DURATION", type=duration, help="how long one attempt may take")
    send.add_argument(
        "--timeout", metavar="DURATION", type=duration, help="how long it may take in all, with its waits"
    )
    send.add_argument("--key", help="a unique key: at most one open task has it")
    send.add_argument(
        "--on-conflict",
        choices=ON_CONFLICT,
        default="existing",
        help="if an open task has the key: show that one (the default), replace it, or refuse this one",
    )
    send.add_argument("--limit-key", help="the key for limits per key")
    add_tags(send)


def _add_ref(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("id", help="the id of the task")
    parser.add_argument("--version", type=int, required=required, help="the version of the claim")


def _add_claim(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pid", default="cli", help="the name of the process that claims (%(default)s)")
    parser.add_argument(
        "--ttl",
        metavar="DURATION",
        type=duration,
        default=60_000,
        help="how long the claim lasts without a heartbeat (1m)",
    )
