"""Changing many at once: what is refused stops nothing else, and what is said beforehand is what is done."""

import re

from playwright.sync_api import Page, expect

from tests.browser.browser import Watched
from tests.browser.test_actions import confirm
from tests.browser.world import World


def choose_all(page: Page) -> None:
    page.get_by_role("checkbox", name="Select all rows").check()
    page.get_by_role("checkbox", name="all that match the filters").check()


def test_one_that_is_refused_does_not_stop_the_others(shop: World, look: Watched) -> None:
    look.expect_wrong("409")
    shop.start_execution("confirm", "?", id="mixed-1")
    shop.until("mixed-1", "suspended")
    shop.start_execution("echo", 1, id="mixed-2")
    shop.until("mixed-2", "completed")
    page = look.open("executions?prefix=mixed-")
    for number in (2, 1):
        page.get_by_role("checkbox", name=f"Select mixed-{number}").check()
    page.locator('[data-action="halt"]').click()
    confirm(page, "Halt 2 executions")
    done = page.locator("main .bulk.is-over")
    expect(done).to_contain_text("1 of 2 halted, 1 could not be. The first said:")
    assert shop.status("mixed-1") == "halted"
    done.get_by_role("button", name="Close").click()
    expect(done).to_have_count(0)


def test_the_number_beforehand_is_of_those_that_can_be_changed(shop: World, look: Watched) -> None:
    shop.start_execution("confirm", "?", id="count-open")
    shop.until("count-open", "suspended")
    for number in range(3):
        shop.start_execution("echo", number, id=f"count-{number}")
        shop.until(f"count-{number}", "completed")
    page = look.open("executions?prefix=count-")
    choose_all(page)
    page.locator('[data-action="cancel"]').click()
    confirm(page, "Cancel 1 execution")
    shop.until("count-open", "cancelled")


def test_all_tasks_that_match_are_sent_again(shop: World, look: Watched) -> None:
    for number in range(3):
        shop.post(
            "tasks",
            {"task": "report", "queue": "reports", "args": [f"all-{number}", True], "id": f"all-{number}"},
        )
    shop.until_true(
        lambda: shop.get("counts", prefix="all-", status="failed")["tasks"]["counts"]["failed"] == 3
    )
    page = look.open("tasks?prefix=all-")
    choose_all(page)
    page.locator('[data-action="rerun"]').click()
    confirm(page, "Rerun 3 tasks")
    expect(page.locator("main")).to_contain_text("3 of 3 sent again")
    shop.until_true(
        lambda: shop.get("counts", prefix="all-", status="failed")["tasks"]["counts"]["failed"] == 6
    )


def test_all_tasks_that_match_are_run_now(shop: World, look: Watched) -> None:
    for number in range(3):
        shop.post(
            "tasks",
            {"task": "send_mail", "queue": "mail", "args": ["ada"], "delay": 3_600, "id": f"later-{number}"},
        )
    page = look.open("tasks?prefix=later-")
    choose_all(page)
    page.locator('[data-action="promote"]').click()
    confirm(page, "Run now 3 tasks")
    expect(page.locator("main .bulk.is-over")).to_contain_text("3 of 3 promoted.")
    shop.until_true(
        lambda: shop.get("counts", prefix="later-", status="completed")["tasks"]["counts"]["completed"] == 3
    )


def test_all_that_failed_are_retried_when_the_cause_is_gone(shop: World, look: Watched) -> None:
    marker = shop.directory / "bank-is-back"
    for number in range(3):
        shop.start_execution("picky", str(marker), id=f"again-{number}")
        shop.until(f"again-{number}", "failed")
    marker.touch()
    page = look.open("executions?prefix=again-&status=failed")
    choose_all(page)
    page.locator('[data-action="retry"]').click()
    confirm(page, "Retry 3 executions")
    for number in range(3):
        shop.until(f"again-{number}", "completed")


def test_all_tasks_that_wait_are_cancelled(shop: World, look: Watched) -> None:
    for number in range(3):
        shop.post(
            "tasks",
            {"task": "send_mail", "queue": "mail", "args": ["ada"], "delay": 3_600, "id": f"never-{number}"},
        )
    page = look.open("tasks?prefix=never-")
    choose_all(page)
    page.locator('[data-action="cancel"]').click()
    confirm(page, "Cancel 3 tasks")
    shop.until_true(
        lambda: shop.get("counts", prefix="never-", status="cancelled")["tasks"]["counts"]["cancelled"] == 3
    )


def test_all_runs_of_a_long_stretch_of_the_past_are_made(shop: World, look: Watched) -> None:
    """The server makes a hundred in one call; the page goes on."""
    shop.post(
        "schedules", {"id": "minutely", "cron": "* * * * *", "workflow": "echo", "args": [1], "catchUp": 0}
    )
    shop.post("schedules/minutely/pause")
    page = look.open("schedules/minutely")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2026-01-05T00:00")
    dialog.get_by_label("Until").fill("2026-01-05T02:30")
    confirm(page, "Backfill")
    expect(page.locator("#toasts")).to_contain_text(re.compile(r"Started 15[01] runs\."))
    shop.ask("DELETE", "schedules/minutely")


def test_a_queue_shows_its_keys_and_its_weights_are_changed(shop: World, look: Watched) -> None:
    shop.ask("PUT", "queues/post", {"keyConcurrency": 2, "rate": {"count": 50, "perMs": 3_600_000}})
    for key in ("ada", "ada", "bob"):
        shop.post(
            "tasks", {"task": "send_mail", "queue": "post", "args": ["x"], "limitKey": key, "check": False}
        )
    page = look.open("queues/post")
    keys = page.get_by_role("table", name="By key")
    expect(keys.get_by_role("row").filter(has_text="ada")).to_contain_text(re.compile(r"ada\s*2.*0 of 2"))
    expect(page.get_by_role("region", name="Limits")).to_contain_text("0 of 50 in 1 h")
    page.get_by_role("button", name="Change limits").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Weights").fill("ada:3")
    dialog.get_by_role("button", name="Set these limits").click()
    expect(dialog).to_contain_text("only a fair queue has them")
    dialog.get_by_label("fair: keys take turns").check()
    confirm(page, "Set these limits")
    expect(keys.get_by_role("row").filter(has_text="ada")).to_contain_text(re.compile(r"3$"))
    assert shop.get("queues/post")["weights"] == {"ada": 3}
    listed = look.open("queues?prefix=post")
    expect(listed.locator(".rows tbody tr").first).to_contain_text("ago")
