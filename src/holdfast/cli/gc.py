"""`holdfast gc`: deletes executions that ended long ago, through a server or directly on a store.

One short transaction after the other, so that nobody waits for it. It may be interrupted anywhere and run
again: whole executions are gone, or will be the next time.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.cli.durations import format_duration
from holdfast.cli.options import add_connection, count, duration
from holdfast.cli.output import now_ms, print_json, print_line
from holdfast.cli.session import is_server, open_kept, server_urls, tls_of
from holdfast.client.connection import Connection
from holdfast.client.endpoints import check_token, parse_endpoint
from holdfast.client.errors import BadReply, Refused, Unreachable
from holdfast.node.retention import RetentionProgress, collect_page
from holdfast.server.collection import CollectOrder

shown_every_s: Final = 0.2

Collect = Callable[[CollectOrder], Awaitable[RetentionProgress]]


class Collected(Struct, frozen=True, rename="camel"):
    """What a whole pass did, or would do."""

    looked: int
    executions: int
    promises: int
    too_large: int
    dry_run: bool


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "--older-than",
        dest="older_than_ms",
        metavar="DURATION",
        type=duration,
        required=True,
        help="delete executions that ended longer ago than this, like 30d",
    )
    parser.add_argument("--dry-run", action="store_true", help="only count what would be deleted")
    parser.add_argument("--most", metavar="N", type=count, help="stop after about this many promises")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    collected = asyncio.run(_collect(arguments))
    if arguments.json:
        print_json(collected)
    else:
        _print(collected, arguments.older_than_ms)
    return 0


async def _collect(arguments: argparse.Namespace) -> Collected:
    through_server = is_server(arguments.server)
    opened = _through_server(arguments) if through_server else _on_store(arguments.server)
    shown = not arguments.quiet and sys.stderr.isatty()
    most: int | None = arguments.most
    progress = RetentionProgress()
    async with opened as collect:
        shown_at = time.monotonic()
        while progress.after is not None and (most is None or progress.forgotten < most):
            progress = await collect(CollectOrder(arguments.older_than_ms, progress, arguments.dry_run))
            if shown and time.monotonic() > shown_at + shown_every_s:
                shown_at = time.monotonic()
                sys.stderr.write(f"\rlooked at {progress.looked:,} promises, {progress.forgotten:,} to go ")
    if shown:
        sys.stderr.write("\r\x1b[K")
    return Collected(
        progress.looked, progress.trees, progress.forgotten, progress.too_large, arguments.dry_run
    )


@asynccontextmanager
async def _on_store(url: str) -> AsyncGenerator[Collect]:
    store = open_kept(url)
    await store.open()

    async def collect(order: CollectOrder) -> RetentionProgress:
        work = partial(collect_page, order.progress, order.older_than_ms, now_ms(), dry_run=order.dry_run)
        return await store.transact(work)

    try:
        yield collect
    finally:
        await store.close()


@asynccontextmanager
async def _through_server(arguments: argparse.Namespace) -> AsyncGenerator[Collect]:
    connection = await _connect(arguments)

    async def collect(order: CollectOrder) -> RetentionProgress:
        try:
            async with asyncio.timeout(arguments.limit_ms / 1000):
                response = await connection.post(msgspec.json.encode(order), "/collect")
        except OSError as error:
            reason = str(error) or "it took too long"
            raise Unreachable(f"{connection.endpoint} does not answer any more: {reason}") from error
        if response.status == 200:
            return msgspec.json.decode(response.body, type=RetentionProgress)
        try:
            said = msgspec.json.decode(response.body, type=dict[str, str])
            refusal = Refused(response.status, said["error"], said.get("code"))
        except (msgspec.DecodeError, KeyError):
            raise BadReply(f"{connection.endpoint} answered with {response.status}") from None
        raise refusal

    try:
        yield collect
    finally:
        connection.abort()


async def _connect(arguments: argparse.Namespace) -> Connection:
    check_token(arguments.token)
    reason = ""
    for url in server_urls(arguments.server):
        endpoint = parse_endpoint(url)
        try:
            async with asyncio.timeout(arguments.limit_ms / 1000):
                return await Connection.open(endpoint, arguments.token, tls_of(arguments))
        except OSError as error:
            reason = f"{endpoint} could not be reached: {str(error) or 'it took too long'}"
    raise Unreachable(reason)


def _print(collected: Collected, older_than_ms: int) -> None:
    done = "would be forgotten" if collected.dry_run else "forgotten"
    print_line(
        f"{collected.executions:,} executions with {collected.promises:,} promises {done}, "
        f"which ended more than {format_duration(older_than_ms)} ago; {collected.looked:,} looked at."
    )
    if collected.too_large:
        print_line(f"{collected.too_large:,} trees are too large to be seen whole, and stay.")
