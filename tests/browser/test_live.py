"""The page follows what happens: changes, streams, a worker that is killed, a server that restarts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Route, expect

from tests.browser.browser import Watched, watched
from tests.browser.world import World, store_url

AWAY = (
    r"ERR_CONNECTION_REFUSED",
    r"ERR_INCOMPLETE_CHUNKED",
    r"ERR_CONNECTION_RESET",
    r"ERR_EMPTY_RESPONSE",
    r"status of 503",
)


def test_a_new_execution_appears_and_its_status_changes_in_the_list(shop: World, look: Watched) -> None:
    page = look.open("executions?prefix=live-")
    expect(page.locator("main")).to_contain_text("No execution matches")
    shop.start_execution("confirm", "?", id="live-1")
    row = page.locator(".rows tbody tr", has_text="live-1")
    expect(row.locator(".chip")).to_have_text("suspended")
    shop.post("promises/live-1:answer/resolve", {"value": True})
    expect(row.locator(".chip")).to_have_text("completed")


def test_what_changes_while_a_list_is_read_for_the_first_time_is_not_missed(
    shop: World, look: Watched
) -> None:
    """The first answer is from before the change, and comes after the page was told of it."""
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))
            shop.start_execution("echo", 1, id="missed-1")

    look.page.route("**/v1/executions?*prefix=missed-*", hold)
    asked = re.compile(r"/v1/counts\?")
    with look.page.expect_request(asked):
        page = look.open("executions?prefix=missed-")
    with page.expect_request(asked):  # again, because of the change
        expect(page.locator(".live.is-live")).to_be_visible()
    [(route, answer)] = held
    assert answer.json()["executions"] == []
    route.fulfill(response=answer)
    expect(page.locator(".rows tbody")).to_contain_text("missed-1")


def test_a_list_of_one_status_loses_what_no_longer_has_it(shop: World, look: Watched) -> None:
    shop.start_execution("confirm", "?", id="gone-1")
    shop.until("gone-1", "suspended")
    page = look.open("executions?prefix=gone-&status=suspended")
    expect(page.locator(".rows tbody")).to_contain_text("gone-1")
    shop.post("promises/gone-1:answer/resolve", {"value": True})
    expect(page.locator(".rows tbody")).not_to_contain_text("gone-1")


def test_streams_tick_live(shop: World, look: Watched) -> None:
    shop.start_execution("basket", id="tick-1")
    page = look.open("executions/tick-1?tab=streams")
    expect(page.locator(".tabpanel")).to_contain_text("It emits nothing")
    for number, name in enumerate(("tea", "milk", "salt"), 1):
        shop.post("executions/tick-1/messages", {"name": name, "price": number})
        expect(page.locator(".stream li")).to_have_count(number)
        expect(page.locator(".stream li").last).to_contain_text(f"{name} is in the basket")
    expect(page.locator("main .head .chip").first).to_have_text("completed")


def test_a_paused_page_stands_still_and_goes_on_when_it_is_told(shop: World, look: Watched) -> None:
    page = look.open("executions?prefix=paused-")
    live = page.locator("button.live")
    expect(live).to_have_class(re.compile("is-live"))
    live.click()
    expect(live).to_contain_text("Paused")
    shop.start_execution("echo", 1, id="paused-1")
    shop.until("paused-1", "completed")
    expect(page.locator(".rows tbody")).not_to_contain_text("paused-1")
    live.click()
    expect(page.locator(".rows tbody")).to_contain_text("paused-1")


def test_many_tabs_share_one_connection(shop: World, browser: Browser) -> None:
    """A browser opens six connections to a server, so ten pages with one each would not even load."""
    context = browser.new_context()
    try:
        pages = [context.new_page() for _ in range(10)]
        streams: list[str] = []
        for page in pages:
            page.on(
                "request",
                lambda request: streams.append(request.url) if "/v1/changes" in request.url else None,
            )
            page.goto(f"{shop.console}#/executions?prefix=tabs-")
            expect(page.locator("main")).to_contain_text("No execution matches")
        shop.start_execution("echo", 1, id="tabs-1")
        for page in pages:
            expect(page.locator(".rows tbody tr", has_text="tabs-1").locator(".chip")).to_have_text(
                "completed"
            )
        assert len(streams) == 1
    finally:
        context.close()


@pytest.fixture
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world whose processes a test may kill."""
    made = World(tmp_path, store_url(request.param, tmp_path))
    yield made
    made.stop()


@pytest.mark.parametrize("alone", ["sqlite", "postgres"], indirect=True)
def test_a_worker_is_killed_and_the_timeline_shows_the_takeover(
    alone: World, browser: Browser, tmp_path: Path
) -> None:
    alone.start(workers=0)
    first = alone.start_worker(lease_s=6.0)  # a busy machine renews shorter ones too late
    marker = tmp_path / "go-on"
    alone.start_execution("fragile", str(marker), id="fragile-1")
    with watched(browser, alone.console) as look:
        page = look.open("executions/fragile-1")
        expect(page.locator(".tl-claim")).to_have_count(1)
        alone.until_true(lambda: len(alone.get("executions/fragile-1/timeline")["rows"]) >= 1)
        alone.kill_worker(first)
        alone.start_worker()
        expect(page.locator(".tl-flag.is-crash")).to_have_count(1, timeout=60_000)
        expect(page.locator(".tl-flag.is-takeover")).to_have_count(1, timeout=60_000)
        expect(page.locator(".tl-claim.is-lapsed")).to_have_count(1)
        [lost] = alone.get("executions/fragile-1")["lostClaims"]
        assert lost["end"] == "lapsed"
        assert lost["takenBy"] != lost["worker"]
        assert lost["since"] < lost["until"] <= lost["takenAt"]
        marker.touch()
        expect(page.locator("main .head .chip").first).to_have_text("completed")
        page.get_by_role("tab", name="Log").click()
        expect(page.locator(".tabpanel")).to_contain_text("lease lapsed, worker lost")


@pytest.mark.parametrize("alone", ["sqlite", "postgres"], indirect=True)
def test_the_server_restarts_and_the_page_goes_on(alone: World, browser: Browser) -> None:
    alone.start()
    alone.start_execution("confirm", "?", id="restart-1")
    alone.until("restart-1", "suspended")
    with watched(browser, alone.console) as look:
        look.expect_wrong(*AWAY)
        page = look.open("executions?prefix=restart-")
        row = page.locator(".rows tbody tr", has_text="restart-1")
        expect(row.locator(".chip")).to_have_text("suspended")
        alone.server.kill()
        expect(page.locator("button.live")).to_have_class(re.compile("is-connecting"))
        expect(row.locator(".chip")).to_have_text("suspended")  # what was there stays
        alone.server.start()
        expect(page.locator("button.live")).to_have_class(re.compile("is-live"))
        alone.post("promises/restart-1:answer/resolve", {"value": True})
        expect(row.locator(".chip")).to_have_text("completed")
