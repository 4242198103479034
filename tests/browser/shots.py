"""Pictures of every view of the console, light and dark, wide and narrow, in console-shots/.

They are for looking at: the best of them are in docs/. A world of a small shop is made for them.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from tests.browser.browser import launch, narrow, watched
from tests.browser.scenes import VIEWS, scenes
from tests.browser.world import World, world

SIZES = {"wide": (1360, 820), "narrow": narrow}
MORE = {"takeover": ("executions/order-17", "book_courier")}
settle_ms = 700


def liven(shop: World) -> None:
    """More than one of each, so that lists and charts have something to show."""
    for number in range(40):
        card = "bad-card" if number % 9 == 4 else "good"
        shop.start_execution(
            "checkout",
            str(number),
            card,
            number * 10,
            id=f"order-{number + 100}",
            tags={"customer": str(number % 5)},
        )
    for number in range(6):
        shop.start_execution("confirm", "Ship it?", id=f"confirm-{number}")
        shop.post("tasks", {"task": "send_mail", "queue": "mail", "args": [f"customer-{number}"]})
    shop.until("order-139", "completed", "failed")
    shop.until("confirm-5", "suspended")


def takeover(shop: World, worker: subprocess.Popen[bytes]) -> None:
    """An order that outlives its worker."""
    marker = shop.directory / "crunched"
    shop.start_execution("fulfil", "17", marker.name, id="order-17", tags={"customer": "2"})
    rows = "executions/order-17/timeline"
    shop.until_true(lambda: any(row["name"] == "crunch" for row in shop.get(rows)["rows"]))
    shop.kill_worker(worker)
    shop.start_worker()
    marker.touch()
    shop.until("order-17", "completed")


def take(folder: Path, only: list[str]) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    with (
        tempfile.TemporaryDirectory() as directory,
        world(Path(directory), f"sqlite:///{directory}/shop.db", workers=0) as shop,
        sync_playwright() as playwright,
    ):
        worker = shop.start_worker(lease_s=3.0)
        filled = scenes(shop)
        liven(shop)
        takeover(shop, worker)
        browser = launch(playwright)
        for scheme in schemes:
            for name, size in SIZES.items():
                with watched(browser, shop.console, scheme=scheme, size=size) as look:
                    for view in only or (*VIEWS, *MORE):
                        place, says = MORE.get(view) or (filled.place(view), filled.says(view))
                        page = look.open(place)
                        page.get_by_text(says).first.wait_for()
                        page.wait_for_timeout(settle_ms)
                        page.screenshot(path=folder / f"{view}-{scheme}-{name}.png")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("console-shots"))
    parser.add_argument("views", nargs="*", help="only these")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    take(given.folder, given.views)
    print(f"The pictures are in {given.folder}/.")


if __name__ == "__main__":
    main()
