"""Clients that mean ill, against a real server process: what they send must not stay, nor stop it.

Memory is the server's own peak of resident memory. What each attack sends is several times what it may cost.
"""

import asyncio
import json
import os
import socket
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.protocol.wire import RawEnvelope, RefusedRequest, open_envelopes, read_envelopes
from holdfast.server import Settings, rpc, running
from holdfast.server.auth import Authenticator
from holdfast.server.connection import header_lines_max
from holdfast.server.errors import Unauthenticated
from tests.counts import rest_slow
from tests.server.http import Connection, call, connected, create, envelope, get, post, until
from tests.server.process import ServerProcess, server_process
from tests.server.stores import GatedStore

MEGABYTE = 1_048_576
LOST = (OSError, asyncio.IncompleteReadError)


def head(length: int | None, *lines: str) -> bytes:
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return "\r\n".join(["POST / HTTP/1.1", "host: localhost", framing, *lines, "", ""]).encode()


def request(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return head(len(body)) + body


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def is_well(server: ServerProcess) -> bool:
    return (await get(server.url, "/health")).status == 200


async def send_what_is_taken(connection: Connection, data: bytes, times: int) -> int:
    """Send again and again until the other side takes no more for a while; how often it was sent whole."""
    for number in range(times):
        connection.writer.write(data)
        try:
            async with asyncio.timeout(1.0):
                await connection.writer.drain()
        except TimeoutError:
            return number
    return times


# --- pipelines ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_client_that_does_not_wait_for_answers_is_not_read_on() -> None:
    flood = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 25_000  # 1 MB
    async with server_process(store="memory:") as server:
        before = server.peak_bytes
        async with connected(server.url) as connection:
            taken = refused = 0
            while refused < 4 and taken < 30:  # a slow machine refuses for a while, and then reads on
                more = await send_what_is_taken(connection, flood, 1)
                taken, refused = taken + more, 0 if more else refused + 1
            assert taken < 30, "nobody reads the answers, so it never reads on"
            assert server.peak_bytes - before < 40 * MEGABYTE
            assert await is_well(server)


async def test_pipelined_requests_are_answered_in_order_however_many_there_are() -> None:
    asked = [
        request(envelope("promise.get", {"id": "x"}, corr_id=str(number)))
        if number % 3
        else b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for number in range(300)
    ]
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        connection.writer.write(b"".join(asked))
        for number in range(300):
            answer = await connection.answer()
            if number % 3:
                assert answer.json["head"]["corrId"] == str(number)
            else:
                assert answer.json == {"status": "ok"}


@pytest.mark.parametrize("path", rest_slow(["nothing", "health"], quick=1))
async def test_a_client_that_hangs_up_amid_its_pipeline_is_no_error_of_ours(
    path: str, tmp_path: Path
) -> None:
    """It reads nothing, so that answers wait to be written while others wait behind them."""
    flood = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path.encode() * 1_000
    async with server_process(store=f"sqlite:///{tmp_path}/h.db") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with ExitStack() as stack:
            for _ in range(3):
                raw = stack.enter_context(socket.socket())
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                raw.connect((host, int(port)))
                raw.setblocking(False)
                refused = 0
                while refused < 5 or await _is_busy(server):  # until it is neither read nor answered
                    try:
                        raw.send(flood)
                        refused = 0
                    except BlockingIOError:
                        refused += 1
        assert await is_well(server)
        code, log = await server.stop()
    assert (code, log) == (0, "")


async def _is_busy(server: ServerProcess) -> bool:
    before = cpu_s(server.pid)
    await asyncio.sleep(0.1)
    return cpu_s(server.pid) - before > 0.01


async def test_a_body_that_looks_like_many_heads_is_read_whole() -> None:
    body = b"\r\n\r\n" * 20_000 + json.dumps(envelope("promise.create", create("p"))).encode()
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        await connection.send(head(len(body)) + body[:50_001])
        await connection.send(body[50_001:])
        assert (await connection.answer()).status == 200
        assert (await connection.request("GET", "/health")).status == 200


async def test_a_refusal_is_never_taken_for_the_answer_to_an_earlier_request() -> None:
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        await connection.send(request(envelope("promise.create", create("p"))) + b"no http at all\r\n\r\n")
        assert b" 400 " not in await connection.rest()


# --- trailers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"x: y\r\n", b"y"], ids=["many", "one without end"])
async def test_trailers_are_bounded(line: bytes) -> None:
    async with server_process(store="memory:") as server:
        before = server.peak_bytes
        async with connected(server.url) as connection:
            await connection.send(head(None) + b"1\r\nx\r\n0\r\n" + (b"" if line[-1:] == b"\n" else b"x: "))
            taken = 0
            with suppress(*LOST):
                taken = await send_what_is_taken(connection, line * (MEGABYTE // len(line)), 30)
                assert (await connection.answer()).status == 431
            assert taken < 30, "whoever is refused is hung up on"
        assert server.peak_bytes - before < 20 * MEGABYTE
        assert await is_well(server)


async def test_trailers_count_for_nothing() -> None:
    body = json.dumps(envelope("promise.create", create("p"))).encode()
    chunked = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    settings = Settings(port=0, store="memory:", tokens=("the-right-token",))
    async with running(settings) as server, connected(server.url) as connection:
        await connection.send(head(None) + chunked + b"authorization: Bearer the-right-token\r\n\r\n")
        assert (await connection.answer()).status == 401
        right = head(None, "authorization: Bearer the-right-token")
        await connection.send(right + chunked + b"host: evil.example\r\norigin: http://evil.example\r\n\r\n")
        assert (await connection.answer()).status == 200


async def test_a_request_with_two_hosts_is_refused() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        for path in ("/health", "/"):
            async with connected(server.url) as connection:
                method = "POST" if path == "/" else "GET"
                lines = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n"
                await connection.send(f"{lines}content-length: 0\r\n\r\n".encode())
                answer = await connection.answer()
                assert (answer.status, answer.json["code"]) == (400, "HF3008")


async def test_a_head_has_a_bounded_number_of_lines() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        for lines, status in ((header_lines_max - 2, 200), (header_lines_max, 431)):
            async with connected(server.url) as connection:
                await connection.send(b"GET /health HTTP/1.1\r\nhost: x\r\n".replace(b"x", b"localhost"))
                await connection.send(b"x: y\r\n" * lines + b"\r\n")
                assert (await connection.answer()).status == status


# --- refusals ----------------------------------------------------------------------------------------------

LARGE = 4_000_000
REFUSED: dict[str, Any] = {
    "kind": envelope("k" * LARGE, {}),
    "corrId": envelope("promise.get", {"id": "x"}, corr_id="c" * LARGE),
    "version": envelope("promise.get", {"id": "x"}, version="v" * LARGE),
    "field": envelope("promise.create", {"id": "x", "timeoutAt": "y", "param": {"data": "z" * LARGE}}),
    "state": envelope("promise.settle", {"id": "x", "state": "s" * LARGE}),
    "id": envelope("promise.get", {"id": "i" * LARGE}),
    "address": envelope("promise.register_listener", {"awaited": "x", "address": "a" * LARGE}),
    "zone": envelope(
        "schedule.create",
        {"id": "s", "cron": "* * * * *", "promiseId": "p", "promiseTimeout": 1, "timezone": "z" * LARGE},
    ),
    "head": {"kind": "k" * LARGE, "head": 1, "data": {}},
    "entries": envelope("promise.create", create("x", tags={f"t{number}": "" for number in range(200_000)})),
}


async def test_what_is_refused_is_neither_kept_nor_repeated_at_length() -> None:
    bodies = {name: json.dumps(value).encode() for name, value in REFUSED.items()}
    async with server_process(store="memory:", tokens=["the-right-token"]) as server:
        before = server.peak_bytes
        for token in ("the-right-token", "wrong"):
            async with connected(server.url) as connection:
                headers = {"authorization": f"Bearer {token}"}
                for name, body in [*bodies.items()] * 3:
                    for sent in (body, b"[%s]" % body):
                        answer = await connection.request("POST", "/", sent, headers)
                        assert len(answer.body) < 5_000, name
                        reply = answer.json[0] if sent[:1] == b"[" else answer.json
                        assert reply["head"]["status"] == (401 if token == "wrong" else 400), name
        assert server.peak_bytes - before < 100 * MEGABYTE


async def test_a_reply_repeats_a_kilobyte_at_most() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        for text in ("k" * 5_000, "\u00e9" * 5_000, "\U0001f600" * 300):
            answer = await post(server.url, envelope(text, {}, corr_id=text))
            for echo in (answer.json["kind"], answer.json["head"]["corrId"]):
                assert 1_000 < len(echo.encode()) <= 1_024
                assert text.startswith(echo)


# --- bodies and answers ------------------------------------------------------------------------------------


async def test_bodies_that_do_not_end_are_bounded_together_and_small_requests_pass() -> None:
    async with server_process(store="memory:", bodies_bytes_max=8 * MEGABYTE) as server:
        before = server.peak_bytes
        async with AsyncExitStack() as stack:
            for _ in range(40):
                connection = await stack.enter_async_context(connected(server.url))
                with suppress(*LOST):
                    await connection.send(head(4 * MEGABYTE) + b" " * (3 * MEGABYTE))
            assert server.peak_bytes - before < 60 * MEGABYTE
            assert (await call(server.url, "promise.create", create("small")))["promise"]
            text = (await get(server.url, "/metrics")).body.decode()
        [refused] = [line for line in text.splitlines() if 'code="HF3012"' in line]
        assert float(refused.split()[1]) >= 30


async def test_bodies_that_are_being_answered_are_bounded_together() -> None:
    store = GatedStore()
    settings = Settings(port=0, store="memory:", bodies_bytes_max=65_536)
    async with running(settings, store) as server:
        store.gate.clear()
        large = envelope("promise.create", create("large", param={"data": "x" * 60_000}))
        first = asyncio.create_task(post(server.url, large))
        await until(lambda: server.app.metrics.in_flight == 1)
        refused = await post(server.url, large)
        assert (refused.status, refused.json["code"]) == (429, "HF3012")
        assert refused.headers["retry-after"] == "1"
        small = asyncio.create_task(post(server.url, envelope("promise.create", create("small"))))
        await until(lambda: server.app.metrics.in_flight == 2)
        store.gate.set()
        assert (await first).status == (await small).status == 200
        assert (await post(server.url, large)).status == 200, "there is room again"


async def test_answers_that_nobody_reads_are_bounded_together() -> None:
    async with server_process(store="memory:", answers_bytes_max=16 * MEGABYTE) as server:
        for number in range(8):
            large = create(f"large{number}", param={"data": "x" * 1_000_000})
            await call(server.url, "promise.create", large)
        search = request(envelope("promise.search", {"prefix": "large"}))
        before = server.peak_bytes
        async with AsyncExitStack() as stack:
            for _ in range(25):
                connection = await stack.enter_async_context(connected(server.url, limit=4_096))
                raw = connection.writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                await connection.send(search)
                await connection.head()
            assert server.peak_bytes - before < 80 * MEGABYTE
            found = await call(server.url, "promise.search", {"prefix": "large"})
            assert len(found["promises"]) == 8, "whoever reads is answered whole"
            text = (await get(server.url, "/metrics")).body.decode()
        [dropped] = [line for line in text.splitlines() if line.startswith("holdfast_slow_readers_total ")]
        assert float(dropped.split()[1]) >= 10


# --- time --------------------------------------------------------------------------------------------------


async def test_an_empty_line_does_not_keep_an_idle_connection_open() -> None:
    settings = Settings(port=0, store="memory:", idle_timeout_s=0.1)
    async with running(settings) as server, connected(server.url) as connection:
        assert (await connection.request("GET", "/health")).status == 200
        await connection.send(b"\r\n")
        assert await connection.rest() == b""


def bombs(count: int) -> list[Any]:
    """Each another expression that never matches, which takes long to find out for who looks at every day."""
    schedule = {"id": "s", "promiseId": "p", "promiseTimeout": 1}
    return [
        envelope(
            "schedule.create",
            schedule | {"cron": f"{number % 60} {number // 60} */31 * {number % 7}L"},
            corr_id=str(number),
        )
        for number in range(count)
    ]


async def test_a_cron_bomb_is_not_looked_at_before_its_sender_is_known() -> None:
    async with server_process(store="memory:", tokens=["the-right-token"]) as server:
        before = cpu_s(server.pid)
        answer = await post(server.url, bombs(1_000))
        assert {reply["head"]["status"] for reply in answer.json} == {401}
        assert cpu_s(server.pid) - before < 1.0


async def test_a_cron_bomb_does_not_stop_a_server() -> None:
    async with server_process(store="memory:") as server:
        before = cpu_s(server.pid)
        for _ in range(3):
            answer = await post(server.url, bombs(1_000))
            assert [reply["head"]["status"] for reply in answer.json] == [400] * 100 + [429] * 900
        assert cpu_s(server.pid) - before < 3.0


async def test_an_array_with_many_tokens_is_not_checked_for_all_of_them() -> None:
    settings = Settings(port=0, store="memory:", tokens=("the-right-token",))
    async with running(settings) as server:
        guesses = [envelope("promise.get", {"id": "x"}, auth=f"guess-{number}") for number in range(20)]
        right = envelope("promise.get", {"id": "x"}, auth="the-right-token")
        answer = await post(server.url, [right, *guesses, right])
        assert [reply["head"]["status"] for reply in answer.json] == [404] + [401] * 20 + [404]
        answer = await post(server.url, [*guesses, right])
        assert {reply["head"]["status"] for reply in answer.json} == {401}
        assert "4 different tokens" in answer.json[-1]["data"]


async def test_nothing_but_kind_and_head_is_decoded_of_what_a_stranger_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounds of the decoders make a bomb cheap, but they are not what keeps a stranger out."""
    opened: list[Any] = []

    def note(items: Any) -> Any:
        opened.extend(items)
        return open_envelopes(items)

    monkeypatch.setattr(rpc, "open_envelopes", note)
    async with running(Settings(port=0, store="memory:", tokens=("the-right-token",))) as server:
        answer = await post(server.url, [*bombs(3), envelope("promise.get", {"id": "x"})])
        assert {reply["head"]["status"] for reply in answer.json} == {401}
        assert [type(item) for item in opened] == [RefusedRequest] * 4
        opened.clear()
        await post(
            server.url, envelope("promise.get", {"id": "x"}), {"authorization": "Bearer the-right-token"}
        )
        assert [type(item) for item in opened] == [RawEnvelope]


def test_a_refusal_that_is_kept_for_an_array_keeps_no_frame_and_so_no_body() -> None:
    authenticator = Authenticator(Settings(tokens=("the-right-token",)))
    [item] = cast("list[RawEnvelope]", read_envelopes(json.dumps([envelope("promise.get", {})]).encode()))
    for token in ("wrong", None):
        for refusal in authenticator.grants_or_refusals(token, [item]):
            assert isinstance(refusal, Unauthenticated)
            assert refusal.__traceback__ is None
