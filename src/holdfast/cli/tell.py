"""`holdfast tell ID --data JSON`: send a message to an execution. It is durable when the command returns."""

import argparse
import secrets

from holdfast.cli.options import add_connection, add_payload
from holdfast.cli.output import print_json, print_line
from holdfast.cli.payloads import payload
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol.replies import StreamAppendReply
from holdfast.protocol.requests import StreamAppend
from holdfast.protocol.streams import MAILBOX


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_tell))
    parser.add_argument("id", help="the id of the execution")
    add_payload(parser, "message")
    parser.add_argument("--key", help="messages with the same key are sent once")
    add_connection(parser)


async def _tell(session: CliSession, arguments: argparse.Namespace) -> None:
    message = payload(arguments.data, arguments.raw_data, dict(arguments.headers))
    key = secrets.token_hex(12) if arguments.key is None else arguments.key
    told = await session.ask(StreamAppend(arguments.id, MAILBOX, message, key), StreamAppendReply)
    if arguments.json:
        print_json(told)
    else:
        print_line(f"{told.promise.id} is the message {told.number} to {arguments.id}")
