"""`holdfast invoke ID --func F`: start a function on whichever worker has it.

The promise looks as if an SDK had made it: `{"func", "args", "version"}` as its param, and itself as the
origin of its lineage. Where and when it begins is said as by the options of a workflow. Its deadline and its
delay count by the node's clock. Under an id that another call has, nothing is started (IdTaken).
"""

import argparse
import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final, get_args

from msgspec.structs import replace

from holdfast.cli.calls import add_call, call_param
from holdfast.cli.failures import UsageError
from holdfast.cli.options import (
    add_connection,
    add_tags,
    deadline,
    default_target,
    duration,
    instant,
    instant_help,
)
from holdfast.cli.output import print_json, print_promise
from holdfast.cli.session import CliSession, with_session
from holdfast.jobs.send_request import fresh_end
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.limits import instant_ms_max
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import (
    CreateAction,
    ExecutionStart,
    OnExisting,
    PromiseCreate,
    PromiseGet,
    RequestData,
)
from holdfast.workflow.errors import BadStartOption
from holdfast.workflow.placement import OVERLAPS, Placement
from holdfast.workflow.same_call import check_same_call

look_s_min: Final = 0.05
look_s_max: Final = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_invoke))
    parser.add_argument("id", help="the id of the execution; the same id again is the same execution")
    add_call(parser, required=True)
    parser.add_argument(
        "--timeout", metavar="DURATION", type=duration, default=instant_ms_max, help="deadline (none)"
    )
    parser.add_argument(
        "--grace", metavar="DURATION", type=duration, help="how long it may clean up after its deadline (30s)"
    )
    parser.add_argument(
        "--target", metavar="ADDRESS", help=f"address of the workers that run it ({default_target})"
    )
    parser.add_argument("--queue", metavar="NAME", help="the queue in which it waits")
    parser.add_argument("--priority", type=int, metavar="N", help="higher ones first (0)")
    parser.add_argument("--limit-key", metavar="KEY", help="the key for the limits per key of the queue")
    parser.add_argument(
        "--overlap",
        choices=OVERLAPS,
        help="if another with this key is open in the queue: wait for the limits (the default), "
        "refuse this one, or ask the other one to cancel",
    )
    parser.add_argument(
        "--delay", metavar="DURATION", type=duration, help="start no earlier than after this time"
    )
    parser.add_argument("--at", type=instant, metavar="INSTANT", help=f"start no earlier; {instant_help}")
    add_tags(parser)
    parser.add_argument(
        "--on-existing",
        choices=get_args(OnExisting),
        default="return",
        help="what to do if an execution has this id already (%(default)s)",
    )
    parser.add_argument("--wait", action="store_true", help="wait until it is settled, and show the result")
    add_connection(parser)


async def _invoke(session: CliSession, arguments: argparse.Namespace) -> None:
    creation = _creation(arguments, await session.now(arguments.id))
    how = arguments.on_existing
    request: RequestData = creation
    if how != "return":
        request = ExecutionStart(CreateAction(replace(creation, ikc=f"start-{fresh_end()}")), how)
    promise = (await session.ask(request, PromiseReply)).promise
    check_same_call(creation.param, promise, Payloads())
    if arguments.wait:
        promise = await settled(session, promise)
    if arguments.json:
        print_json(PromiseReply(promise))
    else:
        print_promise(promise)


def _placement(arguments: argparse.Namespace) -> Placement:
    """As the options of a workflow say it."""
    if arguments.queue is not None and arguments.target is not None:
        raise UsageError("--queue and --target both say which workers run it: give one of them")
    at, delay_ms = arguments.at, arguments.delay
    try:
        return Placement().refined(
            queue=arguments.queue,
            priority=arguments.priority,
            limit_key=arguments.limit_key,
            overlap=arguments.overlap,
            delay=None if delay_ms is None else timedelta(milliseconds=delay_ms),
            at=None if at is None else datetime.fromtimestamp(at / 1000, UTC),
            grace=None if arguments.grace is None else timedelta(milliseconds=arguments.grace),
        )
    except BadStartOption as error:
        raise UsageError(str(error)) from None


def _creation(arguments: argparse.Namespace, now: Millis) -> PromiseCreate:
    placement = _placement(arguments)
    entries = {
        **dict(arguments.tags),
        tags.ORIGIN: arguments.id,
        tags.BRANCH: arguments.id,
        tags.PARENT: arguments.id,
        tags.SCOPE: "global",
        tags.TARGET: arguments.target or default_target,
        tags.WORKFLOW: arguments.func,
        **placement.entries(),
        **placement.delay(now),
    }
    timeout_at = deadline(arguments.timeout, now)
    if arguments.grace is not None:
        if timeout_at >= instant_ms_max:
            raise UsageError("--grace is the time after the deadline: give --timeout, too")
        ends = placement.ends(arguments.timeout)
        timeout_at, entries = deadline(ends.after_ms, now), entries | ends.entries
    return PromiseCreate(arguments.id, timeout_at, call_param(arguments), entries)


async def settled(session: CliSession, promise: Promise) -> Promise:
    """Look again and again, ever more rarely. Its deadline ends this in any case."""
    rest_s = look_s_min
    while promise.state == "pending":
        await asyncio.sleep(rest_s)
        rest_s = min(look_s_max, rest_s * 1.5)
        promise = (await session.ask(PromiseGet(promise.id), PromiseReply)).promise
    return promise
