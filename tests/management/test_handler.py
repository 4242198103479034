"""Who may ask the management API what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.protocol.workers import WorkerReport
from holdfast.server.management import executions, workers
from holdfast.server.management.openapi import describe
from holdfast.server.management.routes import ROUTES, Route
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.handler_reads import names_read

TOKENS = ("admin-secret", "acme acme-secret")


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "status"),
    [
        ("GET", "nothing", None, {}, 404),
        ("GET", "", None, {}, 404),
        ("DELETE", "executions", None, {}, 405),
        ("GET", "executions/none", None, {}, 404),
        ("GET", "executions", None, {"state": "failed"}, 400),
        ("GET", "executions", None, {"status": "done"}, 400),
        ("GET", "executions", None, {"limit": "many"}, 400),
        ("GET", "executions", None, {"limit": "0"}, 400),
        ("GET", "executions", None, {"limit": "100000"}, 400),
        ("GET", "executions", None, {"cursor": "x"}, 400),
        ("GET", "executions", None, {"tag": "x"}, 400),
        ("GET", "executions/" + "x" * 1_025, None, {}, 400),
        ("GET", "promises", None, {"state": "done"}, 400),
        ("POST", "executions", b"{", {}, 400),
        ("POST", "executions", [], {}, 400),
        ("POST", "executions", {}, {}, 400),
        ("POST", "executions", {"workflow": 5}, {}, 400),
        ("POST", "executions", {"workflow": "w", "args": {}}, {}, 400),
        ("POST", "executions", {"workflow": "w", "tags": {"holdfast:job": "{}"}}, {}, 400),
        ("POST", "executions", {"workflow": "w", "colour": "red"}, {}, 400),
        ("POST", "executions", {"workflow": "w", "delay": "soon"}, {}, 400),
        ("POST", "executions/none/cancel", {"now": "yes"}, {}, 404),
        ("POST", "tasks/none/rerun", None, {}, 404),
        ("PUT", "queues/mail", {"concurrency": 0}, {}, 400),
        ("PUT", "queues/mail", {"rate": {"count": 1}}, {}, 400),
    ],
)
async def test_what_makes_no_sense_is_refused_in_json(
    method: str, path: str, body: Any, query: dict[str, str], status: int
) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        assert (await Api(server.url).refused(method, path, body, **query))[0] == status


async def test_without_a_token_nothing_is_shown() -> None:
    async with running(Settings(port=0, store="memory:", tokens=TOKENS)) as server:
        for route in ROUTES:
            path = route.path.removeprefix("/v1/").replace("{id}", "x").replace("{name}", "x")
            assert await Api(server.url).refused(route.method, path) == (401, "HF3101")
            assert await Api(server.url, "wrong-secret").refused(route.method, path) == (401, "HF3101")
        assert await Api(server.url).refused("GET", "openapi.json") == (401, "HF3101")


async def test_a_prefix_holds_as_everywhere() -> None:
    async with running(Settings(port=0, store="memory:", tokens=TOKENS)) as server:
        admin, acme = Api(server.url, "admin-secret"), Api(server.url, "acme-secret")
        for name in ("acme:1", "other"):
            await admin.post("executions", {"workflow": "w", "id": name})
        assert [each["id"] for each in (await acme.get("executions"))["executions"]] == ["acme:1"]
        assert (await acme.get("counts"))["executions"]["counts"]["pending"] == 1
        assert (await acme.get("executions/acme:1"))["id"] == "acme:1"
        assert (await acme.get("workers"))["workers"] == []
        for method, path, body in (
            ("GET", "executions/other", None),
            ("GET", "executions/other/steps", None),
            ("GET", "executions/other/history", None),
            ("GET", "promises/other", None),
            ("GET", "queues/mail", None),
            ("POST", "executions/other/cancel", {"now": True}),
            ("POST", "executions/other/halt", None),
            ("POST", "executions", {"workflow": "w", "id": "other:2"}),
            ("POST", "executions", {"workflow": "w", "id": "acme:2", "group": "default"}),
            ("POST", "queues/mail/pause", None),
            ("GET", "schedules/other", None),
        ):
            assert await acme.refused(method, path, body) == (403, "HF3102"), path
        begun = await acme.post("executions", {"workflow": "w", "id": "acme:2", "group": "acme"})
        assert begun["group"] == "acme"


def documented() -> dict[tuple[str, str], Any]:
    return {
        (method.upper(), path): operation
        for path, operations in describe()["paths"].items()
        for method, operation in operations.items()
    }


async def test_the_description_is_served_and_tells_of_every_route_and_of_no_other() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        served = await Api(server.url).get("openapi.json")
    assert served == describe()
    assert documented().keys() == {(route.method, route.path) for route in ROUTES}
    assert len({operation["operationId"] for operation in documented().values()}) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_takes_what_is_documented_and_nothing_else(route: Route) -> None:
    """Every parameter and field is known to the server, and one that is not documented is refused."""
    operation = documented()[route.method, route.path]
    query = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    content = operation.get("requestBody", {}).get("content", {})
    fields = content.get("application/json", {}).get("schema", {}).get("properties", {})
    path = route.path.removeprefix("/v1/").replace("{id}", "x").replace("{name}", "x")
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        for name in query:
            answer = await api.call(route.method, path, None, None, **{name: "1"})
            assert "There is no parameter" not in answer.body.decode(), name
        for name in fields:
            answer = await api.call(route.method, path, {name: None})
            assert "There is no field" not in answer.body.decode(), name
        wrong = await api.call(route.method, path, None, None, **{"no-such": "1"})
        assert wrong.status == 400
        assert "There is no parameter" in wrong.json["error"]
        wrong = await api.call(route.method, path, {"no-such": 1})
        assert ("There is no field" in wrong.json["error"]) == (route.content is None)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_handler_reads_what_its_route_names_and_nothing_else(route: Route) -> None:
    """Nothing that is documented is ignored, and nothing that is read is left out of the document."""
    named = {each.name for each in (*route.query, *route.body)}
    if route.handler is workers.tell:  # its body is read as a whole
        assert named == {*WorkerReport.__struct_encode_fields__} - {"id"}
        return
    read = names_read(route.handler)
    if route.follow is not None:
        read |= names_read(route.follow) | {"ticket"}  # which is read before the handler is called
    if route.handler is executions.count:
        read -= {"limit", "cursor"}  # of a search: what is counted has no pages
    assert read == named


def test_what_is_needed_is_documented_as_needed() -> None:
    for route in ROUTES:
        operation = documented()[route.method, route.path]
        needed = {each["name"] for each in operation["parameters"] if each["required"]}
        assert needed >= {each.name for each in route.query if each.required}
        body = operation.get("requestBody", {})
        assert body.get("required", False) == any(each.required for each in route.body), route.path
