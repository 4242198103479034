"""How much began and ended, minute by minute: counted from the commits of this node, kept in the store.

A node counts in memory and writes one document a minute, if anything happened. So a page reads a few rows for
an hour, whatever is stored, and it survives a restart; of a crash the last minute is lost. Nodes on one
store, and processes on one file, each write their own, and are added up when they are read. What somebody
creates in a transaction of his own is counted when it ends.

1. Counting is a few steps for each task that a commit changes.
2. Failures are told apart by name and by code, at most `failures_max` in a minute; the rest is `others`.
"""

import asyncio
import logging
import secrets
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from holdfast.engine import WorkingSet
from holdfast.engine.newest import lane_of, listing_of
from holdfast.node.documents import Documents
from holdfast.protocol.records import Millis
from holdfast.protocol.tags import KEEP, keep_of

log = logging.getLogger("holdfast.node")

RATES: Final = "rates"
minute_ms: Final = 60_000
failures_max: Final = 50
OTHERS: Final = "others"
STARTED: Final = "started"
ENDS: Final = ("completed", "failed", "cancelled", "timed_out", "expired")


class Tally(Struct):
    """`counts`: by "kind event", as "execution started". `names`, `codes`: of failures, as "task pay"."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    names: dict[str, int] = field(default_factory=dict[str, int])
    codes: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: "Tally") -> None:
        for mine, more in ((self.counts, other.counts), (self.names, other.names), (self.codes, other.codes)):
            for name, number in more.items():
                _count(mine, name, number)


def tally(ws: WorkingSet, found: Tally | None) -> Tally | None:
    """What a working set is about to save, added to what it saved before. None: nothing began or ended."""
    for task_id, is_new in ws.changed_tasks.items():
        task = ws.tasks[task_id]
        if task is None:
            continue
        if not is_new and task.state != "fulfilled":
            continue
        found = found or Tally()
        kind = "execution" if task.job is None else "task"
        if is_new:
            _count(found.counts, f"{kind} {STARTED}", 1)
        if task.state == "fulfilled":
            listing = listing_of(task, ws.promises.get(task_id))
            lane = lane_of(task, listing.outcome)
            _count(found.counts, lane, 1)
            if lane.endswith(("failed", "timed_out", "expired")):
                _count(found.names, f"{kind} {listing.name or ''}", 1)
                _count(found.codes, f"{kind} {listing.code or lane.partition(' ')[2]}", 1)
    return found


def shortest_keep(ws: WorkingSet, found: int | None) -> int | None:
    """Of what ends in this working set: how long the one is kept that is kept for the shortest time."""
    for task_id in ws.changed_tasks:
        task, promise = ws.tasks[task_id], ws.promises.get(task_id)
        if task is not None and task.state == "fulfilled" and promise is not None and KEEP in promise.tags:
            keep_ms = keep_of(promise.tags)
            found = keep_ms if found is None or keep_ms is None else min(found, keep_ms)
    return found


def _count(known: dict[str, int], name: str, number: int) -> None:
    if name not in known and len(known) >= failures_max:
        name = OTHERS
    known[name] = known.get(name, 0) + number


class Rates:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._node = secrets.token_hex(4)
        self._minute = 0
        self._tally = Tally()
        self._is_written = True
        self._writing: asyncio.Task[None] | None = None

    def note(self, counted: Tally, now: Millis) -> None:
        """By a commit; the minute before is written when the first one of the next comes."""
        minute = now // minute_ms
        if minute != self._minute:
            self._write()
            self._minute, self._tally = minute, Tally()
        self._tally.add(counted)
        self._is_written = False

    def _write(self) -> None:
        if not self._is_written:
            self._is_written = True
            work = self._put(self._minute, self._tally)
            self._writing = asyncio.get_running_loop().create_task(work)

    async def _put(self, minute: int, counted: Tally) -> None:
        try:
            await self._documents.put(RATES, f"{minute:011d}-{self._node}", counted, minute * minute_ms)
        except Exception as error:
            log.warning("the counts of the last minute could not be stored: %s", error)

    async def stop(self) -> None:
        self._write()
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def read(self, since: Millis) -> dict[int, Tally]:
        """By minute, from an instant on; the minute that is not over is in it."""
        after = f"{since // minute_ms:011d}"
        found: dict[int, Tally] = {}
        while page := await self._documents.page(RATES, after):
            for document in page:
                minute = int(document.id.partition("-")[0])
                found.setdefault(minute, Tally()).add(_read(document.text))
            after = page[-1].id
        if not self._is_written and self._minute * minute_ms >= since - minute_ms:
            found.setdefault(self._minute, Tally()).add(self._tally)
        return found


_read: Final = msgspec.json.Decoder(Tally).decode


def buckets(found: dict[int, Tally], since: Millis, bucket_ms: int, count: int) -> dict[str, Any]:
    """The counts of executions and of background tasks, in stretches of time of the same length."""
    names = (STARTED, *ENDS)
    rows: dict[str, list[int]] = {
        f"{kind} {name}": [0] * count for kind in ("execution", "task") for name in names
    }
    for minute, counted in found.items():
        place = (minute * minute_ms - since) // bucket_ms
        for name, number in counted.counts.items():
            if name in rows and 0 <= place < count:
                rows[name][place] += number
    shown = {_camel(name): rows[f"execution {name}"] for name in names if name != "expired"}
    return shown | {"tasks": {_camel(name): rows[f"task {name}"] for name in names if name != "timed_out"}}


def _camel(name: str) -> str:
    return "timedOut" if name == "timed_out" else name
