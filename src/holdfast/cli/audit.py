"""`holdfast audit`: who changed what through the management API, newest first."""

import argparse
import asyncio
from typing import Any

from holdfast.cli.management import asking
from holdfast.cli.options import add_connection
from holdfast.cli.output import instant, print_json, print_table


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("--who", metavar="NAME", help="only changes by this caller")
    parser.add_argument("--target", metavar="ID", help="only about this id or name")
    parser.add_argument("--count", type=int, default=50, help="how many, at most (50)")
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    entries = asyncio.run(_read(arguments))
    if arguments.json:
        print_json(entries)
    else:
        rows = [
            (
                instant(each["at"]) or "",
                each["who"],
                each["outcome"],
                each.get("code", ""),
                each["about"],
                each.get("target", ""),
            )
            for each in entries
        ]
        print_table(("at", "who", "outcome", "code", "what", "about"), rows)
    return 0


async def _read(arguments: argparse.Namespace) -> list[Any]:
    entries: list[Any] = []
    cursor: str | None = None
    async with asking(arguments) as management:
        while len(entries) < arguments.count:
            page = await management.get("audit", who=arguments.who, target=arguments.target, cursor=cursor)
            entries += page["entries"]
            cursor = page.get("cursor")
            if cursor is None:
                break
    return entries[: arguments.count]
