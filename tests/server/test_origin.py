"""Pages of other origins, and names that are not ours, lead nowhere."""

import pytest

from holdfast.server import Settings, running
from tests.server.http import connected, create, envelope, get, post

memory = Settings(port=0, store="memory:")


async def test_a_request_from_a_foreign_page_is_refused_whatever_it_asks() -> None:
    async with running(memory) as server:
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}):
            answer = await post(server.url, envelope("promise.create", create("p")), headers)
            assert (answer.status, answer.json["code"]) == (403, "HF3103")
            assert "access-control-allow-origin" not in answer.headers
            assert (await get(server.url, "/poll/g/w", headers)).status == 403
        async with connected(server.url) as connection:
            assert (
                await connection.request("OPTIONS", "/", headers={"origin": "https://evil.example"})
            ).status == 403
        assert (await post(server.url, envelope("promise.get", {"id": "p"}))).status == 404


async def test_the_files_of_the_console_are_given_to_any_page_and_nothing_else_is() -> None:
    """A browser sends its Origin with modules: behind a proxy that changes Host the console stayed blank."""
    foreign = {"origin": "https://ops.example"}
    async with running(memory) as server:
        page = await get(server.url, "/console/", foreign)
        assert page.status == 200
        assert "access-control-allow-origin" not in page.headers
        [module] = [part for part in page.body.decode().split('"') if part.endswith("js/main.js")][:1]
        assert (await get(server.url, f"/console/{module}", foreign)).status == 200
        refused = await get(server.url, "/v1/executions", foreign)
        assert (refused.status, refused.json["code"]) == (403, "HF3103")
        assert "public_url" in refused.json["hint"]
        assert "HF3103" not in refused.json["error"]
        assert "'https://ops.example'" in refused.json["error"]
        assert f"asked as '{server.url.removeprefix('http://')}'" in refused.json["error"]
        odd = await get(server.url, "/v1/executions", {"origin": "https://" + "\u00e9" * 5_000})
        assert (odd.status, len(odd.body) < 1_500, odd.body.isascii()) == (403, True, True)
        assert (await get(server.url, "/console/", {"host": "evil.example"})).status == 421


async def test_an_allowed_page_is_let_in_without_credentials() -> None:
    settings = Settings(port=0, store="memory:", allowed_origins=("https://console.example",))
    origin = {"origin": "https://console.example"}
    async with running(settings) as server:
        answer = await post(server.url, envelope("promise.create", create("p")), origin)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "https://console.example"
        assert "access-control-allow-credentials" not in answer.headers
        async with connected(server.url) as connection:
            asked = origin | {"access-control-request-method": "PUT"}
            preflight = await connection.request("OPTIONS", "/v1/queues/mail", headers=asked)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-methods"] == "GET, POST, PUT, DELETE"
        allowed = preflight.headers["access-control-allow-headers"].split(", ")
        assert allowed == ["authorization", "content-type", "idempotency-key", "last-event-id"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8001", "127.0.0.1.evil.example", "localhost.evil"]
)
async def test_a_foreign_host_name_is_refused_on_loopback(host: str) -> None:
    async with running(memory) as server:
        answer = await get(server.url, "/health", {"host": host})
    assert (answer.status, answer.json["code"]) == (421, "HF3104")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8001", "127.8.8.8", "dev.internal"]
)
async def test_loopback_names_and_named_ones_are_accepted(host: str) -> None:
    async with running(Settings(port=0, store="memory:", allowed_hosts=("dev.internal",))) as server:
        assert (await get(server.url, "/health", {"host": host})).status == 200
