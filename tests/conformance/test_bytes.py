"""An answer holds so many bytes: fewer tasks are granted than asked for, a page ends early."""

from __future__ import annotations

import pytest

from holdfast.protocol import limits
from tests.conformance.wire import WORKERS, Json, Wire, creation
from tests.model import oracle

MEGABYTE = 1_000_000
FITTING = 8  # of 8 MiB


def create_large(wire: Wire, count: int, target: str) -> list[str]:
    names = [f"p{number:02}" for number in range(count)]
    for name in names:
        data = creation(name, target=target, param={"data": "x" * MEGABYTE})
        assert wire.send("promise.create", data).status == 200
    return names


def test_a_claim_is_given_what_fits_into_its_answer_and_told_to_ask_again_at_once(wire: Wire) -> None:
    names = create_large(wire, FITTING + 3, target=WORKERS)
    claim = {"groups": ["workers"], "count": 500, "pid": "p", "ttl": 60_000}
    first = wire.send("task.claim", claim).data
    assert [each["task"]["id"] for each in first["tasks"]] == names[:FITTING]
    assert first["nextAt"] == wire.now
    rest = wire.send("task.claim", claim).data
    assert [each["task"]["id"] for each in rest["tasks"]] == names[FITTING:]
    assert "nextAt" not in rest


def test_a_claim_of_small_tasks_is_given_all_of_them(wire: Wire) -> None:
    for number in range(40):
        wire.create(f"t{number:02}", target=WORKERS)
    answer = wire.send("task.claim", {"groups": ["workers"], "count": 40, "pid": "p", "ttl": 60_000})
    assert (len(answer.data["tasks"]), "nextAt" in answer.data) == (40, False)


@pytest.mark.parametrize("kind", ["promise.search", "task.search"])
def test_a_page_ends_where_it_becomes_too_large_and_its_cursor_goes_on(wire: Wire, kind: str) -> None:
    names = create_large(wire, FITTING + 3, target=WORKERS)
    first = wire.send(kind, {"limit": 1_000}).data
    key = "promises" if kind == "promise.search" else "tasks"
    assert [each["id"] for each in first[key]] == names[:FITTING]
    assert first["cursor"] == names[FITTING - 1]
    rest = wire.send(kind, {"limit": 1_000, "cursor": first["cursor"]}).data
    assert ([each["id"] for each in rest[key]], "cursor" in rest) == (names[FITTING:], False)


NAMES = ["a", "a!x", "a-1", "a.1", "a/1", "a0", "a2:order-7f3a91", "a9", "a:1", "a:2", "aa", "admin", "b"]


def seen(wire: Wire, scope: str, query: Json) -> tuple[list[str], str | None]:
    with wire.within(scope):
        answer = wire.send("promise.search", query)
    assert answer.status == 200, answer
    return [promise["id"] for promise in answer.data["promises"]], answer.data.get("cursor")


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("a", ["a", "a-1", "a.1", "a/1", "a:1", "a:2"]),
        ("a:", ["a:1", "a:2"]),
        ("a2", ["a2:order-7f3a91"]),
        ("c", []),
    ],
)
def test_a_search_within_a_scope_finds_what_it_covers(wire: Wire, scope: str, covered: list[str]) -> None:
    for name in NAMES:
        wire.create(name)
    assert seen(wire, scope, {}) == (covered, None)
    pages: list[str] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        page, cursor = seen(wire, scope, {"limit": 2} | ({"cursor": cursor} if cursor else {}))
        pages += page
        assert cursor is None or cursor in covered
        if not covered:
            break
    assert pages == covered


@pytest.mark.parametrize("scope", ["a", "a:", "a/1"])
def test_what_is_foreign_changes_neither_the_page_nor_its_cursor(wire: Wire, scope: str) -> None:
    queries = [
        {"limit": limit} | given
        for limit in (1, 2, 3, 6, 100)
        for given in (
            {},
            {"prefix": "a2"},
            {"prefix": "a2:order-7"},
            {"prefix": "a"},
            {"cursor": "a/1"},
            {"tags": {"no": "such"}},
        )
    ]
    own = [name for name in NAMES if name in ("a", "a-1", "a.1", "a/1", "a:1", "a:2")]
    for name in own:
        wire.create(name)
    before = [seen(wire, scope, query) for query in queries]
    for name in NAMES:
        wire.create(name)
    assert [seen(wire, scope, query) for query in queries] == before


def test_a_promise_has_so_many_listeners_and_no_more(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "listeners_max", 3)
    monkeypatch.setattr(oracle, "LISTENERS_MAX", 3)
    assert wire.send("promise.create", creation("p")).status == 200

    def listen(number: int) -> int:
        address = f"poll://uni@group/{number}"
        return wire.send("promise.register_listener", {"awaited": "p", "address": address}).status

    assert [listen(number) for number in (1, 2, 3, 4, 1, 5, 3)] == [200, 200, 200, 400, 200, 400, 200]
    assert wire.send("promise.settle", {"id": "p", "state": "resolved"}).status == 200
    assert listen(6) == 200, "there is nothing left to wait for"
