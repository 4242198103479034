"""Browsers and worlds for the tests of the console. `make test-browser` runs them, `make test` does not."""

from collections.abc import Iterator

import pytest

from tests.browser.world import World, is_wanted, store_url, world

if not is_wanted():
    collect_ignore_glob = ["test_*.py"]
else:
    from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

    from tests.browser.browser import Watched, launch, open_context, patience_ms

    expect.set_options(timeout=patience_ms)

    @pytest.fixture(scope="session")
    def browser() -> Iterator[Browser]:
        with sync_playwright() as playwright:
            found = launch(playwright)
            yield found
            found.close()

    @pytest.fixture(scope="session", params=["sqlite", "postgres"])
    def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
        """A server and a worker on each store, for all tests that do not kill them."""
        directory = tmp_path_factory.mktemp(request.param)
        with world(directory, store_url(request.param, directory)) as made:
            yield made

    @pytest.fixture(scope="module")
    def context(browser: Browser) -> Iterator[BrowserContext]:
        """One for the tests of a module: what it has loaded is loaded once."""
        found = open_context(browser)
        yield found
        found.close()

    @pytest.fixture
    def look(context: BrowserContext, shop: World) -> Iterator[Watched]:
        """A page of the console, whose errors fail the test."""
        found = Watched(context.new_page(), shop.console)
        yield found
        found.check()
        found.page.close()
