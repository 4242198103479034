"""Read-only tokens look and cannot act; whoever acts is written down."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.requests import KINDS
from holdfast.server.access import reading_kinds
from holdfast.server.auth import Authenticator
from holdfast.server.errors import Forbidden, SettingsError
from holdfast.server.management.routes import ROUTES
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.postgres import database_url
from tests.server.http import connected, create, envelope, get, post, streaming

TOKENS = (
    "admin-token name=ada",
    "look-token read-only name=eve",
    "acme acme-token",
    "acme acme-look read-only",
)


def settings(store: str = "memory:") -> Settings:
    return Settings(port=0, store=store, tokens=TOKENS)


async def entries(api: Api, count: int, **query: Any) -> list[Any]:
    """Outcomes are written after the answer."""
    found: list[Any] = []
    for _ in range(1_000):
        found = (await api.get("audit", **query))["entries"]
        if len(found) >= count and all(each["outcome"] != "asked" for each in found):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_a_read_only_token_sees_and_changes_nothing() -> None:
    async with running(settings()) as server:
        look, admin = Api(server.url, "look-token"), Api(server.url, "admin-token")
        await admin.post("executions", {"workflow": "pay", "id": "order-1"})
        assert (await look.get("executions/order-1"))["status"] == "pending"
        session = await look.get("session")
        assert session.pop("after").endswith("-0")
        assert session | {"now": 0} == {
            "name": "eve",
            "readOnly": True,
            "prefix": "",
            "isOpen": False,
            "version": "0.1.0",
            "store": "memory",
            "now": 0,
        }
        for route in ROUTES:
            if route.changes:
                path = route.path.removeprefix("/v1/").replace("{id}", "order-1").replace("{name}", "mail")
                answer = await look.call(route.method, path, {} if route.content is None else 1)
                assert (answer.status, answer.json["code"]) == (403, "HF3421"), route
        assert (await look.post("tickets", {"path": "/v1/changes"}))["ticket"]
        assert (await admin.get("executions/order-1"))["status"] == "pending"


async def test_a_read_only_token_changes_nothing_through_the_protocol_either() -> None:
    async with running(settings()) as server:
        auth = {"authorization": "Bearer look-token"}
        answer = await post(server.url, envelope("promise.create", create("p")), auth)
        assert (answer.status, answer.json["head"]["code"]) == (403, "HF3421")
        assert (await post(server.url, envelope("promise.get", {"id": "p"}), auth)).status == 404
        async with streaming(server.url, "g", "w", "look-token") as stream:
            assert stream.status == 403
        async with connected(server.url) as connection:
            collected = await connection.request("POST", "/collect", b'{"olderThanMs": 1}', auth)
        assert collected.status == 403
        assert (await get(server.url, "/metrics", auth)).status == 200
        tenant = {"authorization": "Bearer acme-look"}
        assert (await post(server.url, envelope("promise.get", {"id": "other"}), tenant)).status == 403
        assert (await post(server.url, envelope("promise.get", {"id": "acme-1"}), tenant)).status == 404


def test_every_kind_is_known_to_read_or_is_refused() -> None:
    assert reading_kinds <= KINDS.keys()
    verbs = {kind.partition(".")[2] for kind in reading_kinds}
    assert verbs == {"get", "search", "read", "list", "count"}
    assert {kind for kind in KINDS if kind.partition(".")[2] in verbs} == reading_kinds


@pytest.mark.parametrize(
    "line", ["short", "a b c-token-xyz", "read-only", "a short read-only", "name=x read-only"]
)
def test_a_token_that_cannot_be_one_stops_the_server(line: str) -> None:
    if line in ("read-only",):  # nine characters: a poor token, and one all the same
        assert not Authenticator(Settings(tokens=(line,))).grant(line).read_only
        return
    with pytest.raises(SettingsError):
        Authenticator(Settings(tokens=(line,)))


def test_the_claim_of_a_jwt_makes_it_read_only() -> None:
    from holdfast.server import auth

    grant = auth.grant_of({"role": "admin", "read_only": True, "sub": "eve"})
    assert (grant.prefix, grant.read_only, grant.name) == ("", True, "eve")
    grant = auth.grant_of({"prefix": "acme", "read_only": True})
    assert (grant.prefix, grant.read_only) == ("acme", True)
    assert not auth.grant_of({"role": "admin"}).read_only
    with pytest.raises(Forbidden):
        auth.grant_of({"role": "admin", "read_only": "yes"})


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_every_change_is_written_down_with_who_what_and_how_it_went(store: str, tmp_path: Path) -> None:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    where = stores[store] if store in stores else database_url()
    async with running(settings(where)) as server:
        admin, tenant = Api(server.url, "admin-token"), Api(server.url, "acme-token")
        secret = {"workflow": "pay", "id": "order-1", "args": ["4111 1111"], "kwargs": {"pin": 1}}
        await admin.post("executions", secret)
        await admin.post("executions/order-1/halt", {"reason": "wait"})
        await admin.refused("POST", "executions/nobody/halt")
        await admin.post("queues/acme-mail/pause")
        await tenant.post("queues/acme-mail/resume")
        await tenant.refused("POST", "executions/order-1/halt")
        found = await entries(admin, 6)
        told = [(each["who"], each["path"], each["target"], each["outcome"]) for each in found]
        tenants_name = found[0]["who"]
        assert tenants_name.startswith("token ")
        assert told == [
            (tenants_name, "/v1/executions/{id}/halt", "order-1", "refused"),
            (tenants_name, "/v1/queues/{name}/resume", "acme-mail", "done"),
            ("ada", "/v1/queues/{name}/pause", "acme-mail", "done"),
            ("ada", "/v1/executions/{id}/halt", "nobody", "refused"),
            ("ada", "/v1/executions/{id}/halt", "order-1", "done"),
            ("ada", "/v1/executions", "order-1", "done"),
        ]
        assert found[4]["body"] == {"reason": "wait"}
        assert (found[3]["status"], found[3]["code"]) == (404, "HF1401")
        assert "4111" not in str(found)
        assert [each["target"] for each in await entries(admin, 1, who="ada", target="acme-mail")] == [
            "acme-mail"
        ]
        seen_by_tenant = await entries(tenant, 2)
        assert {each["target"] for each in seen_by_tenant} == {"acme-mail"}
        pages = await admin.get("audit", limit=4)
        rest = await admin.get("audit", limit=4, cursor=pages["cursor"])
        assert [each["id"] for each in pages["entries"] + rest["entries"]] == [each["id"] for each in found]
    if store == "sqlite":
        async with running(settings(where)) as server:
            assert len((await Api(server.url, "look-token").get("audit"))["entries"]) == 6


async def test_nothing_is_changed_that_cannot_be_written_down(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    path = tmp_path / "h.db"
    async with running(settings(f"sqlite:///{path}")) as server:
        admin = Api(server.url, "admin-token")
        with closing(sqlite3.connect(path)) as other:
            other.execute("ALTER TABLE holdfast_documents RENAME TO away")
            answer = await admin.call("POST", "queues/mail/pause")
            assert answer.status >= 500
            other.execute("ALTER TABLE away RENAME TO holdfast_documents")
        assert not (await admin.get("queues"))["queues"]


async def test_looking_is_not_written_down() -> None:
    async with running(settings()) as server:
        admin = Api(server.url, "admin-token")
        await admin.get("executions")
        await admin.post("tickets", {"path": "/v1/changes"})
        await admin.post("workers/w", {"group": "g", "startedAt": 1})
        assert (await admin.get("audit"))["entries"] == []
    async with running(Settings(port=0, store="memory:", audit=False)) as server:
        api = Api(server.url)
        await api.post("queues/mail/pause")
        assert (await api.get("audit"))["entries"] == []
