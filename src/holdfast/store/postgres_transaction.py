"""The steps of a transaction on one PostgreSQL connection, and which rows it locks.

The row of a promise is the lock for everything about that id: the promise, its task, its callbacks and its
listeners. A schedule's row is its own lock. READ COMMITTED: a statement sees all that was committed before
it began, so what is read after a row was locked is the newest there is, and stays so until we commit.

1. What a request names is locked before it is read; nothing that was read without its lock is ever written.
   `Save` checks it. If it does not hold, the work runs again with all those locks taken first.
2. Locks are taken in the order of ids. A lock out of order is taken only if it is free at once; if it is
   not, the work runs again, as in rule 1. So nobody waits in a circle.
3. An id without a row cannot be locked. Whoever creates it first wins; the insert of the second meets the
   unique key, and its work runs again and finds the row.
4. Claims and sweeps pass over what others hold.
5. What is about to be created nearly always has no row, so there is nothing to lock (rule 3). If the work
   ends after that, the one statement that writes it is a transaction by itself (`_look`, `finish`).
6. A claim changes tasks only, and whoever begins to listen changes neither the promise nor its task. So
   these two share a promise (`_listened`, `_claimed`), which both keep from being settled. What does more
   with such a promise in the same transaction must hold it alone: the claim asks for it at once before it
   lets a promise expire, and else the work runs again, as in rule 1.
"""

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from holdfast.engine import Due, Footprint, Scan, WorkingSet
from holdfast.engine.scans import ClaimScan, HeldScan, QueueCountScan, passes_over
from holdfast.protocol.records import Millis, Task
from holdfast.store import postgres_statements as sql, rows
from holdfast.store.documents import perform_on_postgres
from holdfast.store.interface import (
    CountBacklog,
    Find,
    FindDue,
    Load,
    LoadAll,
    Now,
    Save,
    Step,
    TooMuchAtOnce,
    only_creates,
    only_looks,
)
from holdfast.store.loading import Fetch, Loading, fill_record, load, load_obligations
from holdfast.store.newest_sql import found_by, query_of
from holdfast.store.postgres_connection import fetch_in_time
from holdfast.store.postgres_counts import count_backlog, count_queue
from holdfast.store.postgres_lines import find_ids
from holdfast.store.postgres_parts import Parts, drop_reborn, payload_chars
from holdfast.store.scan_sql import POSTGRES, behind, within

heavy_save_chars: Final = 1_048_576
heavy_chars: Final = 16_384  # a promise that counts when records are weighed
passed_over_rest_ms: Final = 50
passed_over_rests_s: Final = (0.001, 0.002, 0.004, 0.008)

_offer_order: Final = itemgetter(0, 1, 2, 3, 4)


class RunAgain(Exception):
    """The work must run again, with these ids locked before anything else."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.ids = set(ids)


class Transaction:
    """The steps, on one connection. `begin` is the statement to begin with, unless somebody else has begun.

    What is only looked at needs no transaction: every statement sees what was committed before it, in one or
    not. So it begins with the first step that does more, and work that only looks takes one trip, not three.
    Work that only creates takes two fewer: no BEGIN, no COMMIT.
    """

    def __init__(
        self, connection: Any, floor: Millis, store_clock_from: Millis, begin: str | None = None
    ) -> None:
        self._connection = connection
        self._begin = begin
        self._is_ours = begin is not None
        self.latest = floor  # no instant before it is used any more
        self._store_clock_from = store_clock_from
        self._asked: set[str] = set()  # ids whose lock we have, or would have if they existed
        self._held: set[str] = set()  # those that exist
        self._sizes: dict[str, int] = {}  # of those, the bytes of the large ones
        self._listened: set[str] = set()  # of those, what others may claim meanwhile
        self._claimed: set[str] = set()  # and what others may begin to listen to
        self._held_schedules: set[str] = set()
        self._held_queues: set[str] = set()
        self._highest = ""  # of the ids asked for: above it, locks may be waited for
        self._may_wait = True
        self._fresh: dict[str, Any] = {}  # records that came with their locks
        self._owing: set[str] = set()  # of the load that is under way: whose obligations it asks for
        self._owed: dict[str, list[Any]] = {}  # and those that came with their records
        self._now: Millis | None = None
        self.stored_clock: Millis | None = None
        self._unwritten: tuple[str, list[Any]] | None = None  # a statement that may be all there is to do
        self.is_committing = False  # it commits by itself, and is under way

    @property
    def asked(self) -> set[str]:
        return self._asked

    @property
    def has_begun(self) -> bool:
        return self._begin is None

    async def begin(self) -> None:
        if self._begin is not None:
            await self._connection.execute(self._begin)
            self._begin = None
        if self._unwritten is not None:
            (statement, arguments), self._unwritten = self._unwritten, None
            await self._connection.fetch(statement, *arguments)

    async def finish(self) -> None:
        """The work is over. What was only created is written now, and durable when this returns."""
        if self._unwritten is not None:
            statement, arguments = self._unwritten
            self.is_committing = True
            await self._connection.fetch(statement, *arguments)

    async def lock_first(self, first: set[str]) -> None:
        if first:
            await self.begin()
            await self._lock(first)

    async def perform(self, step: Step) -> Any:
        if self._begin is not None and not only_looks(step):
            if isinstance(step, Load) and only_creates(step.footprint) and not self._asked:
                await self._look(step.footprint.promises)
            elif not isinstance(step, Save) or step.ws.cleared or step.ws.forgotten:
                await self.begin()
        if self._unwritten is not None:
            await self.begin()
        match step:
            case Load(ws, footprint, bytes_max):
                return await self._load(ws, footprint, bytes_max)
            case Now():
                return await self._read_clock()
            case Save(ws, clock):
                return await self._save(ws, clock)
            case Find(scan):
                return await self._find(scan)
            case FindDue(now, limit):
                return await self._find_due(now, limit)
            case CountBacklog(now, groups_max):
                return await count_backlog(self._connection, now, groups_max)
            case LoadAll(ws):
                return await self._load_all(ws)
            case _:
                return await perform_on_postgres(self._connection, step)

    async def _read_clock(self) -> Millis:
        now = self._now
        if now is None:
            now = int(await self._connection.fetchval(sql.NOW))
        self.latest = self._now = max(now, self.latest)
        return self.latest

    # --- lock ----------------------------------------------------------------------------------------

    async def _look(self, ids: set[str]) -> None:
        """If none of these exists there is nothing to lock. Else begin: they are locked like all others."""
        self._now, any_exists = await self._connection.fetchrow(sql.ANY_EXISTS, list(ids))
        if any_exists:
            await self.begin()
        else:
            self._asked |= ids
            self._highest = max(ids)

    async def _lock(self, ids: set[str], owing: Sequence[str] = ()) -> None:
        """Lock these, and whoever waits for the owing ones as far as it can be seen beforehand."""
        wanted = ids - self._asked
        if not wanted:
            return
        in_order = min(wanted) > self._highest and not (owing and self._highest)
        wait = self._may_wait and in_order
        self._asked |= wanted
        if owing:
            statement = sql.LOCK_AWAITING if wait else sql.LOCK_AWAITING_AT_ONCE
            found = await self._connection.fetch(statement, list(wanted), owing)
        else:
            statement = sql.LOCK if wait else sql.LOCK_AT_ONCE
            found = await self._connection.fetch(statement, list(wanted))
        self._now = max(self._now or 0, found[-1][0])
        self._note_held(row[1] for row in found if row[1] is not None)
        self._sizes.update((row[1], row[2]) for row in found if row[1] is not None and row[2] > heavy_chars)

    async def _lock_listened(self, ids: set[str]) -> None:
        found = await self._connection.fetch(sql.LOCK_LISTENED, list(ids))
        self._now = found[-1][0]
        self._listened |= ids
        self._asked |= ids
        self._note_held(row[1] for row in found if row[1] is not None)

    def _note_held(self, ids: Iterable[str]) -> None:
        self._held.update(ids)
        self._asked |= self._held
        if self._asked:
            self._highest = max(self._asked)

    async def _lock_schedules(self, ids: set[str]) -> None:
        if ids:
            found = await self._connection.fetch(sql.LOCK_SCHEDULES, list(ids))
            self._held_schedules.update(row[0] for row in found)
            self._may_wait = False  # schedules come last in the order

    # --- load ----------------------------------------------------------------------------------------

    async def _load(self, ws: WorkingSet, footprint: Footprint, bytes_max: int | None = None) -> None:
        named = footprint.promises | footprint.obligations | footprint.branches_of
        if footprint.listened and not named and not self._asked:
            await self._lock_listened(footprint.listened)
        else:
            named = named | footprint.listened
        seen_unlocked = {key for key in named - self._asked if key in ws.tasks}
        if seen_unlocked or not self._listened.isdisjoint(named):
            raise RunAgain(seen_unlocked | named & self._listened)
        if shared := footprint.obligations & self._claimed:
            self._claimed -= shared
            self._asked -= shared
        await self._lock(named, list(footprint.obligations | footprint.listened))
        await self._lock_schedules(footprint.schedules - self._held_schedules)
        self._owing = footprint.obligations | footprint.listened
        try:
            await self._drive(load(ws, footprint, bytes_max))
        finally:  # also if a record cannot be read: the work goes on, and may add to them
            self._owing, self._owed = set(), {}

    async def _drive(self, loading: Loading) -> None:
        found: Sequence[Any] | None = None
        while True:
            try:
                fetch = loading.send(found)  # type: ignore[arg-type]  # the first is None, as it must be
            except StopIteration:
                return
            found = await self._fetch(fetch)

    async def _fetch(self, fetch: Fetch) -> Sequence[Any]:
        ids = fetch.ids
        if fetch.what in ("queues", "gates") and fetch.change:
            return await self._fetch_queues(fetch)
        if fetch.what in ("records", "tasks") and fetch.change:
            await self._lock(ids)
            ids = ids & self._held  # what has no row was looked for already
            if fetch.what == "records" and self._fresh and ids <= self._fresh.keys():
                return [self._fresh[key] for key in ids]
        if not ids:
            return ()
        if fetch.what == "obligations" and ids <= self._owed.keys():
            return [row for key in ids for row in self._owed[key]]
        owing = fetch.what == "records" and fetch.change and not self._owing.isdisjoint(ids)
        statement = sql.FETCH["records_owing" if owing else fetch.what]
        found: Sequence[Any]
        if fetch.bytes_max is not None:
            found = await self._fetch_weighing(statement, ids, fetch.bytes_max, is_weighed=fetch.change)
        else:
            found = await self._connection.fetch(statement, list(ids))
        if owing:
            self._owed.update((row[0], _obligations(row)) for row in found)
        if self._now is None and found and fetch.what == "records":
            self._now = found[0][-1]
        return found

    async def _fetch_weighing(
        self, statement: str, ids: set[str], bytes_max: int, *, is_weighed: bool
    ) -> Sequence[Any]:
        """What was locked was weighed then; the small ones do not count."""
        if is_weighed:
            size = sum(self._sizes.get(key, 0) for key in ids) if self._sizes else 0
            found = await self._connection.fetch(statement, list(ids)) if size <= bytes_max else ()
        else:
            found = await self._connection.fetch(sql.RECORDS_WEIGHED, list(ids), bytes_max)
            size = 0 if found else int(await self._connection.fetchval(sql.WEIGH, list(ids)) or 0)
        if size > bytes_max:
            raise TooMuchAtOnce(f"{len(ids)} records hold more than {bytes_max} bytes")
        return found

    async def _fetch_queues(self, fetch: Fetch) -> Sequence[Any]:
        """Locked and read in one. Queues come last of all in the order, and among themselves by name."""
        if self._held_queues and min(fetch.ids) < max(self._held_queues):
            statement = sql.LOCK_GATES_AT_ONCE if fetch.what == "gates" else sql.LOCK_QUEUES_AT_ONCE
        else:
            statement = sql.LOCK_GATES if fetch.what == "gates" else sql.LOCK_QUEUES
        lines = await self._connection.fetch(statement, list(fetch.ids))
        self._now = max(self._now or 0, lines[-1][0])
        found = [line[1:] for line in lines if line[1] is not None]
        self._held_queues.update(row[0] for row in found)
        if found:
            self._may_wait = False
        return found

    async def _load_all(self, ws: WorkingSet) -> None:
        for row in await self._connection.fetch(sql.RECORDS_ALL):
            fill_record(ws, row)
        if ws.promises:
            await self._drive(load_obligations(ws, set(ws.promises)))
        schedules = {row[0] for row in await self._connection.fetch(sql.SCHEDULE_IDS)}
        queues = {row[0] for row in await self._connection.fetch(sql.QUEUE_NAMES)}
        streams = {row[0] for row in await self._connection.fetch(sql.STREAM_IDS)}
        await self._drive(
            load(ws, Footprint(schedule_views=schedules, queue_views=queues, stream_views=streams))
        )

    # --- save ----------------------------------------------------------------------------------------

    async def _save(self, ws: WorkingSet, clock: Millis | None) -> None:
        changed = ws.changed_promises.keys() | ws.changed_tasks.keys() | ws.changed_streams.keys()
        changed |= ws.forgotten.keys()
        unlocked = (
            changed - self._asked
            | changed & self._listened
            | (ws.changed_promises.keys() | ws.changed_streams.keys()) & self._claimed
        )
        if unlocked:
            raise RunAgain(unlocked)
        if ws.cleared:
            await self._connection.execute(sql.CLEAR)
            self._held.clear()
            self._held_schedules.clear()
            self._held_queues.clear()
        if self._is_ours and payload_chars(ws) > heavy_save_chars:
            await self.begin()
            await self._connection.execute(sql.HAVE_PATIENCE)
        if (reborn := drop_reborn(ws, self._held)).names:
            await self._connection.fetch(sql.save_statement(tuple(reborn.names)), *reborn.arguments)
        parts = Parts()
        await self._release_uniques(ws)
        parts.add_promises_and_tasks(ws, self._held)
        parts.add_obligations(ws)
        self._save_schedules(ws, parts)
        self._save_queues(ws, parts)
        streams = (ws.streams[key] for key in ws.changed_streams)
        parts.add_rows("put_streams", [rows.streams_row(each) for each in streams if each is not None])
        if clock is not None and clock >= self._store_clock_from:
            parts.add("set_clock", clock, clock)
            self.stored_clock = clock
        if parts.names and self.has_begun:
            await self._connection.fetch(sql.save_statement(tuple(parts.names)), *parts.arguments)
        elif parts.names:
            self._unwritten = sql.save_statement(tuple(parts.names)), parts.arguments
        self._held.update(ws.changed_promises)
        self._held.difference_update(key for key in ws.forgotten if ws.promises[key] is None)
        self._may_wait = False  # from here on we hold new rows, which others may wait for
        self._fresh = {}
        ws.saved()

    async def _release_uniques(self, ws: WorkingSet) -> None:
        """A unique key that passes on in this commit is let go first: parts of a statement have no order."""
        changed = [task for key in ws.changed_tasks if (task := ws.tasks[key]) is not None and task.job]
        ended = [task.id for task in changed if task.id in self._held and _holds_nothing(task)]
        if ended and any(task.id not in self._held and task.job and task.job.unique for task in changed):
            await self._connection.execute(sql.RELEASE_UNIQUES, ended)

    def _save_queues(self, ws: WorkingSet, parts: Parts) -> None:
        queues = [queue for name in ws.changed_queues if (queue := ws.queues[name]) is not None]
        held = self._held_queues
        parts.add_rows("insert_queues", [rows.queue_row(queue) for queue in queues if queue.name not in held])
        parts.add_rows("update_queues", [rows.queue_row(queue) for queue in queues if queue.name in held])
        held.update(queue.name for queue in queues)

    def _save_schedules(self, ws: WorkingSet, parts: Parts) -> None:
        entries = {key: ws.schedules[key] for key in ws.changed_schedules}
        written = {key: rows.schedule_row(entry) for key, entry in entries.items() if entry is not None}
        held = self._held_schedules
        parts.add_rows("insert_schedules", [row for key, row in written.items() if key not in held])
        parts.add_rows("update_schedules", [row for key, row in written.items() if key in held])
        if gone := [key for key, entry in entries.items() if entry is None]:
            parts.add("drop_schedules", gone)
        held.update(written)
        held.difference_update(gone)

    # --- find ----------------------------------------------------------------------------------------

    async def _find(self, scan: Scan) -> list[Any]:
        if isinstance(scan, ClaimScan):
            return await self._find_offers(scan)
        if isinstance(scan, HeldScan):
            return [tuple(row) for row in await self._connection.fetch(sql.HELD, list(scan.groups))]
        if isinstance(scan, QueueCountScan):
            return [await count_queue(self._connection, name, scan.limit) for name in scan.names]
        statement, parameters = query_of(scan, POSTGRES)
        statement = sql.numbered(statement)
        if not passes_over(scan):
            return found_by(scan, await self._connection.fetch(statement, *parameters))
        await self.begin()
        return found_by(scan, await fetch_in_time(self._connection, statement, parameters))

    async def _find_offers(self, scan: ClaimScan) -> list[str]:
        """The best of each group by its index, then the best of those: the backlog does not matter.

        What others hold is passed over. That may be no claim, but somebody who only begins to listen for its
        end; and who was told that there is work and finds none would not soon look again. So if there is
        something that was passed over, and room for it, look again in a moment, a few times.
        """
        if scan.view:
            return [row[4] for row in await self._view_offers(scan)]
        found, passed_over = await self._hold_offers(scan)
        for rest_s in passed_over_rests_s:
            if not passed_over:
                break
            await asyncio.sleep(rest_s)
            found, passed_over = await self._hold_offers(scan)
        return [row[4] for row in found]

    async def _view_offers(self, scan: ClaimScan) -> list[Any]:
        best: list[Any] = []
        for group in scan.groups:
            statement = sql.VIEW_OFFERS if scan.after is None else sql.VIEW_BEHIND
            parameters = *_offer_parameters(scan, group), *behind(scan.after)
            best += await self._connection.fetch(statement, *parameters)
        return sorted(best, key=_offer_order)[: scan.limit]

    async def _hold_offers(self, scan: ClaimScan) -> tuple[list[Any], bool]:
        """The best that could be held, and whether there was room for more that could not."""
        best: list[Any] = []
        passed_over = False
        for group in scan.groups:
            parameters = _offer_parameters(scan, group)
            statement = sql.OFFERS if scan.scope is None else sql.OFFERS_WITHIN
            if (ids := await find_ids(self._connection, scan, group)) is not None:
                statement = sql.OFFERS_AMONG
                parameters = *parameters[:4], ids
            offers = await self._connection.fetch(statement, *parameters)
            best += [offer[2:] for offer in offers if offer[2] is not None]
            passed_over = passed_over or (offers[0][0] or 0) > 0
        chosen = sorted(best, key=_offer_order)[: scan.limit]
        found = {row[4] for row in best}
        self._claimed |= found - self._asked
        self._note_held(found)
        self._fresh = {row[4]: row[5:] for row in chosen}
        return chosen, passed_over and len(chosen) < scan.limit

    async def _find_due(self, now: Millis, limit: int) -> Due:
        first: Millis | None = await self._connection.fetchval(sql.FIRST)
        if first is None or first > now:
            return Due([], [], [], first)
        kinds: list[list[str]] = [
            [key for _, key in sorted(await self._connection.fetch(statement, now, limit), key=tuple)]
            for statement in sql.DUE
        ]
        promises, tasks, schedules = kinds
        self._note_held([*promises, *tasks])
        if schedules:
            self._held_schedules.update(schedules)
            self._may_wait = False
        if any(len(kind) == limit for kind in kinds):
            return Due(promises, tasks, schedules, next_at=now)
        *ahead, passed_over = await self._connection.fetchrow(sql.NEXT, now, *kinds)
        if passed_over:  # somebody holds something that is due: look again soon
            ahead.append(now + passed_over_rest_ms)
        next_at = min((instant for instant in ahead if instant is not None), default=None)
        return Due(promises, tasks, schedules, next_at)


def _obligations(row: Any) -> list[Any]:
    """As rows of `obligations`: of one promise, from its record."""
    awaiters, listeners = row[-3] or (), row[-2] or ()
    return [(row[0], each, None, None) for each in awaiters] + [(row[0], None, *each) for each in listeners]


def _offer_parameters(scan: ClaimScan, group: str) -> tuple[Any, ...]:
    without = list(scan.without.get(group, ()))
    return group, scan.now, scan.limit, scan.ceiling, without, *within(scan.scope)


def _holds_nothing(task: Task) -> bool:
    return task.state == "fulfilled" or task.job is None or task.job.unique is None
