"""Our work inside the caller's transaction, on the caller's connection to the same PostgreSQL database.

1. It happens exactly if he commits. It runs under a savepoint: what fails, or must run again because others
   were faster, is undone to where we began; his own changes stay.
2. Locks are taken as everywhere (postgres_transaction): in the order of ids, or at once, or not at all. They
   are kept until he commits; whoever needs the same ids waits that long.
3. Other nodes are told by a NOTIFY in the same transaction, so exactly if and when he commits.
4. He commits durably: `synchronous_commit` is raised for his transaction if it was lower.
5. Each trip to the server costs as much as a statement of his own: what must be known before is asked for
   in one, and what surrounds the work goes with its savepoint.
6. In a transaction that ends after our work, his deferred constraints are checked before it: they wait for
   locks as long as he says, and not as long as we do.

Which drivers' connections can be used, and how they are made to look alike, is postgres_drivers' business.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from holdfast.protocol import limits
from holdfast.protocol.records import Millis
from holdfast.store.callers_database import OF_ITSELF, TRANSACTION_NUMBER, Begun, Ended
from holdfast.store.interface import CannotJoin, Result, Work
from holdfast.store.migrations import migrations
from holdfast.store.postgres import drive_awaiting
from holdfast.store.postgres_bus import CHANNEL
from holdfast.store.postgres_connection import is_conflict
from holdfast.store.postgres_drivers import CallersConnection
from holdfast.store.postgres_statements import INSISTED_ON_SYNC, PLACE, lock_wait_ms, place_text
from holdfast.store.postgres_transaction import RunAgain, Transaction

attempts_max: Final = 20
_latest: Final = migrations("postgres")[-1][0]
_never: Final = limits.instant_ms_max + 1
_SAY: Final = f"SELECT pg_notify(({CHANNEL}), said) FROM unnest($1::text[]) said"
_KNOWN: Final = (
    "version, (SELECT now FROM clock), quote_literal(current_setting('lock_timeout')), " + INSISTED_ON_SYNC
)
_FACTS: Final = f"SELECT {_KNOWN}, NULL, NULL FROM schema_version"
_FACTS_AND_PLACE: Final = f"SELECT {_KNOWN}, ({PLACE}), NULL FROM schema_version"
_FACTS_BEGUN: Final = f"SELECT {_KNOWN}, NULL, {TRANSACTION_NUMBER} FROM schema_version"
_FACTS_AND_PLACE_BEGUN: Final = f"SELECT {_KNOWN}, ({PLACE}), {TRANSACTION_NUMBER} FROM schema_version"
_ANOTHER: Final = "holdfast: this is another transaction: "
# Fails with that text, in the same trip as what follows. The number keeps it from being computed beforehand.
_CHECK_SAME: Final = (
    "SELECT CASE WHEN {number} = '{begun}' AND to_regclass('promises')::oid::text = '{tables}' THEN 1 "
    "ELSE ('{another}' || {number})::int END"
)
_CHECK_CONSTRAINTS: Final = "SET CONSTRAINTS ALL IMMEDIATE"
_BEGIN: Final = "SAVEPOINT holdfast", f"SET LOCAL lock_timeout = {lock_wait_ms}"
_UNDO: Final = "ROLLBACK TO SAVEPOINT holdfast", "RELEASE SAVEPOINT holdfast"  # his lock_timeout comes back


class _Facts(NamedTuple):
    floor: Millis  # the latest instant that was stored
    lock_timeout: str  # his, as it is written in a statement
    before: tuple[str, ...] = ()  # what goes before our savepoint


async def run_in_callers_transaction(
    connection: CallersConnection,
    work: Callable[[Millis], Work[Result]],
    calls: Callable[[Result], Sequence[str]],
    check_place: Callable[[str], Awaitable[None]] | None = None,
    *,
    begun: Begun | None = None,
) -> Result:
    """Do the work, which is told the latest instant that was stored, and tell the nodes what `calls` says.

    `check_place` is told which database and schema would be written to, and may raise. `begun`: whoever asks
    began this transaction, knows that there are tables of ours, and commits it next, so nothing need be put
    back. Raises Ended if another transaction is open meanwhile.
    """
    facts = await _check(connection, check_place, begun)
    first: set[str] = set()
    for attempt in range(attempts_max):
        try:
            result = await _attempt(connection, work, facts, first, is_last=begun is not None)
        except RunAgain as again:
            first |= again.ids
            await connection.rest(random.uniform(0, 0.002 * attempt))  # noqa: S311
        else:
            texts = [*calls(result)]
            if texts:
                await connection.fetch(_SAY, texts)
            return result
    raise CannotJoin("The send conflicted with other transactions too many times; nothing was changed")


async def _attempt(
    connection: CallersConnection,
    work: Callable[[Millis], Work[Result]],
    facts: _Facts,
    first: set[str],
    *,
    is_last: bool,
) -> Result:
    try:
        await connection.run(*facts.before, *_BEGIN)
    except Exception as error:
        if _ANOTHER in str(error):
            raise Ended(OF_ITSELF) from None
        raise
    transaction = Transaction(connection, facts.floor, _never)
    try:
        await transaction.lock_first(first)
        result = await drive_awaiting(work(facts.floor), transaction)
    except BaseException as error:
        await connection.run(*_UNDO)
        if is_conflict(error):
            raise RunAgain(transaction.asked) from error
        raise
    if not is_last:
        await connection.run("RELEASE SAVEPOINT holdfast", f"SET LOCAL lock_timeout = {facts.lock_timeout}")
    return result


async def _check(
    connection: CallersConnection,
    check_place: Callable[[str], Awaitable[None]] | None,
    begun: Begun | None,
) -> _Facts:
    if begun is not None and not connection.in_transaction:
        raise Ended(OF_ITSELF)
    if begun is not None and begun.floor is not None:
        _check_version(begun.version)
        same = _CHECK_SAME.format(
            number=TRANSACTION_NUMBER,
            begun=int(begun.number or 0),
            tables=int(begun.tables or 0),
            another=_ANOTHER,
        )
        return _Facts(begun.floor, "", (same, _CHECK_CONSTRAINTS))
    if not connection.in_transaction:
        raise CannotJoin("No transaction is open on the connection: begin one first")
    if begun is None and await connection.fetchval("SELECT to_regclass('schema_version')") is None:
        raise CannotJoin("The connection's search path leads to no tables of Holdfast")
    if begun is None:
        asked = _FACTS if check_place is None else _FACTS_AND_PLACE
    else:
        asked = _FACTS_BEGUN if check_place is None else _FACTS_AND_PLACE_BEGUN
    version, floor, waits, _, place, open_number = await connection.fetchrow(asked)
    if begun is not None and open_number != begun.number:
        raise Ended(OF_ITSELF)
    _check_version(version)
    if check_place is not None:
        await check_place(place_text(place))
    return _Facts(int(floor), waits, () if begun is None else (_CHECK_CONSTRAINTS,))


def _check_version(version: int) -> None:
    if version != _latest:
        raise CannotJoin(f"The database has schema version {version}, and this Holdfast works with {_latest}")
