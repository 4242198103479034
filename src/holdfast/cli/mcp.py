"""`holdfast mcp`: tools for a model over MCP, on standard input and output or by HTTP on this machine.

Standard output belongs to the protocol, so whatever else there is to say goes to standard error. By HTTP it
listens on the loopback address only: whoever wants more puts something that asks for a password before it.
"""

import argparse
import asyncio
import socket
import sys
from typing import Any, Final

from holdfast.app import App
from holdfast.cli.options import add_connection
from holdfast.cli.session import is_server, open_kept
from holdfast.ext.mcp import server

_host: Final = "127.0.0.1"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "--write",
        action="store_true",
        help="also tools that change something: start, tell, ask, settle, retry",
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=int,
        help="streamable HTTP on this port of this machine, instead of standard input; 0 takes a free one",
    )
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    if not is_server(arguments.server):
        open_kept(arguments.server)  # a file with a wrong name must not come into being
    app = App(
        arguments.server,
        worker=False,
        token=arguments.token,
        client_cert=arguments.client_cert,
        client_key=arguments.client_key,
    )
    made = server(app, write=arguments.write)
    asyncio.run(_serve(app, made, arguments.http))
    return 0


async def _serve(app: App, made: Any, port: int | None) -> None:
    async with app:
        if port is None:
            await made.run_stdio_async()
            return
        import uvicorn

        with socket.create_server((_host, port)) as listening:
            url = f"http://{_host}:{listening.getsockname()[1]}/mcp"
            sys.stderr.write(f"MCP is at {url}. Stop it with Ctrl-C.\n")
            sys.stderr.flush()
            settings = uvicorn.Config(made.streamable_http_app(host=_host), log_level="warning")
            await uvicorn.Server(settings).serve(sockets=[listening])
