"""A store in one PostgreSQL database, shared by any number of nodes.

1. A transaction is durable when `transact` returns: `synchronous_commit` is `on` or stronger.
2. Groups that touch different ids commit side by side, here and on other nodes; see postgres_transaction
   for who waits for whom. What lost a race runs again, a bounded number of times.
3. The database's clock decides: the clock of the machine a node runs on does not matter.
4. If the connection breaks before COMMIT was sent, or a statement that commits by itself, nothing has
   happened and the work runs again. If it breaks afterwards nobody knows, and `CommitUnknown` says so.
5. Nothing but the LISTEN connection depends on a session: it works behind a transaction pooler.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

from holdfast.protocol.records import Millis
from holdfast.store.interface import Bus, CorruptRecord, Result, StoreError, TookTooLong, TooMuchAtOnce, Work
from holdfast.store.postgres_bus import PostgresBus
from holdfast.store.postgres_connection import (
    Connector,
    is_conflict,
    is_disconnect,
    may_have_committed,
)
from holdfast.store.postgres_migrate import migrate
from holdfast.store.postgres_statements import PLACE, place_text
from holdfast.store.postgres_transaction import RunAgain, Transaction

connections: Final = 4
attempts_max: Final = 50
conflict_s_max: Final = 15.0
reconnect_s_max: Final = 5.0
reconnect_rest_s: Final = 0.1
clock_step_ms: Final = 1_000  # one row for all: writing it in every commit would make them wait in line


class CommitUnknown(StoreError):
    """The connection broke while the database was committing: the change may have happened or not."""

    code = "HF2005"


class TooManyConflicts(StoreError):
    """The same work lost every race with other nodes; nothing has changed."""

    code = "HF2006"


class PostgresStore:
    """
    async with Node(PostgresStore("postgresql://holdfast@db/holdfast")) as node: ...

    Behind a transaction pooler, say `?prepared=off&listen=postgresql://...` with the address of the server
    itself: LISTEN cannot go through a pooler. (Without `listen` the nodes look at the store every second.)
    """

    keeps_time = True

    def __init__(self, url: str, *, parallel_groups: int = connections) -> None:
        self.parallel_groups = parallel_groups
        self._connector = Connector(url)
        self.bus: Bus | None = PostgresBus(self._connector)
        self._idle: list[Any] = []
        self._free = asyncio.Semaphore(parallel_groups)
        self._latest: Millis = 0
        self._stored_clock: Millis = 0
        self._is_open = False

    async def open(self) -> Millis:
        try:
            connection = await self._connector.connect()
            try:
                self._latest = await migrate(connection, beside=self._connector.beside)
            except BaseException:
                connection.terminate()
                raise
        except StoreError:
            raise
        except Exception as error:
            raise self._connector.cannot_open(error) from error
        self._idle.append(connection)
        self._is_open = True
        return self._latest

    async def close(self) -> None:
        self._is_open = False
        while self._idle:
            with suppress(Exception):  # it is gone already, which is what was wanted
                await self._idle.pop().close()

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        if not self._is_open:
            raise StoreError("The store is not open")
        async with self._free:
            return await self._until_done(work)

    async def place(self) -> str:
        """Which database and schema this is: to know another connection to it."""
        async with self._free:
            connection = await self._take()
            try:
                if self._connector.is_pooled:
                    await connection.execute(self._connector.begin)
                found = await connection.fetchval(PLACE)
                if self._connector.is_pooled:
                    await connection.execute("COMMIT")
            except BaseException:
                connection.terminate()
                raise
            self._idle.append(connection)
        return place_text(found)

    async def size(self) -> int:
        """Of the whole database, in bytes."""
        async with self._free:
            connection = await self._take()
            try:
                found = int(await connection.fetchval("SELECT pg_database_size(current_database())"))
            except BaseException:
                connection.terminate()
                raise
            self._idle.append(connection)
        return found

    async def _until_done(self, work: Callable[[], Work[Result]]) -> Result:
        first: set[str] = set()
        began = time.monotonic()
        for attempt in range(attempts_max):
            try:
                return await self._attempt(work, first)
            except RunAgain as again:
                if time.monotonic() - began > conflict_s_max:
                    break
                first |= again.ids
                await asyncio.sleep(random.uniform(0, 0.001 * min(attempt, 20)))  # noqa: S311
            except Exception as error:
                is_last = attempt + 1 == attempts_max or time.monotonic() - began > reconnect_s_max
                if is_last or not is_disconnect(error):
                    raise
                await asyncio.sleep(reconnect_rest_s * random.uniform(0.5, 1.5))  # noqa: S311
        raise TooManyConflicts("The commit conflicted with other nodes too many times; nothing was changed")

    async def _attempt(self, work: Callable[[], Work[Result]], first: set[str]) -> Result:
        connection = await self._take()
        clock_from = self._stored_clock + clock_step_ms
        transaction = Transaction(connection, self._latest, clock_from, self._connector.begin)
        try:
            if self._connector.is_pooled:
                await transaction.begin()  # which also makes the settings that other statements rely on
            await transaction.lock_first(first)
            result = await drive_awaiting(work(), transaction)
            await transaction.finish()
        except BaseException as error:
            await self._abandon(connection, error)
            if is_conflict(error):
                raise RunAgain(transaction.asked) from error
            if transaction.is_committing and may_have_committed(error):
                _raise_unknown(error)
            raise
        if transaction.has_begun:
            await self._commit(connection, transaction)
        self._idle.append(connection)
        self._latest = max(self._latest, transaction.latest)
        if transaction.stored_clock is not None:
            self._stored_clock = transaction.stored_clock
        return result

    async def _commit(self, connection: Any, transaction: Transaction) -> None:
        try:
            status = await connection.execute("COMMIT")
        except asyncio.CancelledError:
            connection.terminate()
            raise
        except Exception as error:
            connection.terminate()
            if is_conflict(error):
                raise RunAgain(transaction.asked) from error
            _raise_unknown(error)
        if status != "COMMIT":
            connection.terminate()
            raise StoreError(f"The database answered {status!r} to COMMIT")

    async def _take(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._connector.connect()

    async def _abandon(self, connection: Any, error: BaseException) -> None:
        """Undo what was begun, and keep the connection only if that is certain to have worked."""
        if not isinstance(error, Exception) or is_disconnect(error) or connection.is_closed():
            connection.terminate()
            return
        try:
            await connection.execute("ROLLBACK")
        except BaseException:
            connection.terminate()
            raise
        self._idle.append(connection)


def _raise_unknown(error: BaseException) -> NoReturn:
    raise CommitUnknown(f"The database did not confirm a commit: {type(error).__name__}") from error


async def drive_awaiting(work: Work[Result], transaction: Transaction) -> Result:
    """Run work to its end, each step awaited."""
    answer: Any = None
    failed: CorruptRecord | TookTooLong | TooMuchAtOnce | None = None
    while True:
        try:
            step = work.send(answer) if failed is None else work.throw(failed)
        except StopIteration as done:
            result: Result = done.value
            return result
        failed = None
        try:
            answer = await transaction.perform(step)
        except (CorruptRecord, TookTooLong, TooMuchAtOnce) as error:
            failed = error
