"""Who works here: what workers have told of themselves, kept so that it can be read while none of them runs.

1. A report is written when it says something new, and else seldom: a cluster that does nothing is quiet. When
   a worker was seen last is known more exactly at the node that it reports to.
2. Declarations are stored once for all workers that have the same (by digest).
3. To drain a worker is an order that stays until it is taken back. The worker hears it with its next report,
   at whichever node; new tasks are offered to others meanwhile.
4. What reports make grow is bounded: new workers in ten minutes, those of one prefix too; the bytes of a
   report, of which only the digest is kept here; the declarations of one prefix, of which the oldest go.
5. Each worker has a `scope`, the prefix of the token that it reports with (empty: an admin's). What is told
   under one prefix replaces nothing that was told under another, and drains nobody else's worker.
"""

import hashlib
from collections import Counter
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.node.changes import ChangeFeed, Changes
from holdfast.node.documents import Documents
from holdfast.node.message_router import MessageRouter
from holdfast.protocol.errors import Overloaded
from holdfast.protocol.records import Millis
from holdfast.protocol.workers import (
    Declaration,
    WorkerOrders,
    WorkerReport,
    WorkerState,
    declared_bytes_max,
    report_bytes_max,
)
from holdfast.store.documents import Document

WORKER: Final = "worker"
DECLARED: Final = "declared"
DRAIN: Final = "drain"

write_ms: Final = 60_000  # between two writes of a report that says nothing new
lost_here_ms: Final = 45_000  # since the last report to this node
lost_ms: Final = 150_000  # since the last one that was written
orders_ms: Final = 2_000  # for which the orders that were read hold
known_max: Final = 20_000
known_in_scope_max: Final = 1_000  # of one prefix
known_ms: Final = 600_000  # since its last report, for which a worker is known here
workers_page: Final = 100
declared_page: Final = 20
declared_in_scope_max: Final = 50  # declarations of workers of one prefix that are kept
declared_in_scope_bytes_max: Final = 2_097_152
declared_again_ms: Final = 86_400_000
drained_max: Final = 20_000


class Known(Struct):
    digest: bytes
    scope: str
    written_at: Millis
    seen_at: Millis


class StoredReport(WorkerReport, frozen=True):
    """`scope`: the prefix of the token that it was told with."""

    scope: str = ""


class Drain(Struct, frozen=True, omit_defaults=True):
    drain: bool
    scope: str = ""


class KnownWorker(Struct, frozen=True):
    """A worker as it is now."""

    report: StoredReport
    seen_at: Millis
    state: WorkerState

    @property
    def declared_key(self) -> str:
        return _declared_key(self.report.scope, self.report.declared)


class Workers:
    def __init__(self, documents: Documents, router: MessageRouter, feed: ChangeFeed) -> None:
        self._documents = documents
        self._router = router
        self._feed = feed
        self._known: dict[str, Known] = {}  # who reported longest ago comes first
        self._counts: Counter[str] = Counter()  # of those that are known, by scope
        self._declared_at: dict[str, Millis] = {}
        self._orders_at: Millis = 0

    async def tell(self, report: WorkerReport, now: Millis, scope: str = "") -> WorkerOrders:
        """Durable when this returns, if it says something new. Ask for the `scope_of` its id first."""
        declarations, report = report.declarations, replace(report, declarations=None)
        text = msgspec.json.encode(report)
        if len(text) > report_bytes_max:
            raise ValueError(f"the report has {len(text)} bytes, the limit is {report_bytes_max}")
        known = self._known_again(report.id, scope, now)
        if declarations is not None:
            await self._store(scope, report.declared, declarations, now)
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if known.digest != digest or now - known.written_at >= write_ms:
            known.digest, known.written_at = digest, now
            await self._documents.put(WORKER, report.id, StoredReport(**asdict(report), scope=scope), now)
            self._feed.note(Changes(workers={report.id: report.group}))
        known.seen_at = now
        if report.is_stopped:
            self._router.drained.pop(report.id, None)
            return WorkerOrders()
        await self._read_orders(now)
        declared_at = self._declared_at.get(_declared_key(scope, report.declared), 0)
        wanted = bool(report.declared) and now - declared_at > declared_again_ms
        return WorkerOrders(self._router.drained.get(report.id) == scope, wanted)

    async def scope_of(self, worker_id: str) -> str | None:
        """The prefix that a worker of this id was told of with; None: nobody was."""
        if (known := self._known.get(worker_id)) is not None:
            return known.scope
        found = await self._documents.get(WORKER, worker_id)
        return None if found is None else _read(found.text).scope

    async def order(self, worker: KnownWorker, *, drain: bool, now: Millis) -> None:
        """Drain a worker, or take that back."""
        report = worker.report
        await self._documents.put(DRAIN, report.id, Drain(drain, report.scope), now)
        self._orders_at = 0
        await self._read_orders(now)
        self._feed.note(Changes(workers={report.id: report.group}))

    async def find(self, worker_id: str, now: Millis) -> KnownWorker | None:
        found = await self._documents.get(WORKER, worker_id)
        await self._read_orders(now)
        return None if found is None else self._view(_read(found.text), found.at, now)

    async def page(self, after: str, now: Millis) -> list[KnownWorker]:
        """By id."""
        found = await self._documents.page(WORKER, after, workers_page)
        await self._read_orders(now)
        return [self._view(_read(each.text), each.at, now) for each in found]

    async def declarations(self) -> dict[str, list[Declaration]]:
        """By `declared_key`. There are as many as there are different workers, in the last weeks."""
        found: dict[str, list[Declaration]] = {}
        after = ""
        while page := await self._documents.page(DECLARED, after, declared_page):
            after = page[-1].id
            found |= {each.id: _read_declared(each.text) for each in page}
        return found

    def _known_again(self, worker_id: str, scope: str, now: Millis) -> Known:
        """It comes last now: who reported longest ago comes first."""
        known = self._known.pop(worker_id, None)
        if known is not None:
            self._counts[known.scope] -= 1
        if known is None or known.scope != scope:
            self._make_room(scope, now)
            known = Known(b"", scope, 0, now)
        self._counts[scope] += 1
        self._known[worker_id] = known
        return known

    def _make_room(self, scope: str, now: Millis) -> None:
        """For one more worker: those that were not heard of for long are not known any more."""
        while self._known:
            first = next(iter(self._known))
            if now - self._known[first].seen_at <= known_ms:
                break
            self._counts[self._known.pop(first).scope] -= 1
        if len(self._known) >= known_max:
            raise Overloaded(f"{known_max} workers have reported to this node, which is the limit")
        if scope and self._counts[scope] >= known_in_scope_max:
            raise Overloaded(
                f"{known_in_scope_max} workers with this prefix have reported, which is the limit"
            )

    async def _store(self, scope: str, digest: str, declarations: list[Declaration], now: Millis) -> None:
        size = len(msgspec.json.encode(declarations))
        if size > declared_bytes_max:
            raise ValueError(
                f"the declarations of a worker have {size} bytes, the limit is {declared_bytes_max}"
            )
        key = _declared_key(scope, digest)
        await self._documents.put(DECLARED, key, declarations, now)
        if scope:
            await self._drop_oldest_declared(_declared_key(scope, ""))
        if len(self._declared_at) >= known_max:
            self._declared_at.clear()
        self._declared_at[key] = now

    async def _drop_oldest_declared(self, start: str) -> None:
        """Of those of one scope, whose keys begin so: the newest stay, as many as may."""
        kept = [
            each
            for each in await self._documents.page(DECLARED, start, 2 * declared_in_scope_max)
            if each.id.startswith(start)
        ]
        kept.sort(key=_age, reverse=True)
        size = 0
        for number, each in enumerate(kept):
            size += len(each.text)
            if number >= declared_in_scope_max or size > declared_in_scope_bytes_max:
                await self._documents.drop(DECLARED, each.id)

    async def _read_orders(self, now: Millis) -> None:
        if now - self._orders_at < orders_ms:
            return
        self._orders_at = now
        drained: dict[str, str] = {}
        after = ""
        while len(drained) < drained_max and (found := await self._documents.page(DRAIN, after)):
            after = found[-1].id
            orders = {each.id: _read_drain(each.text) for each in found}
            drained |= {key: order.scope for key, order in orders.items() if order.drain}
        self._router.drained = drained

    def _view(self, report: StoredReport, written_at: Millis, now: Millis) -> KnownWorker:
        known = self._known.get(report.id)
        seen_at = written_at if known is None else max(written_at, known.seen_at)
        state: WorkerState = "running"
        if report.is_stopped:
            state = "stopped"
        elif now - seen_at > (lost_ms if known is None else lost_here_ms):
            state = "lost"
        elif self._router.drained.get(report.id) == report.scope:
            state = "draining" if report.held else "drained"
        return KnownWorker(report, seen_at, state)


def _declared_key(scope: str, digest: str) -> str:
    return f"{scope}\n{digest}" if scope else digest


def _age(document: Document) -> tuple[Millis, str]:
    return document.at, document.id


_read: Final = msgspec.json.Decoder(StoredReport).decode
_read_drain: Final = msgspec.json.Decoder(Drain).decode
_read_declared: Final = msgspec.json.Decoder(list[Declaration]).decode
