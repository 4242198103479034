"""How a supervisor passes connections to its node processes: a pair of sockets for each.

Down go accepted connections, one byte and one descriptor each. Up go reports: how many connections the
process has taken over so far, and how many it has open. The end of the stream is the order to finish. It
comes when the supervisor asks for it, and also when the supervisor is dead. So no node process is left
behind, and whatever was passed before the end is still served.
"""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Final

log = logging.getLogger("holdfast.server")

REPORT: Final = struct.Struct("!Ii")
leaving: Final = -1  # instead of a count: pass nothing more, I want to end
taken_at_once_max: Final = 64  # before others on the loop get their turn


class PassedConnections:
    """The end of a node process: takes over the connections that it is passed."""

    def __init__(self, channel: socket.socket, url: str) -> None:
        channel.setblocking(False)
        self.url = url
        self.ended = asyncio.Event()
        self._channel = channel
        self._taken = 0
        self._told: tuple[int, int] | None = None
        self._is_ready = self._is_leaving = False
        self._connecting: set[asyncio.Task[None]] = set()

    def start(
        self,
        connect: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float | None,
        count_open: Callable[[], int],
    ) -> None:
        self._connect = connect
        self._count_open = count_open
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel, self._take)

    def report(self) -> None:
        """Tell what has changed, once this process is ready: that is what the first report says."""
        open_count = leaving if self._is_leaving else self._count_open()
        if not self._is_ready or self._told == (self._taken, open_count):
            return
        try:
            self._channel.send(REPORT.pack(self._taken % 2**32, open_count))
        except OSError:  # the supervisor stalls, and the next report says more; or it is dead: see `_take`
            return
        self._told = (self._taken, open_count)

    def tell_ready(self) -> None:
        self._is_ready = True
        self.report()

    def leave(self) -> None:
        """Ask for no more connections. `ended` is set when there will be none."""
        self._is_ready = self._is_leaving = True
        self.report()

    async def stop(self) -> None:
        self._loop.remove_reader(self._channel)
        if self._connecting:
            await asyncio.wait(self._connecting)
        self._channel.close()

    def _take(self) -> None:
        self._take_some()
        self.report()

    def _take_some(self) -> None:
        for _ in range(taken_at_once_max):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._loop.remove_reader(self._channel)
                self.ended.set()
                return
            self._taken += 1
            for descriptor in descriptors:
                task = self._loop.create_task(self._open(socket.socket(fileno=descriptor)))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._connect, connection, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout_s
            )
        except (OSError, TimeoutError) as error:  # of TLS too: whoever came has gone, or is no client of ours
            log.debug("a connection could not be passed on", extra={"reason": type(error).__name__})
            connection.close()
