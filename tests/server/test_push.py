"""Posting messages to HTTP addresses, and never where they must not go. Names are resolved by a fake."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.messages import Execute, Message, Unblock
from holdfast.protocol.records import NOTHING, Promise, TaskRef
from holdfast.server import Settings, running
from holdfast.server.errors import PushRefused
from holdfast.server.metrics import Metrics
from holdfast.server.push import Pusher, is_public
from tests.client.test_tls import make_certificate
from tests.server.http import call, create, until


class Receiver:
    """A web server that keeps what it is sent and answers as told."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.most_at_once = 0
        self.open = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_at_once = max(self.most_at_once, self.open)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")[:-2]
            headers = dict(line.split(": ", 1) for line in lines)
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((first, headers, json.loads(body)))
            await self.gate.wait()
            writer.write(self.answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def receiving(
    answer: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.close()


def execute(url: str, number: int = 0) -> Message:
    return Execute(url, TaskRef(f"t{number}", 0), "A", False)


def unblock(url: str) -> Message:
    promise = Promise("p", "resolved", NOTHING, NOTHING, {}, 9, 1, 2)
    return Unblock(url, promise, "A")


def pusher(metrics: Metrics, resolved: dict[str, list[str]] | None = None, **settings: Any) -> Pusher:
    async def resolve(host: str, port: int) -> list[str]:
        return (resolved or {}).get(host, [])

    return Pusher(Settings(**settings), metrics, "http://here", resolve=resolve)


LOOPBACK = {"hook.example": ["127.0.0.1"]}


async def test_an_execute_is_posted_by_a_running_server() -> None:
    async with receiving() as receiver:
        settings = Settings(
            port=0, store="memory:", push_hosts=(f"127.0.0.1:{receiver.port}",), push_private=True
        )
        async with running(settings) as server:
            await call(server.url, "promise.create", create("p", f"http://127.0.0.1:{receiver.port}/a?b=c"))
            await until(lambda: bool(receiver.requests))
            [(first, headers, body)] = receiver.requests
            assert first == "POST /a?b=c HTTP/1.1"
            assert headers["content-type"] == "application/json"
            assert body["data"] == {"task": {"id": "p", "version": 0}}
            assert body["head"] == {"serverUrl": server.url}
            await until(lambda: server.app.metrics.deliveries == {("execute", "push", "sent"): 1})


PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.3.4", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"),
    *("240.0.0.1", "192.0.0.1", "198.18.0.1", "::1", "::"),
    *("fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1"),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ),
    *("2001:db8::1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::7f00:1", "fec0::1", "feff::1", "::ffff:0:7f00:1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


async def test_a_name_with_one_private_address_is_not_called() -> None:
    check = pusher(Metrics(), {"hook.example": ["93.184.216.34", "10.0.0.1"]}, push_hosts=("hook.example",))
    with pytest.raises(PushRefused, match="not public"):
        await check.post("http://hook.example/", b"{}")


FOREIGN = (
    "http://other.example/",
    "http://hook.example:8080/",
    "http://hook.example:0/",
    "http://hook.example:99999/",
    "http://user@hook.example/",
    "http://user:pw@hook.example/",
    "http://hook.example.evil.example/",
    "http://xhook.example/",
    "ftp://hook.example/",
    "http://[::1]/",
    "http://[::1",
    "http:///",
    "http://hook.example/a b",
    "http://hook.example/\u00e9",
    "http://hook.example/\r\nx: y",
)


@pytest.mark.parametrize("url", FOREIGN)
async def test_only_listed_hosts_and_ports_are_called(url: str) -> None:
    check = pusher(Metrics(), push_hosts=("hook.example", "*.wild.example"))
    with pytest.raises(PushRefused):
        check.check_url(url)


def test_a_fragment_is_not_a_host() -> None:
    check = pusher(Metrics(), push_hosts=("hook.example",))
    assert check.check_url("http://hook.example#@evil.example/").host == "hook.example"


def test_a_wildcard_covers_what_is_below_it() -> None:
    check = pusher(Metrics(), push_hosts=("*.wild.example",))
    assert check.check_url("https://a.b.wild.example/x").port == 443
    with pytest.raises(PushRefused):
        check.check_url("https://wild.example/")


async def test_a_redirect_is_not_followed() -> None:
    async with receiving() as inner:
        location = f"http://127.0.0.1:{inner.port}/secret"
        answer = f"HTTP/1.1 307 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()
        async with receiving(answer) as receiver:
            metrics = Metrics()
            host = f"hook.example:{receiver.port}"
            push = pusher(metrics, LOOPBACK, push_hosts=(host,), push_private=True)
            push.push(execute(f"http://{host}/"))
            await until(lambda: ("execute", "push", "failed") in metrics.deliveries)
            assert not inner.requests
            await push.stop()


async def test_the_token_goes_only_where_it_is_meant_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with receiving(tls=context) as mine, receiving(tls=context) as other:
        hosts = [f"127.0.0.1:{receiver.port}" for receiver in (mine, other)]
        push = pusher(
            Metrics(),
            {"127.0.0.1": ["127.0.0.1"]},
            push_hosts=tuple(hosts),
            push_private=True,
            push_token="s3cret",
            push_token_hosts=(hosts[0],),
        )
        for host in hosts:
            assert await push.post(f"https://{host}/", b"{}") == 200
        assert mine.requests[0][1]["authorization"] == "Bearer s3cret"
        assert mine.requests[0][1]["host"] == hosts[0]
        assert "authorization" not in other.requests[0][1]


async def test_the_token_never_goes_over_plain_http() -> None:
    async with receiving() as receiver:
        metrics = Metrics()
        host = f"hook.example:{receiver.port}"
        push = pusher(
            metrics,
            LOOPBACK,
            push_hosts=(host,),
            push_private=True,
            push_token="s3cret",
            push_token_hosts=("hook.example",),
        )
        with pytest.raises(PushRefused, match="plain HTTP"):
            await push.post(f"http://{host}/", b"{}")
        push.push(execute(f"http://{host}/"))
        await until(lambda: metrics.deliveries == {("execute", "push", "refused"): 1})
        assert not receiver.requests


async def test_posts_are_bounded_in_number() -> None:
    async with receiving() as receiver:
        metrics = Metrics()
        host = f"hook.example:{receiver.port}"
        push = pusher(metrics, LOOPBACK, push_hosts=(host,), push_private=True, push_concurrency=4)
        receiver.gate.clear()
        for number in range(20):
            push.push(execute(f"http://{host}/", number))
        await until(lambda: len(receiver.requests) == 4)
        receiver.gate.set()
        await until(lambda: metrics.deliveries.get(("execute", "push", "sent")) == 20)
        assert receiver.most_at_once == 4


async def test_a_receiver_that_never_answers_is_given_up() -> None:
    async with receiving() as receiver:
        metrics = Metrics()
        host = f"hook.example:{receiver.port}"
        push = pusher(metrics, LOOPBACK, push_hosts=(host,), push_private=True, push_timeout_s=0.1)
        receiver.gate.clear()
        push.push(execute(f"http://{host}/"))
        await until(lambda: ("execute", "push", "failed") in metrics.deliveries)


async def test_an_answer_without_end_is_not_read() -> None:
    async with receiving(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000) as receiver:
        host = f"hook.example:{receiver.port}"
        push = pusher(Metrics(), LOOPBACK, push_hosts=(host,), push_private=True)
        with pytest.raises((ValueError, ConnectionError)):
            await push.post(f"http://{host}/", b"{}")


async def test_an_unblock_is_tried_again_because_nobody_else_would() -> None:
    async with receiving(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n") as receiver:
        metrics = Metrics()
        host = f"hook.example:{receiver.port}"
        push = pusher(metrics, LOOPBACK, push_hosts=(host,), push_private=True)
        push.push(unblock(f"http://{host}/"))
        await until(lambda: len(receiver.requests) == 1)
        receiver.answer = b"HTTP/1.1 204 X\r\n\r\n"
        await until(lambda: ("unblock", "push", "sent") in metrics.deliveries)
        assert len(receiver.requests) == 2


@pytest.mark.parametrize(("status", "level"), [(401, "WARNING"), (404, "WARNING"), (503, "INFO")])
async def test_a_receiver_that_refuses_is_named_in_the_log(
    status: int, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast.server")
    async with receiving(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode()) as receiver:
        metrics = Metrics()
        host = f"hook.example:{receiver.port}"
        push = pusher(metrics, LOOPBACK, push_hosts=(host,), push_private=True)
        push.push(execute(f"http://{host}/run?key=s3cret"))
        await until(lambda: ("execute", "push", "failed") in metrics.deliveries)
    [record] = caplog.records
    assert record.levelname == level
    assert record.getMessage() == f"a post to {host} was answered with status {status}"


def test_a_token_that_nobody_would_be_sent_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    pusher(Metrics(), push_hosts=("hook.example",), push_token="s3cret")
    assert "push_token_hosts is empty" in caplog.text
    assert "s3cret" not in caplog.text
