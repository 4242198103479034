"""Who works here: what workers have told of themselves, kept so that it can be read while none of them runs.

1. A report is written when it says something new, and else seldom: a cluster that does nothing is quiet. When
   a worker was seen last is known more exactly at the node that it reports to.
2. Declarations are stored once for all workers that have the same (by digest).
3. To drain a worker is an order that stays until it is taken back. The worker hears it with its next report,
   at whichever node; new tasks are offered to others meanwhile.
4. What reports make grow is bounded: workers that are known here, the size of a report.
"""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.node.changes import ChangeFeed, Changes
from holdfast.node.documents import Documents
from holdfast.node.message_router import MessageRouter
from holdfast.protocol.errors import Overloaded
from holdfast.protocol.records import Millis
from holdfast.protocol.workers import Declaration, WorkerOrders, WorkerReport, WorkerState, declared_bytes_max

WORKER: Final = "worker"
DECLARED: Final = "declared"
DRAIN: Final = "drain"

write_ms: Final = 60_000  # between two writes of a report that says nothing new
lost_here_ms: Final = 45_000  # since the last report to this node
lost_ms: Final = 150_000  # since the last one that was written
orders_ms: Final = 2_000  # for which the orders that were read hold
known_max: Final = 20_000
declared_again_ms: Final = 86_400_000


class Known(Struct):
    text: bytes
    written_at: Millis
    seen_at: Millis


class Worker(Struct, frozen=True):
    """A worker as it is now."""

    report: WorkerReport
    seen_at: Millis
    state: WorkerState


class Workers:
    def __init__(self, documents: Documents, router: MessageRouter, feed: ChangeFeed) -> None:
        self._documents = documents
        self._router = router
        self._feed = feed
        self._known: dict[str, Known] = {}
        self._declared_at: dict[str, Millis] = {}
        self._orders_at: Millis = 0

    async def tell(self, report: WorkerReport, now: Millis) -> WorkerOrders:
        """Durable when this returns, if it says something new."""
        declarations, report = report.declarations, replace(report, declarations=None)
        text = msgspec.json.encode(report)
        known = self._known.get(report.id)
        if known is None and len(self._known) >= known_max:
            raise Overloaded(f"{known_max} workers have told of themselves here, which is the most")
        if declarations is not None:
            await self._store(report.declared, declarations, now)
        if known is None or known.text != text or now - known.written_at >= write_ms:
            known = self._known[report.id] = Known(text, now, now)
            await self._documents.put(WORKER, report.id, report, now)
            self._feed.note(Changes(workers={report.id: report.group}))
        known.seen_at = now
        if report.is_stopped:
            self._known.pop(report.id, None)
            self._router.drained.discard(report.id)
            return WorkerOrders()
        await self._read_orders(now)
        wanted = bool(report.declared) and now - self._declared_at.get(report.declared, 0) > declared_again_ms
        return WorkerOrders(report.id in self._router.drained, wanted)

    async def order(self, worker_id: str, *, drain: bool, now: Millis) -> None:
        """Drain a worker, or take that back."""
        await self._documents.put(DRAIN, worker_id, {"drain": drain}, now)
        self._orders_at = 0
        await self._read_orders(now)
        found = await self._documents.get(WORKER, worker_id)
        if found is not None:
            self._feed.note(Changes(workers={worker_id: _read(found.text).group}))

    async def find(self, worker_id: str, now: Millis) -> Worker | None:
        found = await self._documents.get(WORKER, worker_id)
        await self._read_orders(now)
        return None if found is None else self._view(_read(found.text), found.at, now)

    async def page(self, after: str, now: Millis) -> list[Worker]:
        """By id."""
        found = await self._documents.page(WORKER, after)
        await self._read_orders(now)
        return [self._view(_read(each.text), each.at, now) for each in found]

    async def declarations(self) -> dict[str, list[Declaration]]:
        """By digest. There are as many as there are different workers, in the last weeks."""
        found = await self._documents.page(DECLARED)
        return {each.id: _read_declared(each.text) for each in found}

    async def _store(self, digest: str, declarations: list[Declaration], now: Millis) -> None:
        size = len(msgspec.json.encode(declarations))
        if size > declared_bytes_max:
            raise ValueError(
                f"the declarations of a worker have {size} bytes, the most is {declared_bytes_max}"
            )
        await self._documents.put(DECLARED, digest, declarations, now)
        if len(self._declared_at) >= known_max:
            self._declared_at.clear()
        self._declared_at[digest] = now

    async def _read_orders(self, now: Millis) -> None:
        if now - self._orders_at < orders_ms:
            return
        self._orders_at = now
        found = await self._documents.page(DRAIN)
        self._router.drained = {each.id for each in found if msgspec.json.decode(each.text)["drain"]}

    def _view(self, report: WorkerReport, written_at: Millis, now: Millis) -> Worker:
        known = self._known.get(report.id)
        seen_at = written_at if known is None else max(written_at, known.seen_at)
        state: WorkerState = "running"
        if report.is_stopped:
            state = "stopped"
        elif now - seen_at > (lost_ms if known is None else lost_here_ms):
            state = "lost"
        elif report.id in self._router.drained:
            state = "draining" if report.held else "drained"
        return Worker(report, seen_at, state)


_read: Final = msgspec.json.Decoder(WorkerReport).decode
_read_declared: Final = msgspec.json.Decoder(list[Declaration]).decode
