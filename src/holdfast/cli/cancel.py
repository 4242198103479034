"""`holdfast cancel ID`: asks an execution to cancel itself, or ends it at once."""

import argparse

from holdfast.cli.options import add_connection
from holdfast.cli.output import print_json, print_line
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import ExecutionCancel


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_cancel))
    parser.add_argument("id", help="the id of the execution, or of any other promise")
    parser.add_argument(
        "--now",
        action="store_true",
        help="end it and what it called at once, without cleanup",
    )
    add_connection(parser)


async def _cancel(session: CliSession, arguments: argparse.Namespace) -> None:
    promise = (await session.ask(ExecutionCancel(arguments.id, arguments.now), PromiseReply)).promise
    if arguments.json:
        print_json(promise)
    elif promise.state == "pending":
        print_line(f"{promise.id} was asked to cancel itself; `holdfast tree {promise.id}` shows how it goes")
    else:
        print_line(f"{promise.id} is {promise.state}")
