"""Tokens: signing in, looking without acting, seeing one's own prefix, and what is kept where."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.browser import watched
from tests.browser.tokens import TOKENS, token_flags
from tests.browser.world import World, store_url

REFUSED = r"status of 40[13]"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    made = World(directory, store_url("sqlite", directory), *token_flags(directory), token=TOKENS["admin"])
    made.start()
    yield made
    made.stop()


def test_a_server_with_tokens_asks_for_one_and_keeps_it_in_memory(guarded: World, browser: Browser) -> None:
    with watched(browser, guarded.console) as look:
        look.expect_wrong(REFUSED)
        page = look.open("executions")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert").locator(".hint")).to_contain_text("Check that it is complete.")
        page.get_by_label("Token").fill(TOKENS["admin"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main h1")).to_have_text("Executions")
        kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
        assert TOKENS["admin"] not in kept
        page.reload()
        expect(page.get_by_label("Token")).to_be_visible()


def test_a_token_is_kept_until_the_tab_is_closed_on_request(guarded: World, browser: Browser) -> None:
    with watched(browser, guarded.console) as look:
        look.expect_wrong(REFUSED)
        page = look.open("executions")
        page.get_by_label("Token").fill(TOKENS["admin"])
        page.get_by_label("keep it until this tab is closed").check()
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main h1")).to_have_text("Executions")
        page.reload()
        expect(page.locator("main h1")).to_have_text("Executions")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_read_only_token_sees_and_cannot_act(guarded: World, browser: Browser) -> None:
    guarded.start_execution("nap", 86_400, id="looked-at")
    guarded.until("looked-at", "suspended")
    with watched(browser, guarded.console) as look:
        look.expect_wrong(REFUSED)
        page = look.open("executions/looked-at")
        page.get_by_label("Token").fill(TOKENS["reader"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main h1")).to_contain_text("looked-at")
        expect(page.locator("main")).to_contain_text("Your token may look, and change nothing.")
        expect(page.get_by_role("button", name=re.compile("Cancel|Halt|Fork|Tell"))).to_have_count(0)
        page.goto(f"{guarded.console}#/executions")
        expect(page.locator(".rows tbody")).to_contain_text("looked-at")
        expect(page.locator("main input[type=checkbox]")).to_have_count(0)
    assert guarded.status("looked-at") == "suspended"


def test_a_prefix_token_sees_its_prefix(guarded: World, browser: Browser) -> None:
    guarded.start_execution("echo", 1, id="eu-1")
    guarded.start_execution("echo", 1, id="us-1")
    with watched(browser, guarded.console) as look:
        look.expect_wrong(REFUSED)
        page = look.open("executions")
        page.get_by_label("Token").fill(TOKENS["eu"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".rows tbody")).to_contain_text("eu-1")
        expect(page.locator(".rows tbody")).not_to_contain_text("us-1")
        expect(page.locator(".side")).to_contain_text("Only ids that begin with eu-")
        for view in ("workers", "queues", "start"):  # there are some
            look.open(view)
            expect(page.locator("main")).to_contain_text("Your token sees only what begins with eu-.")
        look.open("overview")
        failures = page.get_by_role("region", name="Failures", exact=True)
        expect(failures).to_contain_text("A token for a prefix does not see them")
