"""`holdfast retry ID`: an execution that failed, timed out or was cancelled goes on from where it failed."""

import argparse

from holdfast.cli.options import add_connection, deadline, duration
from holdfast.cli.output import print_json, print_line
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import ExecutionRetry


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_retry))
    parser.add_argument("id", help="the id of the execution")
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        type=duration,
        help="how long it may take from now on (as before)",
    )
    add_connection(parser)


async def _retry(session: CliSession, arguments: argparse.Namespace) -> None:
    timeout_at = None
    if arguments.timeout is not None:
        timeout_at = deadline(arguments.timeout, await session.now(arguments.id))
    promise = (await session.ask(ExecutionRetry(arguments.id, timeout_at), PromiseReply)).promise
    if arguments.json:
        print_json(PromiseReply(promise))
    else:
        print_line(f"{promise.id} continues; `holdfast tree {promise.id}` shows its progress")
