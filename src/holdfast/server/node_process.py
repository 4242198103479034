"""One node process of `holdfast serve --processes N`: a server that is passed its connections.

Its settings come on standard input, so that no token is seen in a list of processes. It ends when the channel
to its supervisor does (passing.py). SIGINT is left to the supervisor: Ctrl-C in a terminal reaches both.
"""

import logging
import signal
import socket
import sys

import msgspec

from holdfast.node.process_loop import on_stop_signals, run_on_fast_loop
from holdfast.protocol.errors import HoldfastError
from holdfast.server.logs import write_logs
from holdfast.server.passing import PassedConnections
from holdfast.server.serving import running, tune_process
from holdfast.server.settings import Settings

log = logging.getLogger("holdfast.server")


class NodeOrders(msgspec.Struct, frozen=True):
    """What a supervisor tells a process before it begins."""

    settings: Settings
    url: str
    number: int


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=NodeOrders)
    write_logs(orders.settings.log_level)
    tune_process(orders.settings)
    try:
        run_on_fast_loop(_serve(orders, socket.socket(fileno=int(sys.argv[1]))))
    except HoldfastError as error:
        sys.exit(f"holdfast: {error}")


async def _serve(orders: NodeOrders, channel: socket.socket) -> None:
    passed = PassedConnections(channel, orders.url)
    on_stop_signals(lambda number: None if number == signal.SIGINT else passed.leave())
    async with running(orders.settings, passed=passed, process=orders.number) as server:
        await server.node.check()
        passed.tell_ready()
        log.info("node process ready", extra={"node_process": orders.number})
        await passed.ended.wait()
    log.info("node process stopped", extra={"node_process": orders.number})


if __name__ == "__main__":
    main()
