"""How nodes on one PostgreSQL notify each other: LISTEN and NOTIFY on a separate connection.

A call may be lost and nobody is told; the callers cover for that. NOTIFY is never sent from a transaction
that changes records: PostgreSQL lets one such transaction commit at a time, for the whole database.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from holdfast.store.postgres_connection import Connector

log = logging.getLogger("holdfast.store")

text_bytes_max: Final = 7_900  # PostgreSQL takes less than 8,000
reconnect_s: Final = 1.0  # between two attempts, whether the first failed or what it gave broke at once

# Nothing here must outlive a crash, so nobody waits for the disk.
_SETTINGS: Final = "SET synchronous_commit = off"
_SAY: Final = "SELECT pg_notify($1, said) FROM unnest($2::text[]) said"
CHANNEL: Final = "SELECT 'holdfast_' || md5(current_schema())"


class PostgresBus:
    text_bytes_max = text_bytes_max

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None
        self._saying: Any = None  # prepared, so that it takes one trip
        self._channel = ""
        self._broken = asyncio.Event()
        self._connected_at = 0.0
        self._keeper: asyncio.Task[None] | None = None

    async def start(self, hear: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Listen from now on. Without a connection it goes on trying; behind a pooler it stays silent."""
        if not self._connector.can_listen:
            return

        def received(connection: Any, pid: int, channel: str, text: str) -> None:
            hear(text)

        with suppress(Exception):
            await self._connect(received)
        self._keeper = asyncio.get_running_loop().create_task(self._keep_connected(received, missed))

    async def say(self, texts: Sequence[str]) -> None:
        """Tell every node, this one too. Raises nothing: what cannot be said is lost."""
        if self._connection is None:
            return
        try:
            await self._saying.fetch(self._channel, list(texts))
        except Exception:
            log.warning("the LISTEN connection broke; reconnecting", exc_info=True)
            self.reconnect()

    def reconnect(self) -> None:
        self._broken.set()

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        await self._disconnect()

    async def _keep_connected(self, received: Callable[..., None], missed: Callable[[], None]) -> None:
        now = asyncio.get_running_loop().time
        while True:
            if self._connection is not None:
                await self._broken.wait()
                await self._disconnect()
                await asyncio.sleep(self._connected_at + reconnect_s - now())
            try:
                await self._connect(received)
                missed()
            except Exception as error:
                log.warning("the LISTEN connection cannot be opened: %s", error)
                await asyncio.sleep(reconnect_s)

    async def _connect(self, received: Callable[..., None]) -> None:
        connection = await self._connector.connect_listener()
        try:
            await connection.execute(_SETTINGS)
            self._channel = await connection.fetchval(CHANNEL)
            await connection.add_listener(self._channel, received)
            self._saying = await connection.prepare(_SAY)
        except BaseException:
            connection.terminate()
            raise
        self._broken.clear()
        self._connected_at = asyncio.get_running_loop().time()
        connection.add_termination_listener(self._lost)
        self._connection = connection

    def _lost(self, connection: Any) -> None:
        self._broken.set()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.terminate()
