"""`holdfast status`: is a node healthy, which workers are connected, how much work is waiting."""

import argparse
import asyncio
import re
import time
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from holdfast.cli.durations import format_duration
from holdfast.cli.failures import NO_ANSWER
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_block, print_json, print_line, print_table
from holdfast.cli.session import server_urls, tls_of
from holdfast.client.connection import Connection, Response
from holdfast.client.endpoints import check_token, parse_endpoint
from holdfast.client.errors import Unreachable

_metric: Final = re.compile(
    r'^(\w+)(?:\{group="((?:[^"\\]|\\.)*)"(?:,state="(\w+)")?\})? ([0-9.e+-]+)$', re.MULTILINE
)
_single: Final = {
    "streams": "holdfast_streams",
    "connections": "holdfast_http_connections",
    "requestsWaiting": "holdfast_queue_length",
    "leases": "holdfast_leases",
    "timersDue": "holdfast_timers_due",
}


class GroupStatus(Struct, frozen=True, rename="camel"):
    """What waits for the workers of one group."""

    group: str
    pending: int
    oldest_pending_ms: int


class Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Without metrics, which a server may have turned off, it ends with `round_trip_ms`."""

    server: str
    healthy: bool
    ready: bool
    round_trip_ms: float
    counts: dict[str, int] | None = None
    groups: list[GroupStatus] | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    status = asyncio.run(_look_around(arguments))
    if arguments.json:
        print_json(status)
    else:
        _print(status)
    return 0 if status.ready else NO_ANSWER


async def _look_around(arguments: argparse.Namespace) -> Status:
    """The first node that answers; if none does, why the last one did not."""
    *others, last = server_urls(arguments.server)
    for url in others:
        with suppress(Unreachable):
            return await _look(url, arguments)
    return await _look(last, arguments)


async def _look(url: str, arguments: argparse.Namespace) -> Status:
    endpoint = parse_endpoint(url)
    check_token(arguments.token)
    try:
        async with asyncio.timeout(arguments.limit_ms / 1000):
            connection = await Connection.open(endpoint, arguments.token, tls_of(arguments))
            try:
                health = await connection.get("/health")
                started = time.perf_counter()
                ready = await connection.get("/ready")
                took_ms = round((time.perf_counter() - started) * 1000, 1)
                metrics = await connection.get("/metrics")
            finally:
                await connection.close()
    except OSError as error:
        reason = str(error) or "it took too long"
        raise Unreachable(f"{endpoint} could not be reached: {reason}") from error
    return Status(url, health.status == 200, ready.status == 200, took_ms, *_read_metrics(metrics))


def _read_metrics(response: Response) -> tuple[dict[str, int] | None, list[GroupStatus] | None]:
    if response.status != 200:
        return None, None
    found: dict[tuple[str, str, str], float] = {
        (name, group, state): float(number)
        for name, group, state, number in _metric.findall(response.body.decode())
    }
    counts = {name: int(found.get((metric, "", ""), 0)) for name, metric in _single.items()}
    counts |= {state: int(found.get(("holdfast_backlog", "", state), 0)) for state in ("suspended", "halted")}
    groups = [
        GroupStatus(
            re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], group),
            int(number),
            int(found.get(("holdfast_oldest_pending_seconds", group, ""), 0) * 1000),
        )
        for (name, group, state), number in found.items()
        if name == "holdfast_backlog" and state == "pending" and group
    ]
    return counts, groups


def _print(status: Status) -> None:
    entries: list[tuple[str, Any]] = [
        ("server", status.server),
        ("healthy", "yes" if status.healthy else "no"),
        ("ready", f"yes, in {status.round_trip_ms} ms" if status.ready else "no"),
    ]
    counts = status.counts or {}
    words = {"requestsWaiting": "requests waiting", "timersDue": "timers due"}
    entries += [(words.get(name, name), str(count)) for name, count in counts.items()]
    print_block(entries)
    if status.groups:
        print_line()
        print_table(
            ["group", "pending", "oldest"],
            [
                [group.group, str(group.pending), format_duration(group.oldest_pending_ms)]
                for group in status.groups
            ],
        )
