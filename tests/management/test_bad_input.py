"""Whatever stands in a field or a parameter, it is answered: never with 500."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from holdfast.server import Settings, running
from holdfast.server.management.routes import ROUTES, Route
from tests.management.client import Api
from tests.server.http import call, create

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    10**30,
    -(10**400),
    "",
    "x",
    "\x00",
    "\u202e",
    [],
    [1],
    [None],
    [[]],
    {},
    {"a": 1},
    {"a": None},
    {"": []},
)
TEXTS = ("", "-1", "0", "1e400", "9" * 30, "9" * 5_000, "a:b", ":", ",", "\x00", "\u202e", "null", "~", "[]")


def path_of(route: Route) -> str:
    return route.path.removeprefix("/v1/").replace("{id}", "x").replace("{name}", "x")


def bodies(route: Route) -> list[bytes]:
    if route.content is not None:
        return [json.dumps(value).encode() for value in WRONG]
    whole = {field.name: "x" for field in route.body if field.required}
    return [json.dumps(whole | {field.name: value}).encode() for field in route.body for value in WRONG]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_no_field_and_no_parameter_is_answered_with_500(
    route: Route, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        await call(server.url, "promise.create", create("x", "poll://any@g"))
        for body in bodies(route):
            answer = await api.call(route.method, path_of(route), body)
            assert answer.status < 500, (body[:200], answer.body)
        for parameter in route.query:
            for text in TEXTS:
                query: dict[str, Any] = {parameter.name: text}
                answer = await api.call(route.method, path_of(route), **query)
                assert answer.status < 500, (parameter.name, text, answer.body)
    assert not caplog.records


@pytest.mark.parametrize("path", ["audit", "workers", "declarations"])
async def test_a_limit_is_at_least_one(path: str) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        for limit in (0, -1, -(10**30)):
            assert await api.refused("GET", path, limit=limit) == (400, "HF3401")
