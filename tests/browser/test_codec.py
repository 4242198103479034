"""Payloads that a codec has written: the page says so, and an endpoint of the operator's decodes them."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, expect

from tests.browser.browser import watched
from tests.browser.world import World

SECRET = {"card": "4711", "amount": 12}


def hide(value: object) -> str:
    """As a codec of the user's would: bytes that are no JSON."""
    return base64.b64encode(json.dumps(value).encode()[::-1]).decode()


class Decoder(BaseHTTPRequestHandler):
    """The user's own endpoint, on another origin. It knows the key; the node does not."""

    asked: list[str]
    broken = False

    def do_OPTIONS(self) -> None:
        self._answer(204, b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.extend(body["payloads"])
        values = [json.loads(base64.b64decode(each)[::-1]) for each in body["payloads"]]
        self._answer(500 if self.broken else 200, json.dumps({"payloads": values}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("access-control-allow-origin", self.headers.get("origin", "*"))
        self.send_header("access-control-allow-headers", "content-type")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quietly."""


@contextmanager
def decoder() -> Iterator[tuple[str, type[Decoder]]]:
    handler = type("OwnDecoder", (Decoder,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/decode", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(made: World, kind: str, data: Any) -> None:
    """As an SDK does it."""
    head = {"corrId": "1", "version": "2026-04-01"}
    body = json.dumps({"kind": kind, "head": head, "data": data}).encode()
    with urlopen(Request(made.url, body, {"content-type": "application/json"}), timeout=60) as answer:
        assert answer.status == 200


def store_secret(made: World) -> None:
    param = {"data": hide(SECRET)}
    send(made, "promise.create", {"id": "secret", "timeoutAt": 4_102_444_800_000, "tags": {}, "param": param})


def test_what_a_codec_has_written_is_decoded_by_the_endpoint_of_the_operator(
    browser: Browser, tmp_path: Path
) -> None:
    with decoder() as (url, handler):
        made = World(tmp_path, "memory:", "--codec-url", url)
        try:
            made.start(workers=0)
            store_secret(made)
            with watched(browser, made.console) as look:
                look.expect_wrong("another origin: " + url, r"status of 500")
                page = look.open("promises/secret")
                expect(page.locator(".encoded")).to_contain_text("written by a codec")
                assert "4711" not in page.content()
                assert handler.asked == []  # nothing is asked before somebody wants it
                handler.broken = True
                page.get_by_role("button", name="Decode").click()
                expect(page.locator("#toasts")).to_contain_text("The decoding endpoint answered with 500")
                handler.broken = False
                page.get_by_role("button", name="Decode").click()
                expect(page.locator(".encoded")).to_contain_text("4711")
                assert handler.asked == [hide(SECRET)] * 2
        finally:
            made.stop()


def test_a_message_that_a_codec_has_written_is_decoded_too(browser: Browser, tmp_path: Path) -> None:
    with decoder() as (url, _):
        made = World(tmp_path, "memory:", "--codec-url", url)
        try:
            made.start(workers=0)
            made.post("executions", {"workflow": "chat", "id": "chat-1", "check": False})
            send(made, "stream.append", {"id": "chat-1", "stream": "in", "value": {"data": hide(SECRET)}})
            with watched(browser, made.console) as look:
                look.expect_wrong("another origin: " + url)
                panel = look.open("executions/chat-1?tab=messages").locator(".tabpanel")
                expect(panel.locator(".encoded")).to_contain_text("written by a codec")
                panel.get_by_role("button", name="Decode").click()
                expect(panel.locator(".encoded")).to_contain_text("4711")
        finally:
            made.stop()


def test_without_an_endpoint_the_page_says_that_it_is_encoded(browser: Browser, tmp_path: Path) -> None:
    made = World(tmp_path, "memory:")
    try:
        made.start(workers=0)
        store_secret(made)
        with watched(browser, made.console) as look:
            page = look.open("promises/secret")
            expect(page.locator(".encoded")).to_contain_text("written by a codec")
            expect(page.locator("main")).to_contain_text("the server has no codec_url to ask")
            expect(page.get_by_role("button", name="Decode")).to_have_count(0)
    finally:
        made.stop()
