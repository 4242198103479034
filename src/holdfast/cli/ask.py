"""`holdfast ask ID --data JSON`: send a message to an execution, wait for its answer and print it."""

import argparse
import secrets

from holdfast.cli.failures import AskedInVain
from holdfast.cli.invoke import settled
from holdfast.cli.options import add_connection, add_payload, deadline, duration
from holdfast.cli.output import print_json, print_json_text
from holdfast.cli.payloads import decode_text, payload
from holdfast.cli.session import CliSession, with_session
from holdfast.cli.tree_lines import error_line
from holdfast.protocol.errors import ExecutionOver, unanswered
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.replies import PromiseReply, StreamAppendReply
from holdfast.protocol.requests import StreamAnswer, StreamAppend
from holdfast.protocol.streams import MAILBOX


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_ask))
    parser.add_argument("id", help="the id of the execution")
    add_payload(parser, "message")
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        type=duration,
        default=60_000,
        help="how long to wait for the answer (1m)",
    )
    add_connection(parser)


async def _ask(session: CliSession, arguments: argparse.Namespace) -> None:
    message = payload(arguments.data, arguments.raw_data, dict(arguments.headers))
    wanted = StreamAnswer(deadline(arguments.timeout, await session.now(arguments.id)))
    asked = StreamAppend(arguments.id, MAILBOX, message, secrets.token_hex(12), wanted)
    told = await session.ask(asked, StreamAppendReply)
    assert told.answer is not None
    answer = await settled(session, told.answer)
    if arguments.json:
        print_json(PromiseReply(answer))
    elif answer.state == "resolved":
        print_json_text(decode_text(answer.value) or "null")
    if answer.state == "rejected":
        raise AskedInVain(f"{arguments.id} refused the message: {error_line(answer.value) or 'no reason'}")
    if (answer.value.headers or {}).get(CODE_HEADER) == ExecutionOver.code:
        raise ExecutionOver(arguments.id, unanswered)
    if answer.state != "resolved":
        raise AskedInVain(f"{arguments.id} gave no answer in time")
