"""Fifty tabs of the console in a real Chromium, open for ten minutes, while a worker works.

Run as `make soak-console ARGS="--minutes 10 --tabs 50"`. Tabs stand on every kind of view. At the end each
list shows the newest execution, no tab has an error in its console, all tabs shared few connections, and
neither the server nor a tab holds more than at the beginning: the second look at both is compared with the
first.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import BrowserContext, CDPSession, Page, sync_playwright

from bench.table import Row, print_table
from tests.browser.browser import Watched, launch, open_context
from tests.browser.world import World

PLACES: Final = ("executions", "overview", "tasks", "workers", "queues", "promises", "executions/soak-long")
ROWS: Final = 60  # that a list reads at once: it is full from the beginning
early_share: Final = 1 / 6  # of the time, as 5 minutes of 30
heap_ratio_max: Final = 1.1
server_ratio_max: Final = 1.2


def server_bytes(world: World) -> int:
    fields = Path(f"/proc/{world.server.pid}/statm").read_text("ascii").split()
    return int(fields[1]) * 4096


def heap_bytes(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in found if each["name"] == "JSHeapUsedSize"))


def open_tabs(context: BrowserContext, world: World, count: int) -> list[Watched]:
    tabs: list[Watched] = []
    for number in range(count):
        tab = Watched(context.new_page(), world.console)
        tab.open(PLACES[number % len(PLACES)])
        tab.page.locator("main h1").first.wait_for()
        tabs.append(tab)
    return tabs


def shows(page: Page, key: str) -> bool:
    row = page.locator(f'.rows tbody tr[data-key="{key}"] .chip', has_text="completed")
    row.wait_for(timeout=60_000)
    return True


def run(world: World, tabs_count: int, minutes: float, per_minute: int) -> list[Row]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        context = open_context(browser)
        tabs = open_tabs(context, world, tabs_count)
        tabs[0].page.bring_to_front()
        session = context.new_cdp_session(tabs[0].page)
        session.send("Performance.enable")
        total = max(12, round(minutes * per_minute))
        early_heap, early_server, began = 0.0, 0, time.monotonic()
        for number in range(total):
            world.start_execution("checkout", str(number), "good", number, id=f"soak-{number}")
            if number == round(total * early_share):
                early_heap, early_server = heap_bytes(session), server_bytes(world)
            wait_s = began + (number + 1) * minutes * 60 / total - time.monotonic()
            tabs[0].page.wait_for_timeout(max(1.0, wait_s * 1000))
        took_s = time.monotonic() - began
        last = f"soak-{total - 1}"
        world.until(last, "completed")
        lists = [tab.page for tab in tabs if tab.page.url.endswith("#/executions")]
        for page in lists:
            page.bring_to_front()
            shows(page, last)
        tabs[0].page.bring_to_front()
        heap, server = heap_bytes(session) / early_heap, server_bytes(world) / early_server
        wrong = [each for tab in tabs for each in tab.wrong]
        streams = sum(url.split("?")[0].endswith("/v1/changes") for tab in tabs for url in tab.requests)
        browser.close()
    most = 1 + int(took_s // 200)  # each stream is ended before 300 s have passed
    held = f"{tabs_count} tabs, {took_s / 60:.1f} min, {total} executions"
    return [
        Row(f"{held}: lists that show the last", str(len(lists)), "all", True),
        Row("errors in any console", f"{len(wrong)} {wrong[:2] or ''}", "none", not wrong),
        Row("streams of changes that were opened", str(streams), f"<= {most}", streams <= most),
        Row("heap of a tab, against a sixth", f"{heap:.2f}x", "<= 1.1x", heap <= heap_ratio_max),
        Row("memory of the server, against a sixth", f"{server:.2f}x", "<= 1.2x", server <= server_ratio_max),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--per-minute", type=int, default=60, help="executions that are started")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), f"sqlite:///{folder}/holdfast.db")
        try:
            world.start()
            world.start_execution("long", 500, id="soak-long")
            for number in range(2 * ROWS):
                world.start_execution("echo", number, id=f"soak-before-{number}")
            rows = run(world, given.tabs, given.minutes, given.per_minute)
        finally:
            world.stop()
    print_table("many tabs of the console", rows)


if __name__ == "__main__":
    main()
