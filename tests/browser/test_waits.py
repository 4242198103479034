"""What an execution waits for and since when, as its page, the lists and the timeline say it."""

import re

from playwright.sync_api import Browser, Locator, expect

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
    expect(panel).to_contain_text(re.compile("due in 2\\d min"))
    expect(panel).to_contain_text("tried once; the last error: ConnectionError: the supplier of tea")
    row = page.locator('.tl-row[data-id="restock-1:2"]')
    expect(row.locator(".tl-attempt")).to_have_count(1)
    expect(row.locator(".tl-bar.kind-wait")).to_have_count(1)
    page.locator('[data-tab="steps"]').click()
    expect(page.get_by_role("row").filter(has_text="ask_supplier")).to_contain_text("next try")
    listed = look.open("executions?prefix=restock-1")
    expect(listed.locator(".rows")).to_contain_text("next try of ask_supplier: ConnectionError")


def waiting_for(look: Watched, place: str) -> Locator:
    return look.open(place).get_by_role("region", name="Waiting for")


def test_one_that_no_worker_serves_says_so_and_what_to_do(shop: World, look: Watched) -> None:
    shop.start_execution("echo", 1, id="untaken-1", group="nobody")
    panel = waiting_for(look, "executions/untaken-1")
    expect(panel).to_contain_text("a worker")
    expect(panel).to_contain_text("No worker serves the group nobody now.")
    expect(panel).to_contain_text('Start one: holdfast worker module:app, with App(group="nobody").')
    expect(panel).to_contain_text(re.compile(r"since .*\("))
    listed = look.open("executions?prefix=untaken-1")
    expect(listed.locator(".rows")).to_contain_text("worker of group nobody")


def test_one_in_a_paused_queue_says_so_and_goes_on_when_it_is_resumed(shop: World, look: Watched) -> None:
    shop.post("queues/reports/pause")
    shop.start_execution("echo", 1, id="untaken-2", queue="reports")
    panel = waiting_for(look, "executions/untaken-2")
    expect(panel).to_contain_text("its queue to be resumed")
    panel.get_by_role("link", name="queue reports").click()
    look.page.get_by_role("button", name="Resume").click()
    look.page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    shop.until("untaken-2", "completed")


def test_one_without_a_place_in_its_queue_says_which_limit_is_used_up(shop: World, look: Watched) -> None:
    shop.ask("PUT", "queues/reports", {"keyConcurrency": 1})
    place = {"queue": "reports", "limitKey": "ada"}
    shop.start_execution("confirm", "?", id="place-1", **place)
    shop.until("place-1", "suspended")
    shop.start_execution("echo", 2, id="place-2", **place)
    panel = waiting_for(look, "executions/place-2")
    expect(panel).to_contain_text("a free place in its queue")
    expect(panel).to_contain_text("1 of 1 at a time, of the key ada, in the queue reports.")
    shop.post("promises/place-1:answer/resolve", {"value": True})
    expect(look.page.locator("main .head .chip").first).to_have_text("completed")
    shop.ask("PUT", "queues/reports", {})


def test_one_that_called_another_says_what_that_one_waits_for_and_it_is_settled_there(
    shop: World, look: Watched
) -> None:
    shop.start_execution("delegate", "sure?", id="delegate-1")
    shop.until("delegate-1", "suspended")
    panel = waiting_for(look, "executions/delegate-1")
    expect(panel).to_contain_text("an execution that it called confirm")
    inner = panel.get_by_role("list", name="What that one waits for")
    expect(inner).to_contain_text(
        re.compile(r"a promise that somebody settles answer.*in confirm", re.DOTALL)
    )
    inner.get_by_role("button", name="Settle").click()
    dialog = look.page.get_by_role("dialog")
    dialog.get_by_label("yes").check()
    dialog.get_by_role("button", name="Settle").click()
    expect(look.page.locator("main .head .chip").first).to_have_text("completed")


def test_one_that_waits_for_a_message_is_sent_one_from_there(shop: World, look: Watched) -> None:
    shop.start_execution("basket", id="basket-wait")
    shop.until("basket-wait", "suspended")
    panel = waiting_for(look, "executions/basket-wait")
    panel.get_by_role("button", name="Send it one").click()
    dialog = look.page.get_by_role("dialog")
    dialog.get_by_label("name", exact=True).fill("tea")
    dialog.get_by_label("price", exact=True).fill("3")
    dialog.get_by_role("button", name="Tell").click()
    expect(look.page.get_by_role("table", name="Published values")).to_contain_text("1")


def test_one_that_its_workers_cannot_run_says_why(shop: World, look: Watched) -> None:
    shop.start_execution("never_written", id="unknown-1", check=False)
    shop.until_true(lambda: shop.get("executions/unknown-1").get("crashes", 0) >= 2)
    panel = waiting_for(look, "executions/unknown-1")
    expect(panel).to_contain_text("Workflow 'never_written' is not registered here (known: ")
    expect(look.open("overview").get_by_role("region", name="Needs attention")).to_contain_text("cannot run")
    shop.post("executions/unknown-1/cancel", {"now": True})


def test_a_list_says_what_each_failed_with(shop: World, look: Watched) -> None:
    shop.start_execution("checkout", "1", "bad-card", 5, id="listed-1")
    shop.until("listed-1", "failed")
    listed = look.open("executions?prefix=listed-1")
    expect(listed.locator(".rows")).to_contain_text("ValueError: the card bad-card was declined")


def test_a_task_that_is_tried_again_says_what_its_last_attempt_said(shop: World, look: Watched) -> None:
    again = {"retries": 2, "delays": [3_600_000]}
    broken = {"task": "report", "queue": "reports", "args": ["q4", True], "retry": again, "id": "tried-1"}
    shop.post("tasks", broken)
    shop.until_true(lambda: shop.get("tasks/tried-1")["status"] == "waiting")
    panel = waiting_for(look, "tasks/tried-1")
    expect(panel).to_contain_text(re.compile(r"the next attempt, due in 5\d min .*no data for q4"))
    expect(look.page.get_by_role("table", name="Attempts")).to_contain_text("no data for q4")
    look.page.get_by_text("Traceback of attempt 1").click()
    expect(look.page.locator("pre", has_text="RuntimeError: no data for q4")).to_be_visible()


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
