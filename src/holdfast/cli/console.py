"""`holdfast console`: the web console on a store, while the command runs; or where a server has it."""

import argparse
import asyncio

from holdfast.cli.management import ManagementClient, served
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_line
from holdfast.cli.session import is_server
from holdfast.client.errors import Refused, Unreachable
from holdfast.node.process_loop import on_stop_signals


class NoServerThere(Unreachable):
    hint = "Start `holdfast serve`, or open a store: `holdfast console -S sqlite:///holdfast.db`."


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
        if is_server(arguments.server):
            await _check(url, arguments)
        print_line(f"The console is at {url.rstrip('/')}/console/")
        if not is_server(arguments.server):
            print_line("Stop it with Ctrl-C.")
            await stop.wait()


async def _check(url: str, arguments: argparse.Namespace) -> None:
    """Somebody must answer there. Whether a token is needed is asked by the page itself."""
    management = ManagementClient(url, arguments)
    try:
        await management.get("session")
    except Unreachable as error:
        raise NoServerThere(error.what) from None
    except Refused as refusal:
        if refusal.status not in (401, 403):
            raise
    finally:
        await management.close()
