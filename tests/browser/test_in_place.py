"""What changes is written into what is shown: nothing is replaced or moved under the pointer or the focus."""

from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import Watched
from tests.browser.world import World


def mark(found: Locator) -> None:
    """So that it is known again."""
    found.evaluate("element => { element.isTheSame = true; }")


def is_same(found: Locator) -> bool:
    return bool(found.evaluate("element => element.isTheSame === true"))


def row_of(page: Page, key: str) -> Locator:
    return page.locator(f'.rows tbody tr[data-key="{key}"]')


def suspended(shop: World, *ids: str) -> None:
    for each in ids:
        shop.start_execution("confirm", "?", id=each)
        shop.until(each, "suspended")


def test_a_row_keeps_its_element_its_tick_and_the_focus_when_its_record_changes(
    shop: World, look: Watched
) -> None:
    suspended(shop, "stays-1")
    page = look.open("executions?prefix=stays-")
    row = row_of(page, "stays-1")
    box = row.get_by_role("checkbox")
    box.check()
    mark(row)
    mark(box)
    shop.post("promises/stays-1:answer/resolve", {"value": True})
    expect(row.locator(".chip")).to_have_text("completed")
    assert is_same(row)
    assert is_same(box)
    expect(box).to_be_checked()
    expect(box).to_be_focused()


def test_rows_that_come_or_go_wait_while_the_pointer_moves_over_the_list(shop: World, look: Watched) -> None:
    suspended(shop, "moves-1", "moves-2")
    page = look.open("executions?prefix=moves-&status=suspended")
    row = row_of(page, "moves-1")
    expect(row).to_be_visible()
    box = row.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 5)
    page.mouse.down()  # and not up yet: whoever clicks is in the middle of it
    shop.post("promises/moves-2:answer/resolve", {"value": True})
    suspended(shop, "moves-3")
    chosen = page.locator('[data-status="completed"] .figure')
    expect(chosen).to_have_text("1")  # the page has heard of it
    assert row.bounding_box() == box
    expect(row_of(page, "moves-2")).to_be_visible()
    expect(row_of(page, "moves-3")).to_have_count(0)
    page.mouse.move(5, 5)
    page.mouse.up()
    expect(row_of(page, "moves-3")).to_be_visible()
    expect(row_of(page, "moves-2")).to_have_count(0)


def test_a_list_that_was_scrolled_stays_where_it_is_and_says_what_is_new(shop: World, look: Watched) -> None:
    for number in range(60):
        shop.start_execution("nap", 86_400, id=f"down-{number:02}")
    page = look.open("executions?prefix=down-")
    expect(row_of(page, "down-59")).to_be_visible()
    page.locator(".scroll.fill").evaluate("area => { area.scrollTop = 600; }")
    row = row_of(page, "down-30")
    expect(row).to_be_visible()
    before = row.bounding_box()
    shop.start_execution("nap", 86_400, id="down-60")
    newer = page.get_by_role("button", name="1 new row above")
    expect(newer).to_be_visible()
    assert row.bounding_box() == before
    newer.click()
    expect(row_of(page, "down-60")).to_be_in_viewport()
    expect(newer).to_be_hidden()


def test_all_rows_are_chosen_only_when_there_are_rows(shop: World, look: Watched) -> None:
    """A tick before the first page was there chose nothing, and stayed."""
    suspended(shop, "none-1", "none-2")
    page = look.page
    page.route("**/v1/executions?*", lambda route: None)  # not answered
    look.open("executions?prefix=none-")
    choose = page.get_by_role("checkbox", name="Select all rows")
    expect(choose).to_be_disabled()
    page.unroute("**/v1/executions?*")
    page.reload()
    choose.check()
    expect(page.locator("main .bulk")).to_contain_text("2 executions selected")
    row_of(page, "none-1").get_by_role("checkbox").uncheck()
    expect(choose).not_to_be_checked()


def test_the_bar_says_how_many_are_left_when_a_chosen_row_goes(shop: World, look: Watched) -> None:
    suspended(shop, "left-1", "left-2")
    page = look.open("executions?prefix=left-&status=suspended")
    page.get_by_role("checkbox", name="Select all rows").check()
    bar = page.locator("main .bulk")
    expect(bar).to_contain_text("2 executions selected")
    shop.post("promises/left-1:answer/resolve", {"value": True})
    page.mouse.move(5, 5)
    expect(bar).to_contain_text("1 execution selected")


def test_buttons_folds_and_scrolled_messages_of_an_execution_outlive_a_change(
    shop: World, look: Watched
) -> None:
    shop.start_execution("basket", id="talk-1")
    for number in range(2):
        shop.post("executions/talk-1/messages", {"name": f"tea-{number}", "price": -1})
    shop.until("talk-1", "suspended")
    page = look.open("executions/talk-1?tab=messages")
    area = page.get_by_role("region", name="Messages")
    expect(area).to_contain_text("tea-1")
    cancel = page.locator('[data-action="cancel"]')
    cancel.focus()
    mark(area)
    shop.post("executions/talk-1/messages", {"name": "milk", "price": 3})
    expect(area).to_contain_text("milk")
    expect(page.get_by_role("table", name="Published values")).to_contain_text("1")
    assert is_same(area)
    expect(cancel).to_be_focused()


def test_an_unfolded_call_stays_unfolded(shop: World, look: Watched) -> None:
    marker = shop.directory / "unfold-marker"
    shop.start_execution("fulfil", "5", str(marker), id="unfold-1")
    shop.until_true(
        lambda: any(row["name"] == "crunch" for row in shop.get("executions/unfold-1/timeline")["rows"])
    )
    page = look.open("executions/unfold-1?tab=tree")
    tree = page.get_by_role("tree")
    tree.get_by_role("button", name="Unfold").click()
    expect(tree).to_contain_text("charge")
    marker.touch()
    expect(page.locator("main .head .chip").first).to_have_text("completed")
    expect(tree.get_by_role("treeitem").first.locator(".chip").first).to_have_text("completed")
    expect(tree).to_contain_text("charge")


def test_a_row_of_a_timeline_that_grows_keeps_its_element(shop: World, look: Watched) -> None:
    marker = shop.directory / "grows-marker"
    shop.start_execution("fragile", str(marker), id="grows-1")
    page = look.open("executions/grows-1")
    row = page.locator(".tl-row", has_text="crunch")
    name = row.locator(".tl-name")
    name.focus()
    mark(row)
    took = row.locator(".tl-took").text_content()
    expect(row.locator(".tl-took")).not_to_have_text(took or "")  # a second has passed
    assert is_same(row)
    expect(name).to_be_focused()
    marker.touch()
    expect(page.locator("main .head .chip").first).to_have_text("completed")
    assert is_same(row)


def test_the_overview_goes_on_while_something_in_it_has_the_focus(shop: World, look: Watched) -> None:
    page = look.open("overview")
    executions = page.get_by_role("region", name="Executions by status")
    suspended_now = executions.locator("a", has_text="suspended")
    expect(suspended_now).to_be_visible()
    before = suspended_now.locator(".number").text_content()
    suspended_now.focus()
    suspended(shop, f"overview-{before}")
    expect(suspended_now.locator(".number")).not_to_have_text(before or "")
    expect(suspended_now).to_be_focused()


RENEWED_WITHOUT_A_HANDLER = """
async () => {
  const main = document.querySelector('script[type="module"]').src;
  const { el } = await import(new URL("dom.js", main));
  const { renew } = await import(new URL("renew.js", main));
  const heard = [];
  const box = el("div", {}, el("span", { onclick: () => heard.push("old") }));
  const span = box.firstChild;
  renew(box, el("span", {}));
  span.click();
  const isSame = span === box.firstChild;
  renew(box, el("span", { onclick: () => heard.push("new") }));
  span.click();
  return [isSame, heard];
}
"""


def test_an_element_that_stays_does_nothing_that_the_new_one_would_not_do(look: Watched) -> None:
    page = look.open("executions")
    assert page.evaluate(RENEWED_WITHOUT_A_HANDLER) == [True, ["new"]]
