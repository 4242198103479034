"""Options that several commands share, and how their text is read."""

import argparse
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from holdfast.protocol import tags
from holdfast.protocol.durations import duration_ms
from holdfast.protocol.limits import instant_ms_max, page_size_max
from holdfast.protocol.records import Millis

default_url: Final = "http://127.0.0.1:8001"
default_target: Final = "poll://any@default"

Parsed = TypeVar("Parsed")
Subparsers = argparse._SubParsersAction  # pyright: ignore[reportPrivateUsage] (argparse has no public name for it)


def _reader(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """Let argparse show the sentence of a ValueError instead of its own."""

    def read(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ValueError(f"{text!r} is not of the form key=value")
    return key, value


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if count < 1:
        raise ValueError(f"{count} is less than 1")
    return count


def _page_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= page_size_max:
        raise ValueError(f"{text!r} is not a number from 1 to {page_size_max}")
    return int(text)


duration: Final = _reader(duration_ms)
count: Final = _reader(_count)
page_size: Final = _reader(_page_size)
pair: Final = _reader(_pair)


def add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-S",
        "--server",
        metavar="URL",
        default=os.environ.get("HOLDFAST_URL") or default_url,
        help="address of a node, or of several with commas between; or a store (HOLDFAST_URL; %(default)s)",
    )
    group.add_argument(
        "-T",
        "--token",
        default=os.environ.get("HOLDFAST_TOKEN") or None,
        help="the token to log in with (HOLDFAST_TOKEN)",
    )
    group.add_argument(
        "--client-cert",
        metavar="FILE",
        help="PEM certificate for a server that asks for one (HOLDFAST_CLIENT_CERT)",
    )
    group.add_argument("--client-key", metavar="FILE", help="its PEM key (HOLDFAST_CLIENT_KEY)")
    group.add_argument(
        "--limit",
        dest="limit_ms",
        metavar="DURATION",
        type=duration,
        default=10_000,
        help="wait at most this long for an answer (10s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, as on the wire")


def add_payload(parser: argparse.ArgumentParser, what: str) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--data", metavar="JSON", help=f"the {what}: JSON; any other text is taken as a JSON string"
    )
    group.add_argument("--raw-data", metavar="TEXT", help=f"the {what} as it is sent on the wire (base64)")
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="K=V",
        type=pair,
        action="append",
        default=[],
        help="a header to send with it",
    )


def add_tags(parser: argparse.ArgumentParser, what: str = "a tag") -> None:
    parser.add_argument(
        "--tag", dest="tags", metavar="K=V", type=pair, action="append", default=[], help=what
    )


def add_creation(parser: argparse.ArgumentParser, *, target: str | None = None) -> None:
    """What makes a promise, beside its id."""
    parser.add_argument(
        "--timeout", metavar="DURATION", type=duration, default=3_600_000, help="time until its deadline (1h)"
    )
    add_payload(parser, "param")
    add_tags(parser)
    parser.add_argument(
        "--target", metavar="ADDRESS", default=target, help="address of the workers that run it"
    )
    parser.add_argument("--key", help="an idempotency key")


def add_declared(options: Any) -> None:
    """What is known of a background task: what an app declares, or else these options."""
    options.add_argument(
        "--app", metavar="MODULE:APP", help="where it is declared: its queue, retries, priority and arguments"
    )
    options.add_argument(
        "--attempts", type=int, metavar="N", help="without --app: how often it is tried at most (1)"
    )
    options.add_argument(
        "--retry-base",
        metavar="DURATION",
        type=duration,
        default=1_000,
        help="with --attempts: the wait before the second attempt, doubled before each further one (1s)",
    )


def add_paging(parser: argparse.ArgumentParser) -> None:
    add_tags(parser, "only with this tag")
    parser.add_argument("--prefix", help="only ids with this prefix")
    parser.add_argument("--page", metavar="N", type=page_size, help="how many at a time (100)")
    parser.add_argument("--cursor", help="continue after this id")
    parser.add_argument("--all", action="store_true", help="all pages")


def add_queue_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--concurrency", type=int, metavar="N", help="how many run at once, at most")
    parser.add_argument("--per-key", type=int, metavar="N", help="the same for one limit key")
    parser.add_argument("--rate", metavar="N/TIME", help="how many start, at most: 10/s, 100/m, 5/10s")
    parser.add_argument("--per-key-rate", metavar="N/TIME", help="the same for one limit key")
    parser.add_argument(
        "--running", type=int, metavar="N", help="how many executions workers run at once, at most"
    )
    parser.add_argument("--fair", action="store_true", help="let the limit keys take turns")
    parser.add_argument(
        "--weight",
        action="append",
        metavar="KEY=N",
        default=[],
        help="how many turns this key gets for one turn of another",
    )


def deadline(span: Millis, now: Millis) -> Millis:
    return min(now + span, instant_ms_max)


def creation_tags(arguments: argparse.Namespace) -> dict[str, str]:
    found = dict(arguments.tags)
    if arguments.target:
        found[tags.TARGET] = arguments.target
    return found


instant_help: Final = "an instant such as 2026-01-31T09:00+01:00; without an offset it is UTC"


def _instant(text: str) -> int:
    """Milliseconds of an ISO date and time; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date and time, {instant_help}") from None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


instant: Final = _reader(_instant)
