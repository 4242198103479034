"""What is large is read a part at a time, and taken in turns, through `/v1` too."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from holdfast.protocol import limits
from holdfast.server import Settings, running
from holdfast.server.management.shapes import show_value, show_whole
from tests.management.client import Api
from tests.management.events import Event, events
from tests.server.http import call, create

LINEAGE = {"resonate:origin": "x", "resonate:branch": "x", "resonate:parent": "x"}


def name_of(event: Event | None) -> str | None:
    return None if event is None else event[1]


async def records(url: str, count: int, data: str) -> None:
    await call(url, "promise.create", create("x", "poll://any@g", tags=LINEAGE))
    for number in range(1, count + 1):
        tags = LINEAGE | {"resonate:scope": "local"}
        await call(url, "promise.create", create(f"x:{number:03}", tags=tags, param={"data": data}))


async def test_a_timeline_reads_so_many_bytes_and_its_cursor_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "search_bytes_max", 50_000)
    async with running(Settings(port=0, store="memory:")) as server:
        await records(server.url, 30, "x" * 10_000)
        api, pages = Api(server.url), 0
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await api.get("executions/x/timeline", limit=1_000, **cursor)
            seen += [row["id"] for row in page["rows"]]
            pages += 1
            if "cursor" not in page:
                break
            cursor = {"cursor": page["cursor"]}
    assert seen == [f"x:{number:03}" for number in range(1, 31)]
    assert pages > 2, "each read about the bytes of one or two pages of a search"


async def test_a_body_with_more_values_than_a_payload_has_bytes_is_refused_undecoded() -> None:
    body = b'{"workflow":"w","args":[' + b"[]," * 400_000 + b"[]]}"
    async with running(Settings(port=0, store="memory:")) as server:
        answer = await Api(server.url).call("POST", "executions", body)
        assert (answer.status, answer.json["code"]) == (400, "HF3401")
        assert "too many values" in answer.json["error"]
        text = json.dumps({"workflow": "w", "args": ["ü" * 300_000]})
        assert len(text) > limits.data_bytes_max
        answer = await Api(server.url).call("POST", "executions", text.encode())
        assert answer.status == 200, "escapes are long, and stored as what they stand for"


@pytest.mark.parametrize("readers_max", [1, 4])
async def test_one_prefix_may_have_half_of_the_readers(readers_max: int) -> None:
    settings = Settings(
        port=0, store="memory:", readers_max=readers_max, tokens=("admin-token", "acme acme-token")
    )
    async with running(settings) as server:
        admin, acme = Api(server.url, "admin-token"), Api(server.url, "acme-token")
        if readers_max == 1:
            async with events(acme, "changes") as only:
                assert name_of(await only.next()) == "hello"
            return
        async with events(acme, "changes") as first, events(acme, "changes") as second:
            assert [name_of(await each.next()) for each in (first, second)] == ["hello", "hello"]
            accept = {"accept": "text/event-stream"}
            assert (await acme.call("GET", "changes", headers=accept)).status == 429
            async with events(admin, "changes") as other:
                assert name_of(await other.next()) == "hello"


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": [1, 2.5, null, "\xc3\xbc"]}' + b" " * 20_000,
        b'"' + b"x" * 20_000 + b'"',
        b'"' + b"x" * 20_000,
        b'"\xff' + b"x" * 20_000 + b'"',
        b"[" * 20_000,
        b"[" * 20_000 + b"]" * 20_000,
        b'{"a":\n1,' + b'"b":"' + b"x" * 20_000 + b'"}',
        b"[NaN," + b"1," * 20_000 + b"1]",
    ],
    ids=lambda text: text[:10].decode("latin-1"),
)
def test_a_large_payload_is_shown_as_a_small_one_would_be(text: bytes) -> None:
    import msgspec

    payload = {"data": b64encode(text).decode()}
    shown = msgspec.json.encode(show_whole(payload))
    assert b"\n" not in shown
    assert json.loads(shown) == json.loads(msgspec.json.encode(show_value(payload)))


async def test_every_request_to_the_management_api_counts_for_the_rate() -> None:
    settings = Settings(port=0, store="memory:", rate_limit=0.01, tokens=("the-first", "the-second"))
    async with running(settings) as server:
        first, second = Api(server.url, "the-first"), Api(server.url, "the-second")
        assert (await first.call("GET", "session")).status == 200
        for path in ("session", "audit", "openapi.json"):
            answer = await first.call("GET", path)
            assert (answer.status, answer.json["code"]) == (429, "HF3011")
        assert (await second.call("GET", "session")).status == 200
