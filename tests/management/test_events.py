"""Event streams of the management API: who is let in, how many, at which pace, and how they end."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import pytest

import holdfast as hf
from holdfast.server.management.tickets import TicketSigner
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.events import events
from tests.server.http import call, connected, create, envelope, post, until

TOKENS = ("admin-secret", "acme acme-secret")
STREAM = "executions/acme:1/streams/log"


def memory(**more: Any) -> Settings:
    return Settings(port=0, store="memory:", **more)


async def emit(url: str, *values: Any, execution: str = "acme:1", token: str | None = None) -> None:
    """As a worker does: under a claim, which is made here if it must be."""
    head = {"auth": token} if token else {}
    if execution not in _claims:
        await call(url, "promise.create", create(execution, "poll://any@acme"), **head)
        claim = {"id": execution, "version": 0, "pid": "p", "ttl": 600_000}
        _claims[execution] = (await call(url, "task.acquire", claim, **head))["task"]["version"]
    for value in values:
        data = base64.b64encode(json.dumps(value).encode()).decode()
        append = {"id": execution, "stream": "out.log", "value": {"data": data}}
        action = {"kind": "stream.append", "head": {}, "data": append}
        fence = {"id": execution, "version": _claims[execution], "action": action}
        await call(url, "task.fence", fence, **head)


_claims: dict[str, int] = {}


@pytest.fixture(autouse=True)
def no_claims() -> None:
    _claims.clear()


async def test_a_prefix_and_a_token_hold_for_events_and_messages() -> None:
    async with running(memory(tokens=TOKENS)) as server:
        admin, acme = Api(server.url, "admin-secret"), Api(server.url, "acme-secret")
        await emit(server.url, 1, token="admin-secret")
        await emit(server.url, 1, execution="other", token="admin-secret")
        async with events(acme, STREAM) as log:
            assert await log.next() == ("1", None, {"number": 1, "value": 1})
        accept = {"accept": "text/event-stream"}
        for path in ("streams", "streams/log", "published", "published/x", "messages"):
            assert await acme.refused("GET", f"executions/other/{path}") == (403, "HF3102")
        for path in ("streams/log", "published/x"):
            answer = await acme.call("GET", f"executions/other/{path}", headers=accept)
            assert (answer.status, answer.json["code"]) == (403, "HF3102")
            answer = await Api(server.url).call("GET", f"executions/other/{path}", headers=accept)
            assert (answer.status, answer.json["code"]) == (401, "HF3101")
        for query in ({}, {"ask": "true"}):
            refused = await acme.refused("POST", "executions/other/messages", 1, **query)
            assert refused == (403, "HF3102")
        assert (await admin.get("executions/other/messages"))["count"] == 0


async def test_a_ticket_admits_to_the_events_of_its_path_and_to_nothing_else() -> None:
    async with running(memory(tokens=TOKENS)) as server:
        acme, nobody = Api(server.url, "acme-secret"), Api(server.url)
        await emit(server.url, 1, 2, token="admin-secret")
        given = await acme.post("tickets", {"path": f"/v1/{STREAM.replace(':', '%3A')}", "seconds": 60})
        ticket = given["ticket"]
        assert 0 < given["until"] - time.time() * 1_000 <= 61_000
        async with events(nobody, STREAM, ticket=ticket, after=1) as log:
            assert await log.next() == ("2", None, {"number": 2, "value": 2})
            await emit(server.url, 3, token="admin-secret")
            assert await log.next() == ("3", None, {"number": 3, "value": 3})
        accept = {"accept": "text/event-stream"}
        elsewhere = await nobody.call("GET", "executions/acme:1/streams/x", headers=accept, ticket=ticket)
        assert (elsewhere.status, elsewhere.json["code"]) == (401, "HF3101")
        assert await nobody.refused("GET", STREAM, ticket=ticket) == (401, "HF3101")  # a page
        assert await nobody.refused("GET", "executions/acme:1", ticket=ticket) == (401, "HF3101")
        changed = ticket[:-2] + ("AA" if ticket[-2:] != "AA" else "BB")
        for wrong in (changed, "x", "", "é", f"{ticket}.x", ticket.partition(".")[0]):
            answer = await nobody.call("GET", STREAM, headers=accept, ticket=wrong)
            assert (answer.status, answer.json["code"]) == (401, "HF3101"), wrong


async def test_a_ticket_covers_no_more_than_the_token_that_asked_for_it() -> None:
    async with running(memory(tokens=TOKENS)) as server:
        acme, nobody = Api(server.url, "acme-secret"), Api(server.url)
        await emit(server.url, 1, execution="other", token="admin-secret")
        ticket = (await acme.post("tickets", {"path": "/v1/executions/other/streams/log"}))["ticket"]
        accept = {"accept": "text/event-stream"}
        answer = await nobody.call("GET", "executions/other/streams/log", headers=accept, ticket=ticket)
        assert (answer.status, answer.json["code"]) == (403, "HF3102")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"path": 5},
        {"path": "/v1/executions"},
        {"path": "/v1/executions/x"},
        {"path": "/elsewhere"},
        {"path": f"/v1/{STREAM}", "seconds": 0},
        {"path": f"/v1/{STREAM}", "seconds": 3_601},
    ],
)
async def test_a_ticket_is_given_for_events_and_for_a_while(body: Any) -> None:
    async with running(memory()) as server:
        assert await Api(server.url).refused("POST", "tickets", body) == (400, "HF3401")


def test_a_ticket_ends_and_is_known_to_every_node_with_the_same_key() -> None:
    path = ["v1", "executions", "a", "streams", "b"]
    ticket = TicketSigner("one key").sign(path, "a", 1_000)
    assert TicketSigner("one key").check(ticket, path, 999).prefix == "a"
    for key, at in (("one key", 1_000), ("another", 999), ("", 999)):
        with pytest.raises(hf.HoldfastError, match="HF3101"):
            TicketSigner(key).check(ticket, path, at)


async def test_a_page_of_an_allowed_origin_may_follow_and_no_other() -> None:
    async with running(memory(allowed_origins=("https://shop.example",))) as server:
        api = Api(server.url)
        await emit(server.url, 1)
        async with events(api, STREAM, {"origin": "https://shop.example"}) as log:
            assert log.headers["access-control-allow-origin"] == "https://shop.example"
            assert await log.next() == ("1", None, {"number": 1, "value": 1})
        answer = await api.call("GET", STREAM, headers={"origin": "https://evil.example"})
        assert (answer.status, answer.json["code"]) == (403, "HF3103")
        asked = {"origin": "https://shop.example", "access-control-request-method": "POST"}
        async with connected(server.url) as connection:
            preflight = await connection.request("OPTIONS", "/v1/executions/a/messages", headers=asked)
        assert preflight.status == 204
        assert "idempotency-key" in preflight.headers["access-control-allow-headers"]
    async with running(memory()) as server:
        answer = await Api(server.url).call("GET", STREAM, headers={"origin": "https://shop.example"})
        assert (answer.status, answer.json["code"]) == (403, "HF3103")


async def test_readers_and_questions_that_wait_are_bounded_together() -> None:
    async with running(memory(readers_max=2)) as server:
        api = Api(server.url)
        await emit(server.url, 1)
        asking = asyncio.create_task(
            api.call("POST", "executions/acme:1/messages", 1, ask="true", timeout="300")
        )
        async with events(api, STREAM) as log:
            assert await log.next() is not None
            while (await api.get("executions/acme:1/messages"))["count"] == 0:
                pass
            answer = await api.call("GET", STREAM, headers={"accept": "text/event-stream"})
            assert (answer.status, answer.json["code"]) == (429, "HF3007")
            assert answer.headers["retry-after"] == "1"
        # Both leave: there is room again.
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        readers = server.app._management._readers  # pyright: ignore[reportPrivateUsage]
        await until(lambda: not len(readers))
        async with events(api, STREAM) as log:
            assert await log.next() is not None


async def test_silence_is_filled_with_comments() -> None:
    async with running(memory(stream_keep_alive_s=0.01)) as server:
        await emit(server.url)
        async with events(Api(server.url), STREAM) as log:
            following = asyncio.create_task(log.next())
            await until(lambda: log.comments >= 3)
            await emit(server.url, 1)
            assert await following == ("1", None, {"number": 1, "value": 1})


async def test_a_stream_is_ended_after_a_while_and_goes_on_in_another() -> None:
    async with running(memory(stream_s=0.2)) as server:
        await emit(server.url, 1)
        api = Api(server.url)
        async with events(api, STREAM) as log:
            assert await log.next() == ("1", None, {"number": 1, "value": 1})
            assert await log.next() is None
        await emit(server.url, 2)
        async with events(api, STREAM, {"last-event-id": "1"}) as log:
            assert await log.next() == ("2", None, {"number": 2, "value": 2})


async def test_a_reader_that_does_not_read_is_dropped_and_the_others_go_on() -> None:
    async with running(memory(stream_write_timeout_s=0.3)) as server:
        api = Api(server.url)
        text = "x" * 500_000
        for _ in range(4):
            await emit(server.url, *[text] * 10)
        async with events(api, STREAM) as slow, events(api, STREAM) as log:
            assert slow.status == 200  # and reads nothing more
            for number in range(1, 41):
                found = await log.next()
                assert found is not None
                assert found[0] == str(number)
            await until(lambda: server.app.metrics.slow_readers >= 1)
            await emit(server.url, "again")
            found = await log.next()
            assert found is not None
            assert found[2]["value"] == "again"


async def test_a_server_that_stops_ends_its_streams() -> None:
    async with running(memory()) as server:
        await emit(server.url, 1)
        stream = events(Api(server.url), STREAM)
        log = await stream.__aenter__()
        assert await log.next() is not None
    assert await log.next() is None
    await stream.__aexit__(None, None, None)


async def test_a_stream_ends_with_a_word_when_what_it_follows_is_gone() -> None:
    settings = memory(debug=True)
    async with running(settings) as server:
        await emit(server.url, 1)
        async with events(Api(server.url), STREAM) as log:
            assert await log.next() is not None
            await post(server.url, envelope("debug.reset", {}))
            readers = server.app._management._settlements  # pyright: ignore[reportPrivateUsage]
            await readers._look()  # pyright: ignore[reportPrivateUsage]
            found = await log.next()
            assert found is not None
            assert (found[1], found[2]["code"]) == ("refused", "HF1401")
            assert await log.next() is None


async def test_one_listener_serves_all_readers_of_a_stream() -> None:
    async with running(memory()) as server:
        await emit(server.url)
        api = Api(server.url)
        async with events(api, STREAM) as one, events(api, STREAM) as two:
            waits = server.app._management._settlements  # pyright: ignore[reportPrivateUsage]
            await until(lambda: [each.count for each in waits._awaited.values()] == [2])  # pyright: ignore[reportPrivateUsage]
            await emit(server.url, 1)
            assert await one.next() == await two.next() == ("1", None, {"number": 1, "value": 1})
        await until(lambda: not waits._awaited)  # pyright: ignore[reportPrivateUsage]
        assert server.app.metrics.requests["stream.next", 200] >= 2


async def test_an_app_of_its_own_serves_the_same() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def echo() -> None:
        message = await hf.receive(str)
        await hf.emit("log", message)

    async with app:
        url = await app.serve_management_async(port=0, allowed_origins=["https://shop.example"])
        api = Api(url)
        await app.start(echo, id="e").started()
        async with events(api, "executions/e/streams/log", {"origin": "https://shop.example"}) as log:
            answer = await api.call("POST", "executions/e/messages", "hello", key="k")
            assert answer.json == {"id": "e:in.1", "number": 1}
            assert await log.next() == ("1", None, {"number": 1, "value": "hello"})
            assert await log.next() == (None, "end", {"count": 1})
