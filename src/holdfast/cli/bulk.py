"""`holdfast bulk ACTION`: cancels, retries, halts, resumes or forks all that a filter finds.

The node does it in the background, also after this command has ended, and after a crash.
`holdfast bulk show ID` tells how far it has come, `holdfast bulk stop ID` ends it, `holdfast bulk list` names
the latest.
"""

import argparse
import asyncio
from typing import Final, get_args

from holdfast.cli.examples import sentence
from holdfast.cli.failures import UsageError
from holdfast.cli.list import add_filters, filters_of
from holdfast.cli.options import add_connection, page_size
from holdfast.cli.output import print_json, print_line, print_more
from holdfast.cli.session import CliSession, with_session
from holdfast.host.bulk import BulkProgress, begin_bulk, progress_of
from holdfast.jobs.send_request import fresh_end
from holdfast.protocol.bulk import NAME, BulkAction, count_of, names_everything, wanted_by
from holdfast.protocol.ids import new_id
from holdfast.protocol.replies import CountsReply, ExecutionsReply, PromiseReply
from holdfast.protocol.requests import ExecutionCancel, ExecutionSearch

look_s: Final = 0.2
_newest_id: Final = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for action in get_args(BulkAction):
        line = f"{action} all that the filter finds"
        one = actions.add_parser(action, help=line, description=sentence(line))
        one.set_defaults(run=with_session(_begin), action=action)
        add_filters(one)
        one.add_argument("--all", action="store_true", help="everything: needed if no filter is given")
        one.add_argument("--id", help="the id of the operation; the same id is the same operation")
        one.add_argument("--dry-run", action="store_true", help="only count how many there are")
        one.add_argument("--wait", action="store_true", help="until it is over")
        if action == "cancel":
            one.add_argument("--now", action="store_true", help="end them at once")
        if action == "fork":
            one.add_argument("--before", metavar="STEP", required=True, help="the name of a step")
        if action == "halt":
            one.add_argument("--reason", default="halted in bulk", help="why, for people")
        add_connection(one)
    for name, run, about in (
        ("show", _show, "show the progress of an operation"),
        ("stop", _stop, "end an operation; what is done stays done"),
    ):
        one = actions.add_parser(name, help=about, description=sentence(about))
        one.set_defaults(run=with_session(run))
        one.add_argument("bulk_id", metavar="ID", help="the id of the operation")
        add_connection(one)
    line = "list operations, newest first"
    listing = actions.add_parser("list", help=line, description=sentence(line))
    listing.set_defaults(run=with_session(_list))
    listing.add_argument("--page", metavar="N", type=page_size, help="how many at a time (20)", default=20)
    listing.add_argument("--cursor", help="continue where a page ended")
    add_connection(listing)


async def _begin(session: CliSession, arguments: argparse.Namespace) -> None:
    now = await session.now(_newest_id)
    search = ExecutionSearch(*filters_of(arguments, now))
    if arguments.dry_run:
        await _count(session, arguments, search, now)
        return
    if names_everything(search) and not arguments.all:
        raise UsageError(
            f"`bulk {arguments.action}` without a filter would {arguments.action} everything: "
            "give a filter, or --all; --dry-run counts"
        )
    bulk_id = arguments.id or new_id("bulk", now, fresh_end())
    options = {
        name: getattr(arguments, name) for name in ("now", "reason", "before") if hasattr(arguments, name)
    }
    await begin_bulk(session.caller, bulk_id, arguments.action, search, now, **options)
    if not arguments.json:
        print_line(f"{bulk_id} is under way; `holdfast bulk show {bulk_id}` tells how far it has come")
    progress = await progress_of(session.caller, bulk_id)
    while arguments.wait and not progress.is_over:
        await asyncio.sleep(look_s)
        progress = await progress_of(session.caller, bulk_id)
    if arguments.wait or arguments.json:
        _print(bulk_id, progress, as_json=arguments.json)


async def _count(
    session: CliSession, arguments: argparse.Namespace, search: ExecutionSearch, now: int
) -> None:
    counts = await session.ask(count_of(wanted_by(arguments.action, search, now)), CountsReply)
    if arguments.json:
        print_json(counts)
    else:
        more = "+" if counts.more else ""
        print_line(f"{sum(counts.counts.values())}{more} would be asked to {arguments.action}")


async def _list(session: CliSession, arguments: argparse.Namespace) -> None:
    search = ExecutionSearch(name=NAME, limit=arguments.page, cursor=arguments.cursor)
    page = await session.ask(search, ExecutionsReply)
    found = [(each.id, await progress_of(session.caller, each.id)) for each in page.executions]
    if arguments.json:
        operations = [{"id": bulk_id, "progress": progress} for bulk_id, progress in found]
        print_json({"operations": operations, "cursor": page.cursor})
        return
    for bulk_id, progress in found:
        _print(bulk_id, progress, as_json=False)
    print_more(page.cursor)


async def _show(session: CliSession, arguments: argparse.Namespace) -> None:
    progress = await progress_of(session.caller, arguments.bulk_id)
    _print(arguments.bulk_id, progress, as_json=arguments.json)


async def _stop(session: CliSession, arguments: argparse.Namespace) -> None:
    await progress_of(session.caller, arguments.bulk_id)  # or say that it is none
    await session.ask(ExecutionCancel(arguments.bulk_id, now=True), PromiseReply)
    await _show(session, arguments)


def _print(bulk_id: str, progress: BulkProgress, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": bulk_id, "progress": progress})
        return
    left = "" if progress.left is None else f", {progress.left} left"
    print_line(
        f"{bulk_id} {progress.action} {progress.state}: {progress.done} done, {progress.failed} failed, "
        f"{progress.skipped} skipped{left}"
    )
    for code, number in progress.codes.items():
        print_line(f"{number:>8} {code}")
