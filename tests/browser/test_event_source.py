"""The `EventSource` of a browser reads what an execution emits, and goes on by itself after a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.browser import watched
from tests.browser.test_live import AWAY
from tests.browser.world import World, store_url

FOLLOW = """
(path) => {
  window.seen = [];
  const source = new EventSource(path);
  source.onmessage = (event) => window.seen.push([event.lastEventId, JSON.parse(event.data).value]);
  source.addEventListener("end", () => { source.close(); window.seen.push("end"); });
}
"""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[World]:
    """A world whose server the test may kill."""
    made = World(tmp_path, store_url("sqlite", tmp_path))
    yield made
    made.stop()


def test_an_event_source_has_every_chunk_once_though_the_server_is_killed(
    alone: World, browser: Browser
) -> None:
    alone.start()
    alone.start_execution("basket", id="basket-1")
    items = ("tea", "milk", "salt")
    with watched(browser, alone.console) as look:
        look.expect_wrong(*AWAY)
        page = look.open("executions/basket-1")
        page.evaluate(FOLLOW, "/v1/executions/basket-1/streams/log")
        for number, name in enumerate(items, 1):
            alone.post("executions/basket-1/messages", {"name": name, "price": number})
            alone.until_true(lambda number=number: len(page.evaluate("window.seen")) >= number)  # type: ignore[misc]
            if number == 1:
                alone.server.kill()
                alone.server.start()
        alone.until_true(lambda: page.evaluate("window.seen")[-1] == "end")
        chunks = [[str(number), f"{name} is in the basket"] for number, name in enumerate(items, 1)]
        assert page.evaluate("window.seen") == [*chunks, "end"]
