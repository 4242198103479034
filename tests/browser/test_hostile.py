"""What users wrote is text in every view: markup, control characters, turned writing, a megabyte."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.browser import Watched
from tests.browser.world import World

SCRIPT = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>'
TURNED = "abc\u202edcba\u202c"
CONTROL = "bell\u0007 escape\u001b[31m null-like\u0001"
LONG = "x" * 780_000  # a megabyte, as it is stored

TEXTS = {
    "markup": SCRIPT,
    "turned": TURNED,
    "control": CONTROL,
    "link": "javascript:alert(1)",
    "template": "{{7*7}}${7*7}",
}


@pytest.fixture(scope="module")
def hostile(shop: World) -> list[str]:
    """Executions whose ids, tags, input, result and error are all hostile."""
    ids: list[str] = []
    for name, text in TEXTS.items():
        plain = "".join(each for each in text if each >= " ")
        done = shop.start_execution(
            "echo",
            {"say": text, text: [text]},
            id=f"hostile-{name}-{plain}"[:200],
            tags={"evil": plain, plain[:60]: "1"},
        )
        failed = shop.start_execution("fail_with", text, id=f"hostile-failed-{name}")
        shop.until(done, "completed")
        shop.until(failed, "failed")
        ids += [done, failed]
    return ids


def check(look: Watched) -> None:
    page = look.page
    assert page.evaluate("window.owned") is None
    assert "\u202e" not in page.title()
    assert page.locator("main img, main script, main iframe").count() == 0
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "\u0007" not in text
    assert page.locator('a[href^="javascript:"]').count() == 0


def test_lists_show_hostile_ids_tags_and_errors_as_text(
    shop: World, hostile: list[str], look: Watched
) -> None:
    page = look.open("executions?prefix=hostile-")
    expect(page.locator(".rows tbody")).to_contain_text("<img src=x onerror=")
    check(look)
    look.open("promises?prefix=hostile-")
    expect(page.locator(".rows tbody")).to_contain_text("<img src=x onerror=")
    check(look)
    look.open("overview")
    expect(page.locator("main")).to_contain_text("Started and ended")
    check(look)


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True, scope="session")
@pytest.mark.parametrize("tab", ["timeline", "steps", "tree", "messages", "streams", "log", "raw"])
def test_every_tab_shows_a_hostile_execution_as_text(
    shop: World, hostile: list[str], look: Watched, tab: str
) -> None:
    for each in hostile:
        page = look.open(f"executions/{quote(each, safe='')}?tab={tab}")
        expect(page.locator("main h1")).to_contain_text("hostile-")
        expect(page.locator(".tabpanel")).not_to_be_empty()
        check(look)


def test_control_characters_and_turns_of_direction_are_made_visible(
    shop: World, hostile: list[str], look: Watched
) -> None:
    page = look.open("executions/hostile-failed-turned")
    expect(page.locator("main")).to_contain_text("abc\u27e8U+202E\u27e9dcba")
    look.open("executions/hostile-failed-control")
    expect(page.locator("main")).to_contain_text("bell\u2407 escape\u241b[31m")


def test_messages_streams_and_promises_show_hostile_values_as_text(shop: World, look: Watched) -> None:
    shop.start_execution("basket", id="hostile-basket")
    shop.post("executions/hostile-basket/messages", {"name": SCRIPT, "price": 1})
    shop.post("executions/hostile-basket/messages", {"name": SCRIPT, "cost": CONTROL})
    shop.until_true(lambda: shop.get("executions/hostile-basket/streams")["streams"].get("log") == 1)
    for tab in ("messages", "streams"):
        page = look.open(f"executions/hostile-basket?tab={tab}")
        expect(page.locator(".tabpanel")).to_contain_text("<img src=x")
        check(look)


def test_a_hostile_queue_schedule_and_task_are_text(shop: World, look: Watched) -> None:
    queue = "<b>bold\u202e"
    shop.ask("PUT", f"queues/{quote(queue, safe='')}", {"concurrency": 2})
    page = look.open("queues")
    expect(page.locator(".rows tbody")).to_contain_text("<b>bold")
    check(look)
    look.open(f"queues/{quote(queue, safe='')}")
    expect(page.locator("main h1")).to_contain_text("<b>bold")
    check(look)
    name = "<i>every</i> hour"
    shop.post("schedules", {"id": name, "cron": "0 * * * *", "workflow": SCRIPT, "args": [SCRIPT]})
    look.open("schedules")
    expect(page.locator(".rows tbody")).to_contain_text("<i>every</i>")
    check(look)
    look.open(f"schedules/{quote(name, safe='')}")
    expect(page.locator("main")).to_contain_text("<img src=x")
    check(look)
    task = shop.post("tasks", {"task": SCRIPT[:60], "queue": queue, "args": [SCRIPT]})["id"]
    look.open(f"tasks/{quote(task, safe='')}")
    expect(page.locator("main")).to_contain_text("<img src=x")
    check(look)


def test_a_megabyte_is_cut_and_shown_whole_on_request(shop: World, look: Watched) -> None:
    shop.start_execution("echo", LONG, id="hostile-long")
    shop.until("hostile-long", "completed")
    page = look.open("executions/hostile-long")
    more = page.get_by_role("button", name="Show all 780,000 characters")
    expect(more).to_have_count(2)
    assert len(page.locator("body").inner_text()) < 20_000
    more.first.click()
    expect(more).to_have_count(1)
    assert len(page.locator("body").inner_text()) > 780_000
    look.open("executions?prefix=hostile-long")
    expect(page.locator(".rows tbody")).to_contain_text("hostile-long")
    check(look)


def test_deep_and_broad_json_is_folded_and_searched(shop: World, look: Watched) -> None:
    value = {
        "rows": [{"number": number, "name": f"row {number}"} for number in range(2_000)],
        "deep": {"er": {"still": {"needle": "found me"}}},
    }
    shop.start_execution("echo", value, id="json-broad")
    shop.until("json-broad", "completed")
    page = look.open("executions/json-broad")
    box = page.locator(".panel", has_text="Result").locator(".json-box")
    expect(box).not_to_contain_text("found me")
    box.get_by_role("searchbox").fill("needle")
    expect(box).to_contain_text("found me")
    expect(box.locator("mark")).to_have_count(1)
    assert json.dumps(value) != ""


def test_the_overview_workers_start_page_and_audit_log_show_hostile_names_as_text(
    shop: World, look: Watched
) -> None:
    """A worker says its own name, what it knows to run and what that is about."""
    field = {"type": "string", "description": SCRIPT, "title": SCRIPT}
    declared = {
        "kind": "workflow", "name": f"evil {SCRIPT}", "about": f"{SCRIPT} {TURNED}",
        "parameters": {"type": "object", "properties": {SCRIPT: field}, "required": [SCRIPT]},
    }  # fmt: skip
    report = {
        "group": "evil", "startedAt": 1, "declared": "evil", "queues": [SCRIPT], "declarations": [declared],
        "host": f"evil-host {SCRIPT}", "codeVersion": TURNED,
    }  # fmt: skip
    shop.post(f"workers/{quote(SCRIPT, safe='')}", report)
    shop.start_execution("confirm", "?", id="hostile-halted")
    shop.until("hostile-halted", "suspended")
    shop.post("executions/hostile-halted/halt", {"reason": f"{SCRIPT} {CONTROL}"})
    page = look.open("overview")
    expect(page.get_by_role("table", name="Needs attention")).to_contain_text("<img src=x onerror=")
    check(look)
    look.open("workers")
    card = page.locator(".cards > li", has_text="evil-host")
    card.locator("summary").click()
    expect(card).to_contain_text("<img src=x onerror=")
    check(look)
    look.open("start")
    page.get_by_label("Find a workflow or task").fill("evil")
    page.locator(".choice-row").first.click()
    expect(page.locator("main form")).to_contain_text("<img src=x onerror=")
    check(look)
    look.open("audit")
    expect(page.locator("main")).to_contain_text("hostile-halted")
    check(look)
