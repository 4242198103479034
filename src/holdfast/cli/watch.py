"""`holdfast watch ID [NAME]`: follow what an execution publishes, emits and receives, until it is over.

The node is asked again and again, ever more rarely while nothing comes.
"""

import argparse
import asyncio
from typing import Final

from holdfast.cli.failures import AskedInVain, UsageError
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_json, print_line, shown_payload
from holdfast.cli.session import CliSession, with_session
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import StreamReply, StreamsReply
from holdfast.protocol.requests import StreamList, StreamRead
from holdfast.protocol.streams import MAILBOX, is_stream

look_s_min: Final = 0.05
look_s_max: Final = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_watch))
    parser.add_argument("id", help="the id of the execution or background task")
    parser.add_argument(
        "name", nargs="?", help="only the stream or published value of this name; `in` for its messages"
    )
    parser.add_argument("--after", metavar="NUMBER", type=int, default=0, help="start after this number (0)")
    add_connection(parser)


async def _watch(session: CliSession, arguments: argparse.Namespace) -> None:
    wanted: str | None = arguments.name
    if wanted is not None and not is_stream(wanted) and not is_stream(f"out.{wanted}"):
        raise UsageError(f"{wanted!r} is not the name of a stream: use 1 to 100 letters, digits, _ and -")
    seen: dict[str, int] = {}
    rest_s = look_s_min
    while True:
        found = await session.ask(StreamList(arguments.id), StreamsReply)
        count = 0
        for stream, last in found.streams.items():
            if wanted in (None, stream, stream.partition(".")[2] or MAILBOX):
                count += await _show(session, arguments, stream, seen, last)
        if found.over and not count:
            if wanted is not None and not seen:
                raise AskedInVain(f"{arguments.id} is over, and has no stream {wanted!r}")
            return
        rest_s = look_s_min if count else min(look_s_max, rest_s * 1.5)
        if not found.over:
            await asyncio.sleep(rest_s)


async def _show(
    session: CliSession, arguments: argparse.Namespace, stream: str, seen: dict[str, int], last: int
) -> int:
    """What has come since the last look. Answers how many."""
    began = seen.setdefault(stream, arguments.after)
    while seen[stream] < last:
        page = await session.ask(StreamRead(arguments.id, stream, seen[stream]), StreamReply)
        for number, element in enumerate(page.promises, page.number):
            _print(stream, number, element, as_json=arguments.json)
        seen[stream] += len(page.promises)
    return seen[stream] - began


def _print(stream: str, number: int, element: Promise, *, as_json: bool) -> None:
    if as_json:
        print_json({"stream": stream, "number": number, "promise": element})
    else:
        shown = shown_payload(element.value) or ""
        text = shown if isinstance(shown, str) else "\n".join(shown)
        print_line(f"{stream} {number}: {text}")
