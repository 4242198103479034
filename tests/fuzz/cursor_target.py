"""Searches of a caller with a prefix, with any cursor: what is foreign shows in none of the answers."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from msgspec import Struct

from holdfast.protocol.ids import is_covered
from tests.backends import NodeBackend, open_backend
from tests.fuzz.target import Target
from tests.server.http import envelope

_LETTERS = "a2-./:!\u00e9\U0010ffff"


class Searches(Struct, frozen=True):
    scope: str
    ids: list[str]
    queries: list[dict[str, Any]]


def _text(chance: random.Random, least: int = 0) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(chance.randint(least, 4)))


def make_searches(chance: random.Random) -> Searches:
    scope = "a" + _text(chance)
    ids = list(
        dict.fromkeys(
            [scope, *(scope + _text(chance) for _ in range(8)), *(_text(chance, 1) for _ in range(4))]
        )
    )
    queries: list[dict[str, Any]] = []
    for _ in range(4):
        query: dict[str, Any] = {"limit": chance.randint(1, 4)}
        if chance.random() < 0.5:
            query["cursor"] = chance.choice([_text(chance, 1), *ids])
        if chance.random() < 0.5:
            query["prefix"] = chance.choice([scope[: chance.randint(0, len(scope))], scope + _text(chance)])
        if chance.random() < 0.3:
            query["tags"] = {"no": "such"}
        queries.append(query)
    return Searches(scope, ids, queries)


@cache
def _backend() -> NodeBackend:
    return open_backend("sqlite")


def swallow_searches(given: Searches) -> None:
    """The same questions before and after the foreign ids are there."""
    backend = _backend()
    backend.handle(envelope("debug.reset", {}))

    def create(names: list[str]) -> None:
        for name in names:
            backend.handle(envelope("promise.create", {"id": name, "timeoutAt": 2**52}))

    def answers() -> list[Any]:
        return [
            backend.handle_within(given.scope, envelope("promise.search", query))["data"]
            for query in given.queries
        ]

    create([name for name in given.ids if is_covered(name, given.scope)])
    before = answers()
    create([name for name in given.ids if not is_covered(name, given.scope)])
    assert answers() == before, given


CURSORS = Target("cursors", make_searches, swallow_searches)
