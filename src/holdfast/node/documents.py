"""Writes and reads the documents beside the records (store/documents.py), for one node.

1. A document is durable when `put` returns. Those that come while a write is under way are written together.
2. Each kind has a bound in time, and old ones are deleted a few at a time, seldom: `keep_ms`.
3. A store that fails makes every call raise `StoreUnavailable`. What a document tells of is done or not done
   whatever happens to it, so a caller that needs the document writes it first.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.node.health import failure_of
from holdfast.protocol.records import Millis
from holdfast.store.documents import Document, DropDocuments, FindDocuments, PutDocuments, documents_max
from holdfast.store.interface import Store, Work

day_ms: Final = 86_400_000
trim_ms: Final = 600_000  # between two looks for old ones of a kind
put_max: Final = 200  # in one transaction

keep_ms: Final[dict[str, int]] = {
    "worker": 7 * day_ms,
    "declared": 30 * day_ms,
    "drain": 7 * day_ms,
    "audit": 90 * day_ms,
    "rates": 7 * day_ms,
}


Result = TypeVar("Result")


class Put(Struct):
    document: Document
    done: "asyncio.Future[None]"


class Documents:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: list[Put] = []
        self._writing: asyncio.Task[None] | None = None
        self._trimmed_at: dict[str, Millis] = {}

    async def put(self, kind: str, document_id: str, value: object, now: Millis) -> None:
        """Durable when this returns."""
        text = msgspec.json.encode(value).decode()
        loop = asyncio.get_running_loop()
        put = Put(Document(kind, document_id, now, text), loop.create_future())
        self._waiting.append(put)
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        await put.done

    async def get(self, kind: str, document_id: str) -> Document | None:
        found = await self._find(FindDocuments(kind, id=document_id))
        return found[0] if found else None

    async def page(
        self, kind: str, after: str = "", limit: int = documents_max, *, newest: bool = False
    ) -> list[Document]:
        return await self._find(FindDocuments(kind, after, min(limit, documents_max), newest))

    async def drop(self, kind: str, document_id: str) -> None:
        def work() -> Work[None]:
            _ = yield DropDocuments(kind, id=document_id)

        await self.store.transact(work)

    async def stop(self) -> None:
        """After what was asked for is written."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _find(self, step: FindDocuments) -> list[Document]:
        def work() -> Work[list[Document]]:
            found: list[Document] = yield step
            return found

        return await self._transact(work)

    async def _transact(self, work: Callable[[], Work[Result]]) -> Result:
        try:
            return await self.store.transact(work)
        except Exception as error:
            found = failure_of(error)
            raise found from (None if found is error else error)

    async def _write(self) -> None:
        try:
            while self._waiting:
                puts, self._waiting = self._waiting[:put_max], self._waiting[put_max:]
                await self._write_some(puts)
        finally:
            self._writing = None

    async def _write_some(self, puts: Sequence[Put]) -> None:
        latest = {(put.document.kind, put.document.id): put.document for put in puts}
        drops = [self._drop(document) for document in latest.values() if self._is_time_to_trim(document)]

        def work() -> Work[None]:
            yield PutDocuments(tuple(latest.values()))
            for drop in drops:
                _ = yield drop

        try:
            await self._transact(work)
        except BaseException as error:
            for put in puts:
                if not put.done.done():
                    put.done.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for put in puts:
            if not put.done.done():
                put.done.set_result(None)

    def _is_time_to_trim(self, document: Document) -> bool:
        if document.at - self._trimmed_at.get(document.kind, 0) < trim_ms:
            return False
        self._trimmed_at[document.kind] = document.at
        return True

    def _drop(self, document: Document) -> DropDocuments:
        return DropDocuments(document.kind, document.at - keep_ms[document.kind])
