"""Every action of the console, on real executions, on both stores."""

import re

from playwright.sync_api import Page, expect

from tests.browser.browser import Watched, patience_ms
from tests.browser.world import World


def confirm(page: Page, action: str) -> None:
    """The dialog says what it is about to do; go on."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=re.compile(f"^{re.escape(action)}")).last.click()
    expect(dialog).to_have_count(0)


def press(page: Page, word: str) -> None:
    """A button of the page that opens a dialog."""
    page.locator("main").get_by_role("button", name=f"{word}\u2026", exact=True).first.click()


def do(page: Page, word: str, action: str | None = None) -> None:
    """Press a button, and go on in its dialog."""
    press(page, word)
    confirm(page, action or word)


def expect_status(page: Page, status: str) -> None:
    expect(page.locator("main .head .chip").first).to_have_text(status)


def open_suspended(shop: World, look: Watched, workflow: str, *args: object, id: str, tab: str = "") -> Page:  # noqa: A002
    """The page of an execution that was started just now, and waits."""
    shop.start_execution(workflow, *args, id=id)
    shop.until(id, "suspended")
    return look.open(f"executions/{id}{tab}")


def test_an_approval_given_by_the_form_ends_a_waiting_workflow(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "refund", "17", id="refund-form")
    waiting = page.locator(".waiting")
    expect(waiting).to_contain_text("refund-form:approval")
    expect(waiting).to_contain_text("shop.py:")
    press(page, "Settle")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("yes").check()
    dialog.get_by_label("amount", exact=True).fill("twelve")
    dialog.get_by_role("button", name="Settle").click()
    expect(dialog.get_by_role("alert")).to_contain_text("whole number")  # and nothing was sent
    dialog.get_by_label("amount", exact=True).fill("12")
    dialog.get_by_role("checkbox", name="reason").check()
    dialog.get_by_role("combobox", name="reason").select_option(label="damaged")
    confirm(page, "Settle")
    expect_status(page, "completed")
    assert shop.get("executions/refund-form")["result"] == "receipt for -12 on good"


def test_yes_or_no_is_a_choice(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "confirm", "sure?", id="confirm-form")
    press(page, "Settle")
    page.get_by_role("dialog").get_by_label("no", exact=True).check()
    confirm(page, "Settle")
    expect_status(page, "completed")
    assert shop.get("executions/confirm-form")["result"] is False


def test_a_rejected_promise_fails_the_workflow_that_awaits_it(shop: World, look: Watched) -> None:
    shop.start_execution("confirm", "sure?", id="confirm-rejected")
    shop.until("confirm-rejected", "suspended")
    page = look.open("promises/confirm-rejected%3Aanswer")
    press(page, "Reject")
    page.get_by_role("dialog").get_by_label("Error message").fill("nobody answers")
    confirm(page, "Reject it")
    shop.until("confirm-rejected", "failed")
    look.open("executions/confirm-rejected")
    expect(page.locator("main")).to_contain_text("nobody answers")


def test_a_promise_that_is_part_of_nothing_is_found_and_settled_by_hand(shop: World, look: Watched) -> None:
    shop.create_promise("by-hand", {"kind": "approval"})
    page = look.open("promises?tag=kind%3Aapproval")
    page.get_by_role("link", name="by-hand").click()
    press(page, "Settle")
    page.get_by_role("dialog").get_by_role("textbox").fill('{"ok": 1}')
    confirm(page, "Settle")
    expect_status(page, "resolved")
    assert shop.get("promises/by-hand")["value"] == {"ok": 1}


def test_a_failed_one_is_forked_before_the_failing_step_with_edited_input_and_succeeds(
    shop: World, look: Watched
) -> None:
    shop.start_execution("checkout", "18", "bad-card", 5, id="order-fork")
    shop.until("order-fork", "failed")
    page = look.open("executions/order-fork")
    expect(page.locator("main")).to_contain_text("the card bad-card was declined")
    page.locator(".tl-row", has_text="charge").get_by_role("button", name="charge").click()
    press(page, "Fork before this")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Id of the new execution").fill("order-fork-2")
    dialog.get_by_role("checkbox", name="with another input").check()
    expect(dialog.get_by_label("order", exact=True)).to_have_value("18")
    dialog.get_by_label("card", exact=True).fill("good-card")
    confirm(page, "Fork")
    expect(page).to_have_url(re.compile("#/executions/order-fork-2"))
    expect_status(page, "completed")
    assert shop.get("executions/order-fork-2")["result"] == "receipt for 5 on good-card"
    assert shop.status("order-fork") == "failed"


def test_a_fork_begins_before_the_step_that_failed_and_its_command_is_of_what_is_filled_in(
    shop: World, look: Watched
) -> None:
    shop.start_execution("checkout", "19", "bad-card", 5, id="order-proposed")
    shop.until("order-proposed", "failed")
    page = look.open("executions/order-proposed")
    expect(page.locator(".tl-row", has_text="charge")).to_be_visible()
    press(page, "Fork")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Before the step")).to_have_value("charge")
    dialog.get_by_text("The same for a shell").click()
    expect(dialog.locator("pre")).to_contain_text('"before":"order-proposed:2"')
    dialog.get_by_label("Before the step").fill("pack")
    dialog.get_by_label("Id of the new execution").fill("order-proposed-2")
    expect(dialog.locator("pre")).to_contain_text('{"id":"order-proposed-2","before":"pack"}')


def test_a_failed_one_is_retried_from_the_failure(shop: World, look: Watched) -> None:
    marker = shop.directory / "card-is-fine"
    shop.start_execution("picky", str(marker), id="order-retry")
    shop.until("order-retry", "failed")
    page = look.open("executions/order-retry")
    marker.touch()
    do(page, "Retry")
    expect_status(page, "completed")


def test_an_execution_is_halted_and_resumed(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "confirm", "?", id="halt-me")
    press(page, "Halt")
    page.get_by_role("dialog").get_by_label("Reason").fill("wait for the fix")
    confirm(page, "Halt it")
    expect_status(page, "halted")
    expect(page.locator("main")).to_contain_text("wait for the fix")
    do(page, "Resume")
    expect_status(page, "suspended")


def test_an_execution_is_cancelled(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "nap", 86_400, id="cancel-me")
    press(page, "Cancel")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cancel-me")
    dialog.get_by_text("The same for a shell").click()
    expect(dialog.locator("pre")).to_contain_text("/v1/executions/cancel-me/cancel")
    confirm(page, "Cancel it")
    expect_status(page, "cancelled")


def test_an_execution_is_ended_at_once(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "nap", 86_400, id="end-me")
    do(page, "End now", "End it now")
    expect_status(page, "cancelled")


def test_a_dialog_that_is_left_changes_nothing(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "nap", 86_400, id="leave-me")
    press(page, "Cancel")
    page.get_by_role("button", name="Leave it as it is").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert shop.status("leave-me") == "suspended"


def test_a_message_is_told_in_a_form_of_the_type_of_the_mailbox(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "basket", id="basket-form", tab="?tab=messages")
    press(page, "Tell")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("name", exact=True).fill("tea")
    dialog.get_by_label("price", exact=True).fill("cheap")
    dialog.get_by_role("button", name="Tell").click()
    expect(dialog.get_by_role("alert")).to_contain_text("whole number")
    dialog.get_by_label("price", exact=True).fill("3")
    confirm(page, "Tell")
    expect(page.locator(".tabpanel")).to_contain_text('{"name":"tea","price":3}')


def test_it_is_told_and_asked(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "basket", id="basket-talk", tab="?tab=messages")
    expect(page.locator(".tabpanel")).to_contain_text("It has no messages")
    for number, name in enumerate(("tea", "milk"), 1):
        press(page, "Tell")
        write_json(page, f'{{"name": "{name}", "price": {number}}}')
        confirm(page, "Tell")
    expect(page.locator(".tabpanel")).to_contain_text("milk")
    press(page, "Ask")
    write_json(page, '{"name": "salt", "price": 1}')
    confirm(page, "Ask")
    answer = page.locator("#toasts .json")
    expect(answer).to_have_text("3")
    assert (answer.bounding_box() or {})["width"] > 200, "there is room for it"
    expect_status(page, "completed")
    expect(page.locator(".board")).to_contain_text("size")


def write_json(page: Page, text: str) -> None:
    dialog = page.get_by_role("dialog")
    if dialog.get_by_role("button", name="Write it as JSON").count():
        dialog.get_by_role("button", name="Write it as JSON").click()
    dialog.get_by_label("Message (JSON)").fill(text)


def test_the_history_is_a_file(shop: World, look: Watched) -> None:
    shop.start_execution("checkout", "20", "good", id="order-history")
    shop.until("order-history", "completed")
    page = look.open("executions/order-history?tab=raw")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the history").click()
    text = download.value.path().read_text("utf-8")
    assert '"holdfast-history-1"' in text
    assert "order-history:1" in text


def test_a_thousand_are_cancelled_in_bulk(shop: World, look: Watched) -> None:
    total = 1_000
    for number in range(total):
        shop.start_execution("nap", 86_400, id=f"bulk-{number:04}")
    shop.until_true(lambda: counted(shop, "bulk-")["suspended"] == total)
    page = look.open("executions?prefix=bulk-&status=suspended")
    page.get_by_role("checkbox", name="Select all rows").check()
    page.get_by_role("checkbox", name="all that match the filters").check()
    page.locator('[data-action="cancel"]').click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1,000 executions")
    confirm(page, "Cancel 1,000 executions")
    # The node gives way to others while it does this: it takes as long as they keep it busy.
    expect(page.locator("main")).to_contain_text("1,000 of 1,000 cancelled", timeout=4 * patience_ms)
    shop.until_true(lambda: counted(shop, "bulk-")["cancelled"] == total)


def counted(shop: World, prefix: str) -> dict[str, int]:
    found: dict[str, int] = shop.get("counts", prefix=prefix)["executions"]["counts"]
    return found


def test_those_that_are_ticked_are_halted_and_resumed(shop: World, look: Watched) -> None:
    for number in range(3):
        shop.start_execution("confirm", "?", id=f"some-{number}")
    shop.until_true(lambda: counted(shop, "some-")["suspended"] == 3)
    page = look.open("executions?prefix=some-")
    for number in range(2):
        page.get_by_role("checkbox", name=f"Select some-{number}").check()
    page.locator('[data-action="halt"]').click()
    confirm(page, "Halt 2 executions")
    shop.until_true(lambda: counted(shop, "some-")["halted"] == 2)
    expect(page.locator(".rows .chip", has_text="halted")).to_have_count(2)
    for number in range(2):
        page.get_by_role("checkbox", name=f"Select some-{number}").check()
    page.locator('[data-action="resume"]').click()
    confirm(page, "Resume 2 executions")
    shop.until_true(lambda: counted(shop, "some-")["halted"] == 0)


def test_a_workflow_is_started_by_a_form_made_from_its_signature(shop: World, look: Watched) -> None:
    page = look.open("start")
    expect(page.locator(".choice-row", has_text="delegate")).to_be_visible()
    expect(page.locator(".choice-row", has_text="Account")).to_have_count(
        0
    )  # an entity is called, not started
    page.get_by_label("Find a workflow or task").fill("checkout")
    page.locator(".choice-row", has_text="checkout").first.click()
    page.get_by_label("order", exact=True).fill("42")
    page.get_by_label("card", exact=True).fill("good")
    page.get_by_role("checkbox", name="cents").check()
    page.get_by_role("textbox", name="cents").fill("77")
    page.get_by_text("Options").click()
    page.get_by_label("Id", exact=True).fill("started-42")
    page.get_by_label("Tags").fill("customer:4, region:eu")
    do(page, "Start it")
    expect(page).to_have_url(re.compile("#/executions/started-42"))
    expect_status(page, "completed")
    found = shop.get("executions/started-42")
    assert found["result"] == "receipt for 77 on good"
    assert found["tags"]["customer"] == "4"


def test_a_task_is_sent_by_a_form(shop: World, look: Watched) -> None:
    page = look.open("start?name=send_mail")
    page.get_by_label("to", exact=True).fill("ada")
    do(page, "Send it")
    expect(page).to_have_url(re.compile("#/tasks/"))
    expect_status(page, "completed")
    expect(page.locator("main")).to_contain_text("sent Hello to ada")


def test_a_failed_task_shows_its_attempts_and_is_sent_again(shop: World, look: Watched) -> None:
    task = shop.post("tasks", {"task": "report", "queue": "reports", "args": ["q3", True]})["id"]
    shop.until_true(lambda: shop.get(f"tasks/{task}")["status"] == "failed")
    page = look.open(f"tasks/{task}")
    expect(page.get_by_role("region", name="Error")).to_contain_text("RuntimeError: no data for q3")
    expect(page.get_by_role("region", name="Error").locator("pre")).to_contain_text("in report")
    expect(page.get_by_role("table", name="Attempts")).to_contain_text("no data for q3")
    do(page, "Rerun")
    expect(page).not_to_have_url(re.compile(re.escape(task)))
    expect(page.locator("main .head h1")).to_contain_text("report")


def test_a_delayed_task_is_run_now_and_another_is_cancelled(shop: World, look: Watched) -> None:
    wanted = {"task": "send_mail", "queue": "mail", "args": ["eve"], "delay": 86_400}
    first, second = (shop.post("tasks", wanted)["id"] for _ in range(2))
    page = look.open(f"tasks/{first}")
    expect_status(page, "waiting")
    do(page, "Run now", "Run it now")
    expect_status(page, "completed")
    look.open(f"tasks/{second}")
    do(page, "Cancel", "Cancel it")
    expect_status(page, "cancelled")


def test_a_queue_is_paused_resumed_and_its_limits_changed(shop: World, look: Watched) -> None:
    page = look.open("queues/mail")
    do(page, "Pause")
    expect_status(page, "paused")
    task = shop.post("tasks", {"task": "send_mail", "queue": "mail", "args": ["bob"]})["id"]
    do(page, "Resume")
    expect_status(page, "active")
    shop.until_true(lambda: shop.get(f"tasks/{task}")["status"] == "completed")
    press(page, "Change limits")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At a time", exact=True).fill("7")
    dialog.get_by_label("How many are started").first.fill("100")
    dialog.get_by_label("In seconds").first.fill("60")
    confirm(page, "Set these limits")
    expect(page.locator("main")).to_contain_text("of 7")
    expect(page.locator("main")).to_contain_text("100 in 1 min")
    assert shop.get("queues/mail")["rate"] == {"count": 100, "perMs": 60_000}


def test_a_schedule_is_created_paused_triggered_edited_and_deleted(shop: World, look: Watched) -> None:
    page = look.open("schedules")
    press(page, "Create one")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Id", exact=True).fill("daily-checkout")
    dialog.get_by_label("Workflow").fill("checkout")
    dialog.get_by_label("Cron").fill("30 9 * * 1-5")
    expect(dialog).to_contain_text("at 09:30, on weekdays")
    dialog.get_by_label("Time zone").fill("Europe/Berlin")
    dialog.get_by_label("Arguments (JSON)").fill('{"args": ["daily", "good"], "kwargs": {}}')
    confirm(page, "Create it")
    expect(page).to_have_url(re.compile("#/schedules/daily-checkout"))
    expect(page.locator("main ol").first.locator("li")).to_have_count(5)
    do(page, "Pause")
    expect_status(page, "paused")
    do(page, "Resume")
    expect_status(page, "active")
    press(page, "Edit")
    page.get_by_role("dialog").get_by_label("Cron").fill("0 10 * * *")
    confirm(page, "Change it")
    expect(page.locator("main")).to_contain_text("at 10:00")
    do(page, "Trigger", "Run it now")
    expect(page).to_have_url(re.compile("#/executions/daily-checkout"))
    expect_status(page, "completed")
    look.open("schedules/daily-checkout")
    do(page, "Backfill")
    expect(page.locator("main")).to_contain_text("daily-checkout-")
    do(page, "Delete", "Delete it")
    expect(page).to_have_url(re.compile("#/schedules$"))
    expect(page.locator(".rows")).not_to_contain_text("daily-checkout")


def test_a_worker_is_drained_and_taken_back(shop: World, look: Watched) -> None:
    page = look.open("workers")
    card = page.locator(".cards > li").first
    card.get_by_role("button", name="Drain").click()
    confirm(page, "Drain it")
    expect(card.locator(".chip").first).to_have_text(re.compile("drain(ing|ed)"))
    card.get_by_role("button", name="Take it back").click()
    confirm(page, "Take it back")
    expect(card.locator(".chip").first).to_have_text("running")


def test_each_change_is_in_the_audit_log(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "nap", 86_400, id="audited")
    do(page, "End now", "End it now")
    expect_status(page, "cancelled")
    look.open("audit")
    entry = page.locator(".rows tbody tr", has_text="audited").first
    expect(entry).to_contain_text("done")
    entry.get_by_role("link", name="audited").click()
    expect(page).to_have_url(re.compile("#/executions/audited"))


def test_a_refusal_is_shown_in_the_dialog_with_what_to_do(shop: World, look: Watched) -> None:
    look.expect_wrong(r"status of 4\d\d")
    shop.start_execution("confirm", "?", id="late")
    shop.until("late", "suspended")
    page = look.open("promises/late%3Aanswer")
    press(page, "Settle")
    shop.post("promises/late:answer/resolve", {"value": True})
    dialog = page.get_by_role("dialog")
    if dialog.get_by_label("no", exact=True).count():
        dialog.get_by_label("no", exact=True).check()
    else:
        dialog.get_by_label("Value (JSON)").fill("false")
    dialog.get_by_role("button", name="Settle").click()
    expect(dialog.get_by_role("alert")).to_contain_text("HF3404")
