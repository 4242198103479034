"""`holdfast events NAME`: the events of a name, newest first."""

import argparse

from holdfast.cli.options import add_connection
from holdfast.cli.output import instant, print_json, print_table, shown_payload
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol.replies import EventsReply
from holdfast.protocol.requests import EventSearch


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_list))
    parser.add_argument("name", help="the name of the events")
    parser.add_argument("--count", type=int, default=20, help="how many, at most (20)")
    add_connection(parser)


async def _list(session: CliSession, arguments: argparse.Namespace) -> None:
    found = await session.ask(EventSearch(arguments.name, None, arguments.count), EventsReply)
    if arguments.json:
        print_json(found)
        return
    print_table(
        ["number", "sent", "id", "attributes"],
        [
            [
                str(event.number),
                instant(event.at) or "",
                event.id or "",
                str(shown_payload(event.value) or ""),
            ]
            for event in found.events
        ],
    )
