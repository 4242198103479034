"""While a search looks through the store others wait, so each looks at so much, and not for long."""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from holdfast.engine.scans import PromiseScan, TaskScan
from holdfast.node import Node, budget
from holdfast.protocol import limits
from holdfast.protocol.requests import PromiseSearch, ScheduleSearch, TaskSearch
from holdfast.store import postgres_connection, postgres_transaction, scan_sql, sqlite_search
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres_statements import BEGIN_SEARCH
from tests.backends import BACKENDS, open_backend
from tests.node.test_group_commit import GatedStore, opened, settle_down
from tests.requests import FAR, ask, create, get

nothing = PromiseSearch(tags={"no": "such"})
thirds = (range(4), range(4, 8), range(8, 12))


def envelope(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "head": {"corrId": "c", "version": "2026-04-01"}, "data": data}


def creation(name: str, **tags: str) -> dict[str, Any]:
    entries = {key.replace("_", ":"): value for key, value in tags.items()}
    return envelope("promise.create", {"id": name, "timeoutAt": FAR, "tags": entries})


def schedule(name: str, colour: str) -> dict[str, Any]:
    data = {
        "id": name,
        "cron": "* * * * *",
        "promiseId": "{{.timestamp}}",
        "promiseTimeout": 1,
        "promiseTags": {"colour": colour},
    }
    return envelope("schedule.create", data)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_search_ends_after_so_many_records_and_its_cursor_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "search_steps_max", 4)
    backend = open_backend(name, debug=True)

    def pages(kind: str, **asked: Any) -> list[list[str]]:
        found: list[list[str]] = []
        more: dict[str, Any] = {}
        while True:
            data: Any = backend.handle(envelope(kind, asked | more))["data"]
            found.append([each["id"] for key in data if key != "cursor" for each in data[key]])
            if "cursor" not in data:
                return found
            more = {"cursor": data["cursor"]}

    try:
        backend.handle(envelope("debug.reset", {}))
        for n in range(12):
            colour = "red" if n in (0, 9, 10) else "blue"
            backend.handle(creation(f"p{n:02}", colour=colour, resonate_target="poll://any@w"))
            backend.handle(schedule(f"s{n:02}", colour))
        for kind, mark in (("promise.search", "p"), ("task.search", "p"), ("schedule.search", "s")):
            red = [[f"{mark}00"], [], [f"{mark}09", f"{mark}10"]]
            assert pages(kind, tags={"colour": "red"}) == red
            assert pages(kind, tags={"colour": "red"}, limit=1) == [*red[:2], red[2][:1], red[2][1:]]
            assert pages(kind, tags={"colour": "red"}, prefix=f"{mark}1") == [[f"{mark}10"]]
            assert [len(page) for page in pages(kind, limit=12)] == [12], "nothing is passed over"
        assert pages("promise.search", state="resolved") == [[], [], []]
        assert pages("task.search", group="w", limit=100) == [[f"p{n:02}" for n in s] for s in thirds]
    finally:
        backend.close()


def all_pages(handle: Callable[[dict[str, Any]], Any], asked: dict[str, Any]) -> list[list[str]]:
    found: list[list[str]] = []
    more: dict[str, Any] = {}
    while True:
        data = handle(envelope("promise.search", asked | more))["data"]
        found.append([each["id"] for each in data["promises"]])
        if "cursor" not in data:
            return found
        more = {"cursor": data["cursor"]}


def test_a_search_that_takes_too_long_on_sqlite_looks_at_fewer_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite_search, "search_ms_max", 0)
    monkeypatch.setattr(sqlite_search, "instructions_per_look", 2_000)  # and by then it has taken too long
    backend = open_backend("sqlite")
    try:
        ids = [f"p{n:03}" for n in range(300)]
        backend.handle([creation(name, colour="red") for name in ids])
        pages = all_pages(backend.handle, {"tags": {"colour": "blue"}})
        assert len(pages) > 1, "no page came to the end"
        assert [name for page in pages for name in page] == []
        assert [*chain(*all_pages(backend.handle, {"tags": {"colour": "red"}}))] == ids
        assert len(all_pages(backend.handle, {})) == 3, "what passes over nothing is not ended"
    finally:
        backend.close()


def test_a_search_that_cannot_look_at_less_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_search, "search_ms_max", 0)
    monkeypatch.setattr(sqlite_search, "instructions_per_look", 1)
    backend = open_backend("sqlite")
    try:
        search = envelope("promise.search", {"tags": {"colour": "red"}})
        first, second, third = backend.handle([creation("a"), search, creation("b")])
        assert [each["head"]["status"] for each in (first, second, third)] == [200, 400, 200]
        assert "HF1907" in json.dumps(second)
        assert [*chain(*all_pages(backend.handle, {}))] == ["a", "b"]
    finally:
        backend.close()


def test_a_search_that_takes_too_long_on_postgres_is_undone_alone_and_looks_at_fewer_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str | None] = []

    def find_query(scan: Any, words: Any) -> tuple[str, list[Any]]:
        if isinstance(scan, PromiseScan):
            tries.append(scan.page.until)
            is_slow = len(tries) < 3
            limit_searches(monkeypatch, 50 if is_slow else 60_000)
            if is_slow:
                return "SELECT pg_sleep(30)::text", []
        return scan_sql.find_query(scan, words)

    monkeypatch.setattr(postgres_transaction, "query_of", find_query)
    monkeypatch.setattr(limits, "search_steps_max", 64)
    backend = open_backend("postgres")
    try:
        backend.handle(envelope("debug.reset", {}))
        before = creation("q")
        backend.handle([creation(f"p{n}", colour="red") for n in range(9)])
        search = envelope("promise.search", {"tags": {"colour": "red"}})
        first, second = backend.handle([before, search])
        assert (first["head"]["status"], second["head"]["status"]) == (200, 200)
        assert [each["id"] for each in second["data"]["promises"]] == ["p0"], "one record at the third try"
        assert tries == [None, "p3", "p0"]
        assert backend.handle(envelope("promise.get", {"id": "q"}))["head"]["status"] == 200
    finally:
        backend.close()


@pytest.mark.parametrize(("stalls", "status"), [(1, 200), (2, 400)])
def test_a_search_that_can_look_at_no_less_outlives_one_stall_of_the_database(
    stalls: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Any] = []

    def find_query(scan: Any, words: Any) -> tuple[str, list[Any]]:
        if isinstance(scan, TaskScan):
            tries.append(scan)
            is_slow = len(tries) <= stalls
            limit_searches(monkeypatch, 50 if is_slow else 60_000)
            if is_slow:
                return "SELECT pg_sleep(30)::text", []
        return scan_sql.find_query(scan, words)

    monkeypatch.setattr(postgres_transaction, "query_of", find_query)
    backend = open_backend("postgres")
    try:
        backend.handle(envelope("debug.reset", {}))
        backend.handle(creation("p", resonate_target="poll://any@w"))
        lease = {"id": "p", "version": 0, "pid": "w1", "ttl": 60_000}
        backend.handle(envelope("task.acquire", lease))
        answer = backend.handle(envelope("task.search", {"pid": "w1"}))
        assert (answer["head"]["status"], len(tries)) == (status, 2)
        if status == 200:
            assert [each["id"] for each in answer["data"]["tasks"]] == ["p"]
    finally:
        backend.close()


def limit_searches(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """From the next one on: the statement is put together before it begins."""
    begin = BEGIN_SEARCH.rpartition("=")[0]
    monkeypatch.setattr(postgres_connection, "BEGIN_SEARCH", f"{begin}= {ms}")


async def test_an_array_has_so_many_searches_and_the_rest_is_refused_unlike_its_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 3 * limits.search_steps_max)
    monkeypatch.setattr(budget, "request_steps", 0)
    async with Node(MemoryStore()) as node:
        plain = [ask(TaskSearch()), ask(ScheduleSearch())]
        replies = await node.request([*plain, *(ask(nothing) for _ in range(18)), create("x")])
        assert [reply.status for reply in replies] == [200] * 6 + [429] * 14 + [200]
        assert "changed" in str(replies[-2].data)


async def test_searches_that_have_no_room_wait_and_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 3 * limits.search_steps_max)
    monkeypatch.setattr(budget, "request_steps", 0)
    store = GatedStore()
    node = await opened(store)
    first = node.submit([get("x")])  # its commit is under way while the others come
    await settle_down()
    searches = [node.submit([ask(nothing)]) for _ in range(5)]
    later = node.submit([get("x")])
    store.gate.set()
    await later
    assert first.done()
    assert [[reply.status for reply in await each] for each in searches] == [[200]] * len(searches)
    assert store.groups[:3] == [1, 3 + 1, 2]
    await node.stop()
