"""How fast the console is, in a real Chromium on this machine, against a real server on SQLite.

`make bench-console ARGS="--scale 0.01 --minutes 1"` is a quick look. Times in the page are taken by the page
itself: from the start of the navigation to the frame after the rows were there. Thirty minutes of live
updates are scaled: the same number of updates in `--minutes`. Fifty tabs are fifty readers without a browser
(console_readers.py): with one, its own work would be measured.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from bench.table import Row, print_table
from tests.browser.browser import launch
from tests.browser.world import World

STORED: Final = 1_000_000
STEPS: Final = 10_000
TABS: Final = 50
updates_per_minute: Final = 120  # of 30 minutes: 3,600
first_load_bytes_max: Final = 120_000
list_ms_max: Final = 500.0
timeline_ms_max: Final = 1_000.0
frame_ms_max: Final = 50.0
change_ms_max: Final = 300.0
tabs_cost_max: Final = 0.05
heap_ratio_max: Final = 1.1

_NOTES_ROWS: Final = """
window.usableAt = {};
const look = () => {
  const note = (name) => { window.usableAt[name] ??= performance.now(); };
  if (document.querySelector(".rows tbody tr[data-key]")) note("list");
  if (document.querySelector(".tl-row")) note("timeline");
  const list = document.querySelector(".tl-list");
  if (list && parseFloat(list.style.height) >= 24 * STEPS) note("all");
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
_SCROLL: Final = """
async () => {
  const area = document.querySelector(".tl-scroll");
  const frames = [];
  let last = performance.now();
  for (let count = 0; count < 240; count += 1) {
    area.scrollTop += count % 2 ? 4000 : 90;
    await new Promise(requestAnimationFrame);
    const at = performance.now();
    frames.push(at - last);
    last = at;
  }
  return frames;
}
"""
_WATCH_IDS: Final = """
window.seenAt = {};
new MutationObserver(() => {
  for (const row of document.querySelectorAll(".rows tbody tr[data-key]")) {
    const words = row.querySelector(".chip")?.textContent ?? "";
    window.seenAt[`${row.dataset.key} ${words}`] ??= Date.now();
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def copy_rows(path: Path, template: str, count: int) -> None:
    """The same ended execution, so many times, by the database itself."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous=OFF")
        for table in ("promises", "tasks"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0]
            values = [
                "'stored-' || n"
                if name == "id"
                else "old.created_at - n"
                if name == "created_at"
                else f"old.{name}"
                for name in names
            ]
            connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) WITH RECURSIVE numbers(n) AS "
                f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) SELECT {', '.join(values)} "
                f"FROM numbers CROSS JOIN (SELECT * FROM {table} WHERE id = ?) old",
                (count, template),
            )


def fresh(browser: Browser, *scripts: str) -> tuple[BrowserContext, Page]:
    context = browser.new_context(viewport={"width": 1360, "height": 860})
    page = context.new_page()
    for script in scripts:
        page.add_init_script(script)
    return context, page


def wait(page: Page, look: str, given: Any = None) -> None:
    """Until the page says so. The policy of the page forbids what Playwright would do by itself."""
    deadline = time.monotonic() + 60
    while not page.evaluate(look, given):
        assert time.monotonic() < deadline, look
        page.wait_for_timeout(20)


def first_load(browser: Browser, world: World, rounds: int) -> tuple[int, float]:
    """Compressed bytes, and milliseconds to the list: each time with an empty cache."""
    sizes: list[int] = []
    times: list[float] = []
    for _ in range(rounds):
        context, page = fresh(browser, _NOTES_ROWS.replace("STEPS", str(STEPS)))
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        total = [0]
        session.on("Network.loadingFinished", lambda event, total=total: _add(total, event))
        page.goto(f"{world.console}#/executions")
        wait(page, "() => window.usableAt.list")
        times.append(page.evaluate("window.usableAt.list"))
        page.wait_for_timeout(300)
        sizes.append(total[0])
        context.close()
    return round(statistics.median(sizes)), statistics.median(times)


def _add(total: list[int], event: dict[str, Any]) -> None:
    total[0] += int(event["encodedDataLength"])


def long_execution(browser: Browser, world: World, steps: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds to the first rows and to all of them, and the longest frame while scrolling."""
    world.start_execution("long", steps, id="long-bench")
    world.until("long-bench", "completed")
    first: list[float] = []
    whole: list[float] = []
    longest: list[float] = []
    for _ in range(rounds):
        context, page = fresh(browser, _NOTES_ROWS.replace("STEPS", str(steps)))
        page.goto(f"{world.console}#/executions/long-bench")
        wait(page, "() => window.usableAt.all")
        first.append(page.evaluate("window.usableAt.timeline"))
        whole.append(page.evaluate("window.usableAt.all"))
        page.wait_for_timeout(500)
        longest.append(max(page.evaluate(_SCROLL)))
        context.close()
    return statistics.median(first), statistics.median(whole), statistics.median(longest)


def change_to_screen(browser: Browser, world: World, rounds: int) -> float:
    """From the commit, as the record has it, to the row on the page, p50."""
    context, page = fresh(browser, _WATCH_IDS)
    page.goto(f"{world.console}#/executions")
    page.wait_for_selector(".live.is-live")
    page.wait_for_timeout(1_000)
    took: list[float] = []
    for number in range(rounds):
        name = f"change-{number}"
        world.start_execution("confirm", "?", id=name)
        world.until(name, "suspended")
        page.wait_for_timeout(600)
        world.post(f"promises/{name}:answer/resolve", {"value": True})
        world.until(name, "completed")
        wait(page, "name => window.seenAt[`${name} completed`]", name)
        seen = page.evaluate("name => window.seenAt[`${name} completed`]", name)
        took.append(seen - world.get(f"executions/{name}")["settledAt"])
    context.close()
    return statistics.median(took)


class Load(Struct, frozen=True):
    """Creates in a second, the server's processor time for them, and how long that took by the clock."""

    per_s: float
    cpu_s: float
    took_s: float

    def cpu_of(self, count: float) -> float:
        """The processor time of so many creates."""
        return self.cpu_s * count / (self.per_s * self.took_s)


def creates(world: World, seconds: float) -> Load:
    command = [sys.executable, "-m", "bench.load", world.url, "--connections", "32"]
    before = cpu_s(world)
    done = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, check=True)
    rate = float(json.loads(done.stdout)["envelopes_per_s"])
    return Load(rate, cpu_s(world) - before, seconds)


def cpu_s(world: World) -> float:
    """Of the server, so far."""
    fields = Path(f"/proc/{world.server.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_tabs(world: World, tabs: int, rounds: int, seconds: float) -> tuple[float, float]:
    """How much slower creates are with so many tabs open, by the median of the rounds: by the clock; and the
    share of a processor that the tabs take, which is what a server that is busy with creates loses. The
    second does not depend on who else works on this machine. Tabs have been open for a while.
    """
    by_clock: list[float] = []
    by_cpu: list[float] = []
    creates(world, 1.0)
    for _ in range(rounds):
        without = creates(world, seconds)
        readers = subprocess.Popen(
            [sys.executable, "-m", "bench.console_readers", world.url, "--tabs", str(tabs)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert readers.stdout is not None
        assert readers.stdout.readline() == "ready\n"
        creates(world, seconds)
        within = creates(world, seconds)
        told, _ = readers.communicate(timeout=60)
        print(f"... {tabs} tabs: {told}", file=sys.stderr)
        by_clock.append(1 - within.per_s / without.per_s)
        by_cpu.append((within.cpu_s - without.cpu_of(within.per_s * seconds)) / seconds)
    return statistics.median(by_clock), statistics.median(by_cpu)


def growth_of_heap(browser: Browser, world: World, minutes: float, per_minute: int) -> float:
    """The heap after all updates over that after a sixth of them, garbage collected before each look."""
    context, page = fresh(browser)
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(f"{world.console}#/executions")
    page.wait_for_selector(".rows tbody tr[data-key]")

    def heap() -> float:
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "JSHeapUsedSize"))

    total = 30 * per_minute
    early = 0.0
    began = time.monotonic()
    for number in range(total):
        world.start_execution("echo", number, id=f"heap-{number}-{int(began)}")
        if number == total // 6:
            early = heap()
        wait = began + (number + 1) * minutes * 60 / total - time.monotonic()
        page.wait_for_timeout(max(0.0, wait * 1000))
    ratio = heap() / early
    context.close()
    return ratio


def measure(scale: float, minutes: float, rounds: int) -> list[Row]:
    stored, steps, tabs = (
        round(STORED * scale),
        round(STEPS * min(1.0, scale * 10)),
        max(5, round(TABS * min(1.0, scale * 10))),
    )
    rows: list[Row] = []

    def row(name: str, measured: str, required: str, ok: bool) -> None:
        rows.append(Row(name, measured, required, ok))
        print(f"... {name}: {measured}", file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "holdfast.db"
        world = World(Path(folder), f"sqlite:///{path}")
        browser = launch(playwright)
        try:
            world.start()
            world.start_execution("echo", 1, id="template")
            world.until("template", "completed")
            world.stop()
            copy_rows(path, "template", stored)
            world.start()
            size, took = first_load(browser, world, rounds)
            row(
                "first load, all bytes compressed",
                f"{size / 1000:.1f} KB",
                "<= 120 KB",
                size <= first_load_bytes_max,
            )
            row(
                f"first load to a usable list, {stored:,} stored",
                f"{took:.0f} ms",
                "<= 500 ms",
                took <= list_ms_max,
            )
            first, whole, frame = long_execution(browser, world, steps, rounds)
            row(
                f"{steps:,} steps to a usable timeline",
                f"{first:.0f} ms",
                "<= 1000 ms",
                first <= timeline_ms_max,
            )
            row(f"{steps:,} steps, all of them drawn", f"{whole:.0f} ms", "", True)
            row("the longest frame while it scrolls", f"{frame:.0f} ms", "<= 50 ms", frame <= frame_ms_max)
            change = change_to_screen(browser, world, 10 * rounds)
            row(
                "a change in the store to the screen, p50",
                f"{change:.0f} ms",
                "<= 300 ms",
                change <= change_ms_max,
            )
            by_clock, cost = cost_of_tabs(world, tabs, rounds, 6.0)
            row(
                f"creates with {tabs} tabs open, share of a processor",
                f"{cost:.1%}",
                "<= 5 %",
                cost <= tabs_cost_max,
            )
            row(f"creates with {tabs} tabs open, less, by the clock", f"{by_clock:.1%}", "", True)
            ratio = growth_of_heap(browser, world, minutes, updates_per_minute)
            row(
                f"heap after 3,600 updates against 600, in {minutes:g} min",
                f"{ratio:.2f}x",
                "<= 1.1x",
                ratio <= heap_ratio_max,
            )
        finally:
            browser.close()
            world.stop()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of what is stored")
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="in which thirty minutes of updates are made"
    )
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print_table("the console in Chromium", measure(given.scale, given.minutes, given.rounds))


if __name__ == "__main__":
    main()
