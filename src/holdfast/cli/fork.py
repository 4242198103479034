"""`holdfast fork ID STEP`: a new execution that has the records of another one before a step."""

import argparse

from holdfast.cli.calls import add_named_arguments, read_array
from holdfast.cli.options import add_connection, deadline, duration
from holdfast.cli.output import print_json, print_line
from holdfast.cli.payloads import parse_given
from holdfast.cli.session import CliSession, with_session
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import ExecutionFork, PromiseGet


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_fork))
    parser.add_argument("id", help="the id of the execution")
    parser.add_argument(
        "step", help="the name of a step, or the id of an operation: the new one starts before it"
    )
    parser.add_argument(
        "--as", dest="new_id", metavar="ID", required=True, help="the id of the new execution"
    )
    parser.add_argument("--args", metavar="JSON", help="other arguments: an array")
    add_named_arguments(parser, "a named argument; if you give one, give all of them")
    parser.add_argument("--timeout", metavar="DURATION", type=duration, help="how long it may take")
    add_connection(parser)


async def _fork(session: CliSession, arguments: argparse.Namespace) -> None:
    param = None
    if arguments.args is not None or arguments.kwargs:
        promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
        call = Payloads().decode_call(promise.param)
        args = [] if arguments.args is None else read_array("--args", arguments.args)
        kwargs = {name: parse_given(text) for name, text in arguments.kwargs}
        param = plain_call(call.function, args, kwargs, call.version)
    timeout_at = None
    if arguments.timeout is not None:
        timeout_at = deadline(arguments.timeout, await session.now(arguments.id))
    request = ExecutionFork(arguments.id, arguments.new_id, arguments.step, param, timeout_at)
    promise = (await session.ask(request, PromiseReply)).promise
    if arguments.json:
        print_json(PromiseReply(promise))
    else:
        print_line(f"{promise.id} continues from before {arguments.step} of {arguments.id}")
