"""While a search looks through the store others wait, so each looks at so much, and a commit has few."""

from typing import Any

import pytest

from holdfast.node import Node
from holdfast.node.queue import group_searches_max
from holdfast.protocol import limits
from holdfast.protocol.requests import PromiseSearch, ScheduleSearch, TaskSearch
from holdfast.store.memory import MemoryStore
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


async def test_an_array_has_so_many_searches_and_the_rest_is_refused_unlike_its_writes() -> None:
    async with Node(MemoryStore()) as node:
        searches = [ask(TaskSearch()), ask(ScheduleSearch()), *(ask(nothing) for _ in range(18))]
        replies = await node.request([*searches, create("x")])
        expected = [200] * group_searches_max + [429] * (20 - group_searches_max) + [200]
        assert [reply.status for reply in replies] == expected
        assert "changed" in str(replies[-2].data)


async def test_searches_that_have_no_room_wait_and_hold_nobody_up() -> None:
    store = GatedStore()
    node = await opened(store)
    first = node.submit([get("x")])  # its commit is under way while the others come
    await settle_down()
    searches = [node.submit([ask(nothing)]) for _ in range(group_searches_max + 3)]
    later = node.submit([get("x")])
    store.gate.set()
    await node.request([get("x")])
    assert first.done()
    assert later.done()
    assert [[reply.status for reply in await each] for each in searches] == [[200]] * len(searches)
    assert store.groups[:3] == [1, group_searches_max + 2, 3]
    await node.stop()
