"""`holdfast locks ...`: the locks that executions share, who holds them and who waits."""

import argparse

from holdfast.cli.output import instant, print_block, print_json, print_line, print_table
from holdfast.cli.session import CliSession, add_command
from holdfast.protocol.locks import Lock, Ticket
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import LockReply, LocksReply
from holdfast.protocol.requests import LockGet, LockRelease, LockSearch


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = add_command(commands, "list", "list the locks that are held or waited for", _list)
    listing.add_argument("--prefix", help="only names with this prefix")
    listing.add_argument("--all", action="store_true", help="also locks that are not in use")
    add_command(commands, "show", "show who holds a lock, and who waits for it", _show).add_argument(
        "name", help="the name of the lock"
    )
    release = add_command(commands, "release", "release a lock, or end a wait, by force", _release)
    release.add_argument("name", help="the name of the lock")
    release.add_argument("id", help="the execution that holds or waits, or one ticket of it")
    release.add_argument("--reason", required=True, help="why; it is kept with the lock")


async def _list(session: CliSession, arguments: argparse.Namespace) -> None:
    found: list[Lock] = []
    cursor: str | None = None
    while True:
        search = LockSearch(arguments.prefix, None, cursor, not arguments.all)
        page = await session.ask(search, LocksReply)
        found += page.locks
        cursor = page.cursor
        if cursor is None:
            break
    if arguments.json:
        print_json(LocksReply(found))
        return
    print_table(
        ["lock", "permits", "held", "waiting", "held by", "since"],
        [
            [
                lock.name,
                str(lock.limit),
                str(lock.limit - lock.free),
                str(len(lock.waiters)),
                lock.holders[0].execution if lock.holders else "",
                _instant(lock.holders[0].since) if lock.holders else "",
            ]
            for lock in found
        ],
    )


async def _show(session: CliSession, arguments: argparse.Namespace) -> None:
    _print(await session.ask(LockGet(arguments.name), LockReply), arguments)


async def _release(session: CliSession, arguments: argparse.Namespace) -> None:
    _print(
        await session.ask(LockRelease(arguments.name, arguments.id, arguments.reason), LockReply), arguments
    )


def _print(reply: LockReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
        return
    lock = reply.lock
    forced = lock.forced
    print_block(
        [
            ("lock", lock.name),
            ("permits", str(lock.limit)),
            ("held", str(lock.limit - lock.free)),
            ("last token", str(lock.token)),
            ("idle since", None if lock.idle_since is None else instant(lock.idle_since)),
            (
                "forced",
                None if forced is None else f"{forced.execution}, {instant(forced.at)}: {forced.reason}",
            ),
        ]
    )
    for title, tickets in (("held by", lock.holders), ("waits", lock.waiters)):
        if tickets:
            print_line()
            print_table([title, "ticket", "permits", "since", "token"], [*map(_row, tickets)])


def _row(ticket: Ticket) -> list[str]:
    token = str(ticket.token) if ticket.token else ""
    return [ticket.execution, ticket.id, str(ticket.count), _instant(ticket.since), token]


def _instant(at: Millis) -> str:
    return instant(at) or ""
