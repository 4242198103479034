"""`holdfast console`: the web console on a store, while the command runs; or where a server has it."""

import argparse
import asyncio

from holdfast.cli.management import served
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_line
from holdfast.cli.session import is_server
from holdfast.node.process_loop import on_stop_signals


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "--port", type=int, default=8002, help="port on this machine; 0 takes a free one (8002)"
    )
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    asyncio.run(_serve(arguments))
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    on_stop_signals(lambda _: stop.set())
    async with served(arguments, arguments.port) as url:
        print_line(f"The console is at {url.rstrip('/')}/console/")
        if not is_server(arguments.server):
            print_line("Stop it with Ctrl-C.")
            await stop.wait()
