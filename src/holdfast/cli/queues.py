"""`holdfast queues ...`: the queues of background tasks."""

import argparse

from holdfast.cli.options import add_queue_limits
from holdfast.cli.output import print_block, print_json, print_table
from holdfast.cli.session import CliSession, add_command
from holdfast.jobs.errors import BadOption
from holdfast.jobs.registry import parse_rate
from holdfast.protocol.jobs import QueueView, Rate
from holdfast.protocol.replies import QueueReply, QueuesReply
from holdfast.protocol.requests import QueueGet, QueuePause, QueueSearch, QueueSet


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = add_command(commands, "list", "list the queues that have limits or are paused", _list)
    listing.add_argument("--prefix", help="only names with this prefix")
    add_command(
        commands, "show", "show the limits of a queue, and how many tasks wait and run", _show
    ).add_argument("name", help="the name of the queue")
    add_command(commands, "pause", "start no more tasks; running ones continue", _pause).add_argument(
        "name", help="the name of the queue"
    )
    add_command(commands, "resume", "start tasks again", _resume).add_argument(
        "name", help="the name of the queue"
    )
    change = add_command(commands, "set", "replace all limits; a limit that is left out is removed", _set)
    change.add_argument("name", help="the name of the queue")
    add_queue_limits(change)


async def _list(session: CliSession, arguments: argparse.Namespace) -> None:
    found: list[QueueView] = []
    cursor: str | None = None
    while True:
        page = await session.ask(QueueSearch(arguments.prefix, None, cursor), QueuesReply)
        found += page.queues
        cursor = page.cursor
        if cursor is None:
            break
    if arguments.json:
        print_json(QueuesReply(found))
        return
    print_table(
        ["queue", "pending", "delayed", "claimed", "running", "concurrency", "rate", "paused"],
        [
            [
                queue.name,
                str(queue.pending),
                str(queue.delayed),
                str(queue.claimed),
                str(queue.running),
                "" if queue.concurrency is None else str(queue.concurrency),
                _rate(queue.rate) or "",
                "yes" if queue.paused else "",
            ]
            for queue in found
        ],
    )


async def _show(session: CliSession, arguments: argparse.Namespace) -> None:
    _print(await session.ask(QueueGet(arguments.name), QueueReply), arguments)


async def _pause(session: CliSession, arguments: argparse.Namespace) -> None:
    _print(await session.ask(QueuePause(arguments.name, True), QueueReply), arguments)


async def _resume(session: CliSession, arguments: argparse.Namespace) -> None:
    _print(await session.ask(QueuePause(arguments.name, False), QueueReply), arguments)


async def _set(session: CliSession, arguments: argparse.Namespace) -> None:
    rate, key_rate = (
        parse_rate("--rate", arguments.rate),
        parse_rate("--per-key-rate", arguments.per_key_rate),
    )
    change = QueueSet(
        arguments.name,
        arguments.concurrency,
        arguments.per_key,
        rate,
        key_rate,
        arguments.fair,
        _weights(arguments.weight) or None,
        arguments.running,
    )
    _print(await session.ask(change, QueueReply), arguments)


def _weights(texts: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        key, _, weight = text.rpartition("=")
        if not key or not weight.isdecimal():
            raise BadOption(f"--weight {text!r} is not KEY=N")
        found[key] = int(weight)
    return found


def _print(reply: QueueReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
        return
    queue = reply.queue
    print_block(
        [
            ("queue", queue.name),
            ("paused", "yes" if queue.paused else None),
            ("pending", str(queue.pending)),
            ("delayed", str(queue.delayed)),
            ("claimed", str(queue.claimed)),
            ("running", str(queue.running)),
            ("concurrency", None if queue.concurrency is None else str(queue.concurrency)),
            ("per key", None if queue.key_concurrency is None else str(queue.key_concurrency)),
            ("rate", _rate(queue.rate)),
            ("rate per key", _rate(queue.key_rate)),
            ("running at once", None if queue.running_limit is None else str(queue.running_limit)),
            ("fair", "yes" if queue.fair else None),
            ("weights", ", ".join(f"{key}={weight}" for key, weight in queue.weights.items()) or None),
        ]
    )


def _rate(rate: Rate | None) -> str | None:
    return None if rate is None else f"{rate.count}/{rate.per_ms / 1000:g}s"
