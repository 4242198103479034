"""`holdfast tasks continue`: puts a halted task back, or all that were halted for one reason.

All is done in short commits of a few hundred. It may be interrupted anywhere and run again: what has been put
back is halted no more.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.cli.failures import UsageError
from holdfast.cli.options import Subparsers, add_tags
from holdfast.cli.output import ago, print_done, print_json, print_line, print_table, shown_halt
from holdfast.cli.payloads import called_function
from holdfast.cli.session import CliSession, add_command
from holdfast.client import expect
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.limits import page_size_max
from holdfast.protocol.records import TaskView
from holdfast.protocol.replies import Empty, PromiseReply, TasksReply
from holdfast.protocol.requests import PromiseGet, TaskContinue, TaskSearch

commit_count: Final = 200
gone_statuses: Final = (404, 409)  # it ended, or somebody else has continued it


class Continued(Struct, frozen=True):
    """What was put back, or would be; `gone`: halted no more when its turn came."""

    continued: list[str]
    gone: list[str]


def add_continue(commands: "Subparsers[argparse.ArgumentParser]") -> None:
    parser = add_command(commands, "continue", "continue a halted task, or many with --all", _continue)
    parser.add_argument("id", nargs="?", help="the id of one task")
    parser.add_argument("--version", type=int, help="the version of its claim")
    add_tags(parser, "only with this tag")
    many = parser.add_argument_group("many at once")
    many.add_argument("--all", action="store_true", help="all halted tasks that match the filters")
    many.add_argument("--workflow", metavar="NAME", help="only of this workflow, or background task")
    many.add_argument("--code", help="only halted with this code, like HF5101")
    many.add_argument("--reason", metavar="TEXT", help="only with this text in their reason")
    many.add_argument("--queue", help="only of this queue")
    many.add_argument("--prefix", help="only ids with this prefix")
    many.add_argument("--dry-run", action="store_true", help="only show them")


async def _continue(session: CliSession, arguments: argparse.Namespace) -> None:
    if (arguments.id is None) != arguments.all:
        raise UsageError("`tasks continue` takes the id of a task, or --all with filters")
    if arguments.all and arguments.version is not None:
        raise UsageError("--version belongs to one task and cannot be used with --all")
    if arguments.id is not None:
        await session.do(TaskContinue(arguments.id, arguments.version))
        print_done(arguments.json)
        return
    found = await find_halted(session, arguments)
    if arguments.dry_run:
        done = Continued([task.id for task in found], [])
    else:
        done = await continue_all(session, found)
    if arguments.json:
        print_json(done)
    elif arguments.dry_run and found:
        rows = [[task.id, _since(task), shown_halt(task, 80) or ""] for task in found]
        print_table(["id", "halted", "why"], rows)
    else:
        gone = f"; {len(done.gone):,} were halted no more" if done.gone else ""
        print_line(f"{len(done.continued):,} continued{gone}")


def _since(task: TaskView) -> str:
    return "" if task.halted is None else ago(task.halted.at)


async def find_halted(session: CliSession, arguments: argparse.Namespace) -> list[TaskView]:
    search = TaskSearch(
        state="halted",
        group=None if arguments.queue is None else queue_group(arguments.queue),
        tags=dict(arguments.tags) or None,
        prefix=arguments.prefix,
        limit=page_size_max,
    )
    pages = await session.pages(search, TasksReply, every=True)
    found = [task for page in pages for task in page.tasks if _fits(task, arguments.code, arguments.reason)]
    return found if arguments.workflow is None else await _of_workflow(session, found, arguments.workflow)


def _fits(task: TaskView, code: str | None, reason: str | None) -> bool:
    if code is None and reason is None:
        return True
    halted = task.halted
    return halted is not None and code in (None, halted.code) and (reason is None or reason in halted.reason)


async def _of_workflow(session: CliSession, tasks: Sequence[TaskView], name: str) -> list[TaskView]:
    found: list[TaskView] = []
    for start in range(0, len(tasks), commit_count):
        part = tasks[start : start + commit_count]
        replies = await session.ask_all([PromiseGet(task.id) for task in part], PromiseReply)
        names = [called_function(reply.promise.param) for reply in replies]
        found += [task for task, called in zip(part, names, strict=True) if called == name]
    return found


async def continue_all(session: CliSession, tasks: Sequence[TaskView]) -> Continued:
    """At the version that was seen: who was halted again for another reason meanwhile stays so."""
    done = Continued([], [])
    for start in range(0, len(tasks), commit_count):
        part = tasks[start : start + commit_count]
        replies = await session.replies([TaskContinue(task.id, task.version) for task in part])
        for task, reply in zip(part, replies, strict=True):
            if reply.status in gone_statuses:
                done.gone.append(task.id)
                continue
            expect(reply, Empty)
            done.continued.append(task.id)
    return done
