"""What an execution waits for and since when, as its page, the lists and the timeline say it."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.browser import Watched, narrow, watched
from tests.browser.world import World


def test_a_timer_says_when_it_is_due(shop: World, look: Watched) -> None:
    shop.start_execution("nap", 7_200, id="nap-due")
    shop.until("nap-due", "suspended")
    panel = look.open("executions/nap-due").get_by_role("region", name="Waiting for")
    expect(panel).to_contain_text(re.compile(r"a timer .*, due in 1 h 5\d min \("))
    expect(panel).to_contain_text(re.compile(r"since .*shop\.py:\d+, in nap"))


def test_a_step_that_rests_says_how_often_it_failed_and_when_it_is_tried_again(
    shop: World, look: Watched
) -> None:
    shop.start_execution("restock", "tea", id="restock-1")
    shop.until("restock-1", "suspended")
    page = look.open("executions/restock-1")
    panel = page.get_by_role("region", name="Waiting for")
    expect(panel).to_contain_text("the next try of a step ask_supplier")
    expect(panel).to_contain_text("due in 29 min")
    expect(panel).to_contain_text("tried once; the last error: ConnectionError: the supplier of tea")
    row = page.locator('.tl-row[data-id="restock-1:2"]')
    expect(row.locator(".tl-attempt")).to_have_count(1)
    expect(row.locator(".tl-bar.kind-wait")).to_have_count(1)
    page.locator('[data-tab="steps"]').click()
    expect(page.get_by_role("row").filter(has_text="ask_supplier")).to_contain_text("next try")
    listed = look.open("executions?prefix=restock-1")
    expect(listed.locator(".rows")).to_contain_text("next try of ask_supplier: ConnectionError")


def test_a_failed_step_shows_each_of_its_attempts(shop: World, look: Watched) -> None:
    shop.start_execution("checkout", "1", "bad-card", 5, id="tried-thrice")
    shop.until("tried-thrice", "failed")
    page = look.open("executions/tried-thrice")
    row = page.locator('.tl-row[data-id="tried-thrice:2"]')
    expect(row.locator(".tl-attempt")).to_have_count(2)
    row.get_by_role("button", name="charge").click()
    expect(page.get_by_role("list", name="Attempts that failed").get_by_role("listitem")).to_have_count(2)
    page.locator('[data-tab="log"]').click()
    expect(page.get_by_role("row").filter(has_text=re.compile(r"attempt \d failed"))).to_have_count(2)


def test_a_lock_says_who_holds_it(shop: World, look: Watched) -> None:
    for number in (1, 2):
        shop.start_execution("print_label", str(number), id=f"label-{number}")
        shop.until(f"label-{number}", "suspended")
    page = look.open("executions/label-2")
    panel = page.get_by_role("region", name="Waiting for")
    expect(panel).to_contain_text(re.compile(r"a lock printer-3 .*held by .* since", re.DOTALL))
    panel.locator('a[href="#/executions/label-1"]').or_(panel.locator("a", has_text="label")).first.click()
    for number in (1, 2):
        shop.post(f"executions/label-{number}/cancel", {"now": True})


def test_a_running_one_names_the_step_that_runs_and_how_far_it_is(shop: World, look: Watched) -> None:
    marker = shop.directory / "imported"
    shop.start_execution("catalogue", str(marker), id="catalogue-1")
    page = look.open("executions/catalogue-1")
    panel = page.get_by_role("region", name="Running", exact=True)
    expect(panel).to_contain_text(re.compile(r"the step import_rows since"))
    expect(page.get_by_role("progressbar", name="Progress of import_rows")).to_be_visible()
    marker.touch()
    expect(page.locator("main .head .chip")).to_have_text("completed")
    expect(panel).to_have_count(0)


def test_a_long_list_is_as_wide_as_a_narrow_screen(shop: World, browser: Browser) -> None:
    for number in range(60):
        shop.start_execution("echo", number, id=f"narrow-{number}")
    shop.until("narrow-59", "completed")
    with watched(browser, shop.console, size=narrow) as look:
        page = look.open("executions?prefix=narrow-")
        page.locator(".rows tbody .spacer").wait_for(state="attached")
        table, head = page.locator(".rows").bounding_box(), page.locator(".rows thead th:visible").last
        assert table is not None
        last = head.bounding_box()
        assert last is not None
        assert abs(last["x"] + last["width"] - table["x"] - table["width"]) < 2
