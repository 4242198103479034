"""`holdfast event NAME --data JSON`: send an event. It is durable when the command returns."""

import argparse
import secrets

import msgspec

from holdfast.cli.options import add_connection
from holdfast.cli.output import print_json, print_line
from holdfast.cli.session import CliSession, with_session
from holdfast.payloads.errors import BadEvent
from holdfast.payloads.event_values import encode_event
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.replies import EventReply
from holdfast.protocol.requests import EventSend


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_send))
    parser.add_argument("name", help="the name of the event")
    parser.add_argument("--data", default="{}", metavar="JSON", help="its attributes, a JSON object")
    parser.add_argument("--id", help="events with the same id are sent once")
    add_connection(parser)


async def _send(session: CliSession, arguments: argparse.Namespace) -> None:
    try:
        attributes = msgspec.json.decode(arguments.data, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise BadEvent(f"--data is not a JSON object: {error}") from None
    value, match = encode_event(Payloads(), attributes)
    key = arguments.id or secrets.token_hex(12)
    sent = await session.ask(EventSend(arguments.name, key, value, match), EventReply)
    if arguments.json:
        print_json(sent)
    else:
        print_line(f"{arguments.name} was sent as event {sent.event.number}, id {sent.event.id}")
