"""Every view opens, says what it shows, breaks no rule of axe-core, and fits on a narrow screen."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.browser import Watched, narrow, watched, wide
from tests.browser.scenes import VIEWS, Scenes, scenes
from tests.browser.world import World


@pytest.fixture(scope="module")
def filled(shop: World) -> Scenes:
    return scenes(shop)


LOOKS: dict[str, tuple[Literal["light", "dark"], tuple[int, int]]] = {
    "light": ("light", wide),
    "dark-narrow": ("dark", narrow),
}


@pytest.fixture(scope="module")
def open_looks(browser: Browser, shop: World) -> Iterator[dict[str, Watched]]:
    """A page for each pair of colours and width, which goes from view to view as a reader would."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(watched(browser, shop.console, scheme=scheme, size=size))
            for name, (scheme, size) in LOOKS.items()
        }


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True, scope="session")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", LOOKS)
def test_a_view_breaks_no_rule_for_screen_readers_and_contrast(
    shop: World, filled: Scenes, open_looks: dict[str, Watched], name: str, view: str
) -> None:
    look = open_looks[name]
    look.page.goto("about:blank")  # else the view before may be taken for this one
    page = look.open(filled.place(view))
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("main")).to_contain_text(filled.says(view))
    assert look.violations() == []
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert beyond <= 0, "the page is wider than the screen"
    look.check()


def test_a_dialog_breaks_no_rule(shop: World, filled: Scenes, look: Watched) -> None:
    page = look.open(filled.place("waiting"))
    page.get_by_role("button", name="Settle").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert look.violations() == []


def test_the_overview_leads_to_what_it_counts(shop: World, filled: Scenes, look: Watched) -> None:
    page = look.open("overview")
    failed = page.locator(".figure-link", has_text="failed").first
    expect(failed.locator(".number")).not_to_have_text("0")
    failed.click()
    expect(page).to_have_url(re.compile(r"#/executions\?status=failed"))
    expect(page.locator(".rows .chip").first).to_have_text("failed")


def test_filters_are_in_the_url_and_a_link_shows_the_same(
    shop: World, filled: Scenes, browser: Browser, look: Watched
) -> None:
    page = look.open("executions")
    page.locator('[data-status="failed"]').click()
    page.get_by_label("workflow").fill("checkout")
    expect(page).to_have_url(re.compile("name=checkout"))
    expect(page).to_have_url(re.compile("status=failed"))
    expect(page.locator(".rows tbody")).to_contain_text("scene-failed")
    with watched(browser, shop.console) as other:
        shown = other.page
        shown.goto(page.url)
        expect(shown.locator(".rows tbody")).to_contain_text("scene-failed")
        expect(shown.locator(".rows tbody")).not_to_contain_text("scene-approval")
        expect(shown.locator('[data-status="failed"]')).to_have_attribute("aria-pressed", "true")


def test_executions_are_found_between_two_instants(shop: World, filled: Scenes, look: Watched) -> None:
    page = look.open("executions?prefix=scene-")
    expect(page.locator(".rows tbody tr[data-key]").first).to_be_visible()
    page.get_by_label("Created", exact=True).select_option("between")
    page.get_by_label("Created before").fill("2020-01-01T00:00")
    expect(page.locator("main")).to_contain_text("No execution matches these filters.")
    page.get_by_label("Created before").fill("2090-01-01T00:00")
    page.get_by_label("Created from").fill("2020-01-01T00:00")
    expect(page.locator(".rows tbody tr[data-key]").first).to_be_visible()
    linked = look.open(page.url.partition("#/")[2])
    expect(linked.get_by_label("Created from")).to_have_value("2020-01-01T00:00")


def test_executions_are_found_by_tag_error_and_id(shop: World, filled: Scenes, look: Watched) -> None:
    page = look.open("executions?tag=customer:4")
    expect(page.locator(".rows tbody")).to_contain_text("scene-done")
    expect(page.locator(".rows tbody")).not_to_contain_text("scene-failed")
    look.open("executions?error=ValueError&status=failed")
    expect(page.locator(".rows tbody")).to_contain_text("scene-failed")


def test_an_id_leads_to_the_page_of_what_has_it_and_a_beginning_to_a_list(
    shop: World, filled: Scenes, look: Watched
) -> None:
    task = filled.place("task").removeprefix("tasks/")
    leads = {
        "scene-family": "#/executions/scene-family$",
        task: f"#/tasks/{task}$",
        "scene-approval:approval": "#/promises/scene-approval%3Aapproval$",
        "scene-fam": r"#/executions\?prefix=scene-fam$",
        task[:12]: r"#/tasks\?prefix=",
        "there-is-no-such-id": r"#/executions\?prefix=there-is-no-such-id$",
    }
    page = look.open("overview")
    for text, place in leads.items():
        page.locator("#find").fill(text)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(place))


def test_filters_that_match_nothing_are_cleared_by_a_link(shop: World, filled: Scenes, look: Watched) -> None:
    page = look.open("executions?prefix=there-is-no-such-")
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".rows tbody tr[data-key]").first).to_be_visible()
    expect(page.locator("[data-search]")).to_have_value("")


def test_a_list_goes_on_as_one_scrolls_and_only_rows_in_sight_exist(shop: World, look: Watched) -> None:
    for number in range(150):
        shop.start_execution("echo", number, id=f"scroll-{number:03}")
    page = look.open("executions?prefix=scroll-")
    expect(page.locator(".rows tbody")).to_contain_text("scroll-149")
    area, foot = page.locator("main .scroll"), page.locator("main .foot")
    down = "area => area.scrollTo(0, area.scrollHeight)"
    while (said := foot.inner_text()) != "150 executions, all of them.":
        area.evaluate(down)
        expect(foot).not_to_have_text(said)
    area.evaluate(down)
    expect(page.locator(".rows tbody")).to_contain_text("scroll-000")
    assert page.locator(".rows tbody tr").count() < 100
    assert page.locator(".rows").get_attribute("aria-rowcount") == "151"


def test_the_timeline_unfolds_children_zooms_and_compresses_gaps(
    shop: World, filled: Scenes, look: Watched
) -> None:
    page = look.open(filled.place("family"))
    expect(page.locator(".tl-row")).to_have_count(3)
    page.locator(".tl-row", has_text="checkout").first.get_by_role("button", name="Unfold").click()
    expect(page.locator(".tl-row", has_text="charge")).to_have_count(1)
    before = page.locator(".tl-axis").inner_text()
    page.get_by_role("button", name="Zoom in").click()
    assert page.locator(".tl-axis").inner_text() != before
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator(".tl-window")).to_be_hidden()


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True, scope="session")  # drawing knows no store
def test_ten_thousand_steps_are_drawn_as_rows_in_sight_and_as_a_table(shop: World, look: Watched) -> None:
    shop.start_execution("long", 10_000, id="ten-thousand")
    shop.until("ten-thousand", "completed")
    page = look.open("executions/ten-thousand")
    expect(page.locator(".tl-row").first).to_be_visible()
    assert page.locator(".tl-row").count() < 120
    page.locator(".tl-scroll").evaluate("area => area.scrollTo(0, area.scrollHeight)")
    expect(page.locator('.tl-row[data-id="ten-thousand:10000"]')).to_be_visible()
    page.get_by_role("tab", name="Steps").click()
    expect(page.locator(".rows")).to_have_attribute("aria-rowcount", "10001")


ENDS = """
([...found]) => found.map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.right])
"""


def test_what_stands_above_the_rows_of_a_timeline_is_as_wide_as_they_are(
    shop: World, filled: Scenes, look: Watched
) -> None:
    page = look.open(filled.place("done"))
    expect(page.locator(".tl-row")).to_have_count(3)
    tracks = page.locator(".timeline .tl-track")
    assert len({tuple(each) for each in tracks.evaluate_all(ENDS)}) == 1


def test_on_a_narrow_screen_a_list_says_below_each_id_what_it_waits_for(
    shop: World, filled: Scenes, browser: Browser
) -> None:
    with watched(browser, shop.console, size=narrow) as look:
        page = look.open("executions?prefix=scene-label-2")
        below = page.locator(".rows tbody .below")
        expect(below).to_be_visible()
        expect(below).to_contain_text("print_label \u00b7 lock printer-3")
        row, head = page.locator(".rows tbody tr[data-key]"), page.locator("main .rows")
        assert row.evaluate("row => row.offsetHeight") == 48
        assert head.evaluate("table => table.scrollWidth <= table.clientWidth")


def test_nothing_here_yet_is_a_sentence(shop: World, look: Watched) -> None:
    page = look.open("executions?prefix=there-is-no-such-")
    expect(page.locator("main")).to_contain_text("No execution matches these filters.")
    look.open("promises?prefix=there-is-no-such-")
    expect(page.locator("main")).to_contain_text("No promise matches these filters.")


def test_what_is_not_there_is_said_with_what_to_do(shop: World, look: Watched) -> None:
    look.expect_wrong("status of 404")
    page = look.open("executions/never-was")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("alert").locator(".hint")).not_to_be_empty()
    look.open("nowhere")
    expect(page.locator("main")).to_contain_text("names no view")
