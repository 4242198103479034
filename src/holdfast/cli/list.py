"""`holdfast list`: executions and background tasks, newest first."""

import argparse
from typing import Any, Final, get_args

from msgspec.structs import replace

from holdfast.cli.options import add_connection, add_tags, duration, page_size
from holdfast.cli.output import ago, brief, instant, print_json, print_line, print_more, print_table
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol import tags
from holdfast.protocol.executions import ExecutionStatus, ExecutionView
from holdfast.protocol.replies import CountsReply, ExecutionsReply
from holdfast.protocol.requests import ExecutionCount, ExecutionSearch

_statuses: Final = get_args(ExecutionStatus)
_newest_id: Final = "-"  # to learn the node's clock something is asked for


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_list))
    add_filters(parser)
    parser.add_argument("--count", action="store_true", help="how many there are of each status")
    parser.add_argument("--page", metavar="N", type=page_size, help="how many at a time (100)")
    parser.add_argument("--cursor", help="continue where a page ended")
    parser.add_argument("--all", action="store_true", help="all pages")
    add_connection(parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """What is true of all that is wanted."""
    parser.add_argument("name", nargs="?", help="only of this workflow or background task")
    parser.add_argument(
        "--status", action="append", choices=_statuses, help="only with this; may be given several times"
    )
    parser.add_argument("--kind", choices=("execution", "task"), help="only executions, or background tasks")
    parser.add_argument("--queue", help="only of this queue or group of workers")
    parser.add_argument("--error", metavar="CODE", help="only failed with this code or class of error")
    parser.add_argument("--since", metavar="DURATION", type=duration, help="started in the last DURATION")
    parser.add_argument("--until", metavar="DURATION", type=duration, help="started longer ago than DURATION")
    add_tags(parser, "only with this tag")
    parser.add_argument("--schedule", metavar="ID", help="only started by this schedule")
    parser.add_argument("--prefix", help="only ids with this prefix")


async def _list(session: CliSession, arguments: argparse.Namespace) -> None:
    now = 0
    if arguments.since is not None or arguments.until is not None:
        now = await session.now(_newest_id)
    filters = filters_of(arguments, now)
    if arguments.count:
        _print_counts(await session.ask(ExecutionCount(*filters), CountsReply), as_json=arguments.json)
        return
    search = replace(ExecutionSearch(*filters), limit=arguments.page, cursor=arguments.cursor)
    pages = await session.pages(search, ExecutionsReply, every=arguments.all)
    found = [execution for page in pages for execution in page.executions]
    if arguments.json:
        print_json(ExecutionsReply(found, pages[-1].cursor))
        return
    print_table(
        ["id", "name", "status", "since", "created", "code", "worker"], [_row(each) for each in found]
    )
    print_more(pages[-1].cursor)


def filters_of(arguments: argparse.Namespace, now: int) -> tuple[Any, ...]:
    """The fields of a search, in their order."""
    entries = dict(arguments.tags)
    if arguments.schedule is not None:
        entries[tags.SCHEDULE] = arguments.schedule
    return (
        arguments.kind,
        arguments.status,
        arguments.name,
        entries or None,
        arguments.queue,
        arguments.error,
        arguments.prefix,
        None if arguments.since is None else max(0, now - arguments.since),
        None if arguments.until is None else max(0, now - arguments.until),
    )


def _row(view: ExecutionView) -> list[str]:
    return [
        view.id,
        view.name or "",
        view.status,
        ago(view.since),
        instant(view.created_at) or "",
        view.code or "",
        brief(view.worker or "", 40),
    ]


def _print_counts(found: CountsReply, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for status, number in found.counts.items():
        if number:
            print_line(f"{number:>8}{'+' if status in found.more else ' '} {status}")
