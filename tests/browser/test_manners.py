"""Keys, colours, time zones, any path prefix, and what is fetched."""

import http.server
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.browser import Watched, narrow, watched
from tests.browser.world import World

IMPORTED = """
async ([path, name, values]) => {
  const main = document.querySelector('script[type="module"]').src;
  const found = await import(new URL(path, main));
  return values.map((value) => found[name](value));
}
"""
NAMED = """
() => {
  const names = 'link[rel="modulepreload"], link[rel="stylesheet"], script[src]';
  return [...document.querySelectorAll(names)].map((each) => each.href ?? each.src);
}
"""


def test_keys_lead_everywhere(shop: World, look: Watched) -> None:
    for number in range(3):
        shop.start_execution("echo", number, id=f"keys-{number}")
        shop.until(f"keys-{number}", "completed")
    page = look.open("overview")
    expect(page.locator("main h1")).to_have_text("Overview")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.locator("main h1")).to_have_text("Executions")
    page.keyboard.press("/")
    page.keyboard.type("keys-")
    expect(page.locator(".rows tbody tr")).to_have_count(3)
    page.locator("main .scroll").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".rows tr.marked")).to_contain_text("keys-1")
    page.keyboard.press("k")
    expect(page.locator(".rows tr.marked")).to_contain_text("keys-2")
    page.keyboard.press("x")
    expect(page.locator(".bulk")).to_contain_text("1 execution selected")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/executions/keys-2"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for key, title in (
        ("t", "Background tasks"),
        ("q", "Queues"),
        ("s", "Schedules"),
        ("w", "Workers"),
        ("p", "Promises"),
        ("n", "Start"),
        ("a", "Audit log"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("main h1")).to_have_text(title)


def test_keys_go_on_after_a_row_was_ticked_and_tab_leaves_the_page(shop: World, look: Watched) -> None:
    for number in range(2):
        shop.start_execution("echo", number, id=f"ticked-{number}")
        shop.until(f"ticked-{number}", "completed")
    page = look.open("executions?prefix=ticked-")
    page.get_by_role("checkbox", name="Select ticked-1").check()
    page.keyboard.press("j")
    expect(page.locator(".rows tr.marked")).to_contain_text("ticked-1")
    page.get_by_role("checkbox", name="Select ticked-1").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")
    page.keyboard.press("Escape")
    page.locator("#main").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#main")).not_to_be_focused()


def test_letters_are_letters_while_one_types(shop: World, look: Watched) -> None:
    page = look.open("executions")
    page.locator("[data-search]").fill("")
    page.locator("[data-search]").press_sequentially("ge?/j")
    expect(page.locator("main h1")).to_have_text("Executions")
    expect(page.locator("[data-search]")).to_have_value("ge?/j")


def test_colours_follow_the_system_until_they_are_chosen(shop: World, browser: Browser) -> None:
    with watched(browser, shop.console, scheme="dark") as look:
        page = look.open("overview")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name=re.compile("^Colours")).click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_times_are_local_and_utc_on_demand_and_both_in_the_tooltip(shop: World, browser: Browser) -> None:
    shop.start_execution("echo", 1, id="time-1")
    shop.until("time-1", "completed")
    with watched(browser, shop.console, timezone_id="Asia/Tokyo") as look:
        page = look.open("executions/time-1")
        began = page.locator(".facts time").first
        local = began.inner_text()
        began.hover()
        title = began.get_attribute("title") or ""
        assert "UTC" in title
        assert re.search(r"GMT\+9|JST", title)
        page.get_by_role("button", name=re.compile("^Times are local")).click()
        expect(began).not_to_have_text(local)


def test_no_cookie_and_a_strict_policy(shop: World, look: Watched) -> None:
    response = look.page.goto(look.console)
    assert response is not None
    headers = response.headers
    policy = headers["content-security-policy"]
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "set-cookie" not in headers
    expect(look.page.locator("main h1")).to_be_visible()
    assert look.page.evaluate("document.cookie") == ""


FIRST = {
    "executions": "first-1",
    "executions/first-1": "It has recorded nothing yet",
    "overview": "Schedules due next",
    "schedules": "on weekdays",
}


@pytest.mark.parametrize("place", FIRST)
def test_a_view_is_asked_for_at_once_and_everything_once(shop: World, browser: Browser, place: str) -> None:
    """No module is found out about by reading another one, and nothing is asked for twice. It is told of no
    changes meanwhile: after one it asks again, as it should."""
    if not shop.get("executions", prefix="first-1")["executions"]:
        shop.start_execution("echo", 1, id="first-1")
        shop.until("first-1", "completed")
    with watched(browser, shop.console) as look:
        look.page.route("**/v1/changes*", lambda route: None)
        page = look.open(place)
        expect(page.locator("main")).to_contain_text(FIRST[place])
        modules = [url for url in look.requests if url.endswith((".js", ".css"))]
        assert sorted(modules) == sorted(set(modules))
        named = page.evaluate(NAMED)
        assert set(modules) - set(named) == set()
        for asked in ("/v1/session", "/v1/executions?limit=60", "/v1/executions/first-1"):
            assert sum(url.endswith(asked) for url in look.requests) <= 1, asked
        assert sum(url.endswith("/v1/session") for url in look.requests) == 1


def test_a_time_to_come_is_never_said_to_be_a_day_shorter(shop: World, look: Watched) -> None:
    page = look.open("executions")
    minute, hour, day = 60_000, 3_600_000, 86_400_000
    spans = [59_999, hour - 1, 2 * day - 1, 2 * day, 3 * day - 1, 10 * day - 1, 10 * day]
    words = ["59 s", "59 min", "47 h 59 min", "2 d 0 h", "2 d 23 h", "9 d 23 h", "10 d"]
    assert page.evaluate(IMPORTED, ["time.js", "rough", [*spans, minute]]) == [*words, "1 min"]
    rates = [500, 1_000, 90_000, 60_000, hour, 36 * hour, day]
    shown = ["500 ms", "1 s", "90 s", "1 min", "1 h", "36 h", "1 d"]
    assert page.evaluate(IMPORTED, ["time.js", "span", rates]) == shown
    numbers = [0, 7, 999, 1_000, 12_345, 1_234_567, -1_000]
    assert page.evaluate(IMPORTED, ["text.js", "count", numbers]) == [f"{each:,}" for each in numbers]


def test_on_a_narrow_screen_the_name_of_the_view_is_in_sight(shop: World, browser: Browser) -> None:
    with watched(browser, shop.console, size=narrow) as look:
        page = look.open("audit")
        expect(page.locator(".side a[aria-current]")).to_have_text("Audit log")
        expect(page.locator(".side a[aria-current]")).to_be_in_viewport(ratio=1)
        page.goto(f"{look.console}#/overview")
        expect(page.locator(".side a[aria-current]")).to_have_text("Overview")
        expect(page.locator(".side a[aria-current]")).to_be_in_viewport(ratio=1)


def test_the_root_leads_browsers_to_the_console(shop: World, look: Watched) -> None:
    look.page.goto(shop.url)
    expect(look.page).to_have_url(re.compile("/console/"))
    expect(look.page.locator("main h1")).to_have_text("Overview")


class Prefixed(http.server.BaseHTTPRequestHandler):
    """A reverse proxy that shows the server below /tools/holdfast/, and nothing else."""

    upstream = ""
    prefix = "/tools/holdfast"
    passes = ("authorization", "content-type", "accept")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _pass_on(self) -> None:
        if not self.path.startswith(self.prefix):
            self.send_error(404)
            return
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        kept = {name: value for name, value in self.headers.items() if name.lower() in self.passes}
        try:
            answer = urlopen(
                Request(self.upstream + self.path[len(self.prefix) :], body, kept, method=self.command),
                timeout=60,
            )
        except HTTPError as error:
            answer = error
        with answer:
            self.send_response(answer.status)
            for name in ("content-type", "content-security-policy", "etag", "location"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.end_headers()
            while chunk := answer.read1(65_536):
                self.wfile.write(chunk)
                self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815


@contextmanager
def proxy(**fields: object) -> Iterator[tuple[str, type[Prefixed]]]:
    handler = type("Handler", (Prefixed,), fields)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{Prefixed.prefix}", handler
    finally:
        server.shutdown()
        server.server_close()


def end_now(page: Page) -> None:
    page.get_by_role("button", name="End now").click()
    page.get_by_role("dialog").get_by_role("button", name="End it now").click()


def test_it_works_behind_a_reverse_proxy_under_any_path(shop: World, browser: Browser) -> None:
    shop.start_execution("confirm", "?", id="proxied-1")
    shop.until("proxied-1", "suspended")
    with proxy(upstream=shop.url) as (url, _), watched(browser, f"{url}/console/") as look:
        page = look.open("executions/proxied-1")
        expect(page.locator("main .head .chip").first).to_have_text("suspended")
        end_now(page)
        expect(page.locator("main .head .chip").first).to_have_text("cancelled")
        assert all("/tools/holdfast/" in url for url in look.requests)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_proxy_that_changes_the_host_is_named_in_public_url(
    browser: Browser, tmp_path: Path, is_named: bool
) -> None:
    """As nginx does it by default: the browser says where the page is from, and the Host is another."""
    passes = (*Prefixed.passes, "origin")
    with proxy(passes=passes) as (url, handler):
        made = World(tmp_path, "memory:", *(("--public-url", url) if is_named else ()))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            made.server.port = port = probe.getsockname()[1]
        try:
            made.start(workers=0)
            handler.upstream = made.server.url = f"http://127.0.0.1:{port}"  # it said where the proxy is
            made.start_execution("confirm", "?", id="proxied-2")
            with watched(browser, f"{url}/console/") as look:
                page = look.open("executions/proxied-2")
                if is_named:
                    end_now(page)
                    expect(page.locator("main .head .chip").first).to_have_text("cancelled")
                else:
                    look.expect_wrong("403")
                    end_now(page)
                    refusal = page.get_by_role("dialog").get_by_role("alert")
                    expect(refusal.locator(".what")).to_contain_text(f"A page of '{look.origin}'")
                    expect(refusal.locator(".hint")).to_contain_text("set public_url to the address")
        finally:
            made.stop()
