"""Where an app keeps its tasks: tells whether somebody else's connection leads to the same place.

A task that is sent inside a transaction on another file, database or schema would be stored, and never found.
Of a server it is not known where it keeps them, so nothing can be compared there.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.protocol.text import hide_password
from holdfast.store.interface import CannotJoin, Store
from holdfast.store.urls import file_of

if TYPE_CHECKING:
    from holdfast.store.postgres import PostgresStore

log = logging.getLogger("holdfast.app")


class StorePlace:
    """Created on the session's loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.get_running_loop()
        self._store: PostgresStore | None = None
        self._known: str | None = None  # None: nobody can tell
        if (file := file_of(url)) is not None:
            self._known = f"sqlite {file.resolve()}"
        elif url.startswith("memory:"):
            self._known = "memory"

    async def learn(self, store: Store) -> None:
        """On PostgreSQL: which server, database and schema."""
        if self._url.startswith(("postgresql://", "postgres://")):
            self._store = store  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
            await self._learn_again()

    async def _learn_again(self) -> None:
        assert self._store is not None
        try:
            self._known = await self._store.place()
        except Exception as error:  # a server that does not tell: then nothing can be compared
            self._known = None
            log.warning("the identity of the database could not be read: %r", error)

    @property
    def is_certain(self) -> bool:
        """Of a server, and of a database that does not tell, nothing is known and nothing is compared."""
        return self._known is not None

    def is_known(self, place: str) -> bool:
        """Is it that place, for certain?"""
        return self._known == place

    def check(self, place: str) -> None:
        """From any thread. The database may be another since somebody looked: then somebody looks again."""
        if not self._is(place) and self._store is not None and not _is_running(self._loop):
            asyncio.run_coroutine_threadsafe(self._learn_again(), self._loop).result()
        self._insist(place)

    async def check_async(self, place: str) -> None:
        """From any loop."""
        if not self._is(place) and self._store is not None:
            if _is_running(self._loop):
                await self._learn_again()
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._learn_again(), self._loop))
        self._insist(place)

    def _is(self, place: str) -> bool:
        return self._known is None or self._known == place

    def _insist(self, place: str) -> None:
        if not self._is(place):
            kept = "in memory" if self._known == "memory" else f"at {hide_password(self._url)}"
            found = place if place.startswith("sqlite") else "another database or schema of PostgreSQL"
            raise CannotJoin(f"The connection leads to {found}; this app keeps its tasks {kept}")


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
