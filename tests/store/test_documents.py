"""Documents beside the records: the same on every store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.node import documents
from holdfast.node.documents import Documents
from holdfast.protocol.errors import StoreUnavailable
from holdfast.store.interface import Store
from holdfast.store.sqlite import SqliteStore
from holdfast.store.urls import open_store
from tests.postgres import database_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    found = open_store(urls[request.param] if request.param in urls else database_url())
    await found.open()
    yield found
    await found.close()


async def test_every_page_ends_behind_where_it_began(store: Store) -> None:
    kept = Documents(store)
    for name in ("", "a", "b"):
        await kept.put("worker", name, {}, 5)
    assert [each.id for each in await kept.page("worker")] == ["a", "b"]
    assert [each.id for each in await kept.page("worker", "a")] == ["b"]
    assert [each.id for each in await kept.page("worker", "", newest=True)] == ["b", "a", ""]


async def test_a_document_is_found_by_kind_and_id_and_replaced_by_a_newer_one(store: Store) -> None:
    kept = Documents(store)
    await kept.put("worker", "a", {"n": 1}, 5)
    await kept.put("worker", "a", {"n": 2}, 6)
    await kept.put("audit", "a", {"n": 3}, 7)
    found = await kept.get("worker", "a")
    assert found is not None
    assert (found.text, found.at) == ('{"n":2}', 6)
    assert await kept.get("worker", "b") is None


async def test_pages_go_by_id_forward_or_from_the_newest(store: Store) -> None:
    kept = Documents(store)
    for name in ("b", "a", "é", "B", "c"):
        await kept.put("audit", name, {}, 1)
    await kept.put("worker", "aa", {}, 1)
    assert [each.id for each in await kept.page("audit")] == ["B", "a", "b", "c", "é"]
    assert [each.id for each in await kept.page("audit", "a", 2)] == ["b", "c"]
    assert [each.id for each in await kept.page("audit", newest=True, limit=2)] == ["é", "c"]
    assert [each.id for each in await kept.page("audit", "c", newest=True)] == ["b", "a", "B"]


async def test_old_ones_of_a_kind_are_deleted_and_others_stay(store: Store) -> None:
    kept = Documents(store)
    span = documents.keep_ms["rates"]
    for number in range(5):
        await kept.put("rates", f"{number}", {}, 1_000 + number)
    await kept.put("worker", "w", {}, 1_000)
    await kept.put("rates", "9", {}, 1_003 + span + documents.trim_ms)
    assert [each.id for each in await kept.page("rates")] == ["9"]
    assert [each.id for each in await kept.page("worker")] == ["w"]
    assert documents.keep_ms["worker"] > 0


async def test_many_at_once_are_written_together_and_all_are_there(store: Store) -> None:
    kept = Documents(store)
    count = 2 * documents.put_max + 7
    await asyncio.gather(*[kept.put("worker", f"{number:04d}", number, number) for number in range(count)])
    found = await kept.page("worker")
    assert [each.text for each in found] == [str(number) for number in range(count)]


async def test_a_store_that_fails_is_told_to_whoever_writes_and_the_next_write_is_tried(
    tmp_path: Path,
) -> None:
    path = tmp_path / "h.db"
    store = SqliteStore(path)
    await store.open()
    kept = Documents(store)
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE holdfast_documents RENAME TO away")
        with pytest.raises(StoreUnavailable):
            await kept.put("worker", "a", {}, 1)
        other.execute("ALTER TABLE away RENAME TO holdfast_documents")
        await kept.put("worker", "b", {}, 1)
    assert [each.id for each in await kept.page("worker")] == ["b"]
    await store.close()
