"""Transactional steps: a function and the record that it happened, in one transaction of the user's database.

Where the database is the node's own, the result itself is written in that transaction, fenced by the claim:
nothing is left to do. Anywhere else a row of `holdfast_steps` is written in it; it is looked at first on
every try, and the result is recorded by the node afterwards, as that of any step.

1. The function has happened exactly if its record has. Whatever fails before the commit is rolled back.
2. A try that comes second (after a timeout, or by a worker that has lost its claim) finds the record of the
   first, is rolled back, and gives what the first gave.
3. A commit that fails is not believed: whether it happened is looked up, and the look waits for whoever is
   still at it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

from holdfast.host.callers_transactions import CallersTransactions
from holdfast.payloads.errors import StepCalledOff
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Value
from holdfast.runtime.step import step_signal
from holdfast.steps.errors import NotProvided
from holdfast.steps.providers import Provided
from holdfast.store.callers_database import Ended, UserTransaction, can_open, kind_of, must_be_awaited, opened
from holdfast.store.interface import CannotJoin
from holdfast.store.postgres_drivers import run_now
from holdfast.store.step_table import StepTable, is_no_table, is_taken
from holdfast.workflow.errors import BadDatabase, CommitInDoubt, TransactionEnded
from holdfast.workflow.transacting import Recorded, TransactionalStep

T = TypeVar("T")

delete_old_after_ms: Final = 60 * 60 * 1000
_file_endings: Final = (".db", ".sqlite", ".sqlite3")


class _Looked(NamedTuple):
    found: tuple[Any] | None  # the outcome, if it has happened


class _Seen:
    """What was seen, as long as somebody else keeps it. What cannot be watched is not remembered."""

    def __init__(self) -> None:
        self._seen: WeakSet[Any] = WeakSet()

    def add(self, it: Any) -> None:
        with suppress(TypeError):
            self._seen.add(it)

    def discard(self, it: Any) -> None:
        with suppress(TypeError):
            self._seen.discard(it)

    def __contains__(self, it: Any) -> bool:
        try:
            return it in self._seen
        except TypeError:
            return False


class StepTransactions:
    """For all executions of a session. `inside` is None where the node's own database is out of reach."""

    def __init__(
        self,
        provided: Provided,
        payloads: Payloads,
        now: Callable[[], int],
        inside: CallersTransactions | None,
    ) -> None:
        self._provided = provided
        self._payloads = payloads
        self._now = now
        self._inside = inside
        self._delete_old_at = 0
        self._elsewhere = _Seen()
        self._own = _Seen()

    def check(self, database: Any) -> None:
        """Raises BadDatabase for what cannot be used as `on=`."""
        if not isinstance(database, str):
            _check(database)

    def wrap(self, step: TransactionalStep) -> Callable[..., Any]:
        """The step as a function without parameters: async if the user's is."""
        if iscoroutinefunction(step.function):

            async def perform_async() -> Any:
                return await self._perform(step, is_async=True)

            return perform_async

        return lambda: run_now(self._perform(step, is_async=False))

    async def _perform(self, step: TransactionalStep, *, is_async: bool) -> Any:
        source: Any = step.database
        if isinstance(source, str):
            source = self._named(source, step)
            _check(source)
        try:
            return await self._attempt(step, source, is_async=is_async)
        except CannotJoin as error:
            raise BadDatabase(f"{step.name}: {error}") from None
        except Ended as error:
            raise TransactionEnded(f"{step.name}: {error}") from None

    def _named(self, name: str, step: TransactionalStep) -> Any:
        try:
            return self._provided.value(name, step.function)
        except NotProvided:
            if "/" not in name and not name.endswith(_file_endings):
                raise
            raise BadDatabase(
                f"on={name!r} must be a name that the app provides (app.provide), not a path or a URL"
            ) from None

    async def _attempt(self, step: TransactionalStep, source: Any, *, is_async: bool) -> Any:
        async with opened(source, waits=is_async) as given:
            transaction = UserTransaction(given)
            try:
                place, looked = await self._begin(transaction, step, source)
            except BaseException:  # it may be cancelled while it waits, and begin all the same
                await _undo(transaction)
                raise
            if place is not None and self._inside is not None and self._inside.is_here(place):
                if transaction.sqlite is None:
                    self._own.add(source)
                return await self._in_own(transaction, step)
            self._own.discard(source)
            found = await self._beside(transaction, step, looked)
            if transaction.sqlite is None:
                self._elsewhere.add(source)
        if found is None:
            return await self._resolve_doubt(step, source, is_async=is_async)
        return found[0]

    async def _begin(
        self, transaction: UserTransaction, step: TransactionalStep, source: Any
    ) -> tuple[str | None, "_Looked | None"]:
        """Where it leads, if that is known; and what `holdfast_steps` has of the step, if that was asked
        along: of a database that had the table when it was last used."""
        locate = self._inside is not None
        if locate and source in self._own:
            try:
                return await transaction.begin_among_ours(), None
            except Exception:  # it may lead somewhere else today
                self._own.discard(source)
                await _undo(transaction)
        if source in self._elsewhere:
            try:
                begun = await StepTable(transaction).begin_and_find(step.key, locate=locate)
            except Exception:  # it may lead somewhere else today
                self._elsewhere.discard(source)
                await _undo(transaction)
            else:
                if begun is not None:
                    place, row = begun
                    return place, _Looked(None if row is None else (self._value_of(row),))
                if not locate:
                    return None, None
                await _undo(transaction)
        if locate:
            return await transaction.begin_and_locate(), None
        await transaction.begin()
        return None, None

    # --- in the node's own database --------------------------------------------------------------------

    async def _in_own(self, transaction: UserTransaction, step: TransactionalStep) -> Recorded:
        inside = self._inside
        assert inside is not None
        try:
            value = await _call(step, transaction)
            asked = step.requests(value)
            await transaction.flush()
            begun = transaction.begun
            if begun.number is None:
                await transaction.check_same()
            if must_be_awaited(transaction.given):
                replies = await inside.request_async(transaction.given, asked, begun=begun)
            else:
                replies = inside.request(transaction.given, asked, begun=begun)
            record, was_there = step.read(replies)
        except BaseException:
            await _undo(transaction)
            raise
        if was_there:
            await transaction.rollback()
        else:
            # If this fails nobody knows whether it happened. Whatever is written about the step next, on
            # another try or as its failure, meets the record if it did: that one stands.
            await _to_the_end(transaction)
        return Recorded(record)

    # --- in any other database -------------------------------------------------------------------------

    async def _beside(
        self, transaction: UserTransaction, step: TransactionalStep, looked: "_Looked | None"
    ) -> tuple[Any] | None:
        """The outcome; None when the commit failed, and nobody knows whether it happened."""
        table = StepTable(transaction)
        try:
            found = await self._find(table, transaction, step) if looked is None else looked.found
            if found is not None:
                await transaction.rollback()
                return found
            value = await _call(step, transaction)
            outcome = self._payloads.encode(value).data
            await table.insert(step.key, outcome, self._now())
            await self._delete_old(table)
        except BaseException as error:
            await _undo(transaction)
            if not (isinstance(error, Exception) and is_taken(error)):
                raise
            await transaction.begin()
            found = await self._find(table, transaction, step)
            await transaction.rollback()
            if found is None:  # the conflict was the function's own
                raise
            return found
        try:
            await _to_the_end(transaction)
        except Exception as error:
            step.commit_error = error
            return None
        return (value,)

    async def _find(
        self, table: StepTable, transaction: UserTransaction, step: TransactionalStep
    ) -> tuple[Any] | None:
        try:
            found = await table.find(step.key)
        except Exception as error:
            if not is_no_table(error):
                raise
            await transaction.rollback()
            await transaction.begin()
            await table.create()
            await transaction.commit()
            await transaction.begin()
            return None
        return None if found is None else (self._value_of(found),)

    def _value_of(self, row: tuple[str | None]) -> Any:
        return self._payloads.decode(Value(None, row[0]))

    async def _delete_old(self, table: StepTable) -> None:
        now = self._now()
        if now >= self._delete_old_at:
            self._delete_old_at = now + delete_old_after_ms
            await table.delete_old(now)

    async def _resolve_doubt(self, step: TransactionalStep, source: Any, *, is_async: bool) -> Any:
        """Did it happen? To insert the same row waits for whoever is about to commit it."""
        error = step.commit_error
        assert error is not None
        try:
            async with opened(source, waits=is_async) as given:
                transaction = UserTransaction(given)
                await transaction.begin()
                table = StepTable(transaction)
                try:
                    await table.insert(step.key, None, self._now())
                except Exception as taken:
                    if not is_taken(taken):
                        raise
                    await transaction.rollback()
                    await transaction.begin()
                    found = await self._find(table, transaction, step)
                else:
                    found = None
                await transaction.rollback()
        except Exception as unreachable:
            raise CommitInDoubt(
                f"The database failed during the commit of {step.name}, and cannot say whether it happened"
            ) from unreachable
        if found is None:
            raise error
        return found[0]


async def _call(step: TransactionalStep, transaction: UserTransaction) -> Any:
    """The user's function; after that nothing is committed which nobody wants any more."""
    value = step.call(transaction.given)
    if isawaitable(value):
        if not must_be_awaited(transaction.given):
            raise CannotJoin("The database is synchronous, but the function returned an awaitable")
        value = await value
    signal = step_signal()
    if signal.is_set:
        raise StepCalledOff(f"The step {step.name} was called off before its commit")
    return value


async def _undo(transaction: UserTransaction) -> None:
    with suppress(Exception):  # whatever is wrong, the first error is the one to tell
        await transaction.rollback()


async def _to_the_end(transaction: UserTransaction) -> None:
    """Commit. Who is cancelled meanwhile learns first whether it happened."""
    if not must_be_awaited(transaction.given):
        await transaction.commit()
        return
    work: Coroutine[Any, Any, None] = transaction.commit()
    committing = asyncio.ensure_future(work)
    while not committing.done():
        try:
            await asyncio.shield(committing)
        except asyncio.CancelledError:
            if committing.cancelled():
                raise
        except Exception:
            break
    committing.result()


def _check(database: Any) -> None:
    if can_open(database):
        return
    kind = kind_of(database)
    if kind is not None:
        raise BadDatabase(
            f"on= was given an open connection or session of {kind}: each attempt must open its own"
        )
    raise BadDatabase(f"on= cannot be a {type(database).__name__}")
