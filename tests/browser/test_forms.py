"""Forms are made from declared types: what is filled in is what the workflow gets, on both stores."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.browser import Watched
from tests.browser.test_actions import confirm, do, expect_status, open_suspended, press
from tests.browser.world import World


def fill_number(form: Locator) -> None:
    form.get_by_label("answer", exact=True).fill("many")
    form.get_by_role("button", name="Settle").click()
    expect(form).to_contain_text("expected a number, got \u201cmany\u201d")
    form.get_by_label("answer", exact=True).fill("2.5")


def fill_choice(form: Locator) -> None:
    form.get_by_label("answer", exact=True).select_option("milk")


def fill_list(form: Locator) -> None:
    for number in (3, 5, 8):
        form.get_by_role("button", name="Add one").click()
        form.get_by_role("textbox").last.fill(str(number))
    form.get_by_role("button", name="Remove").nth(1).click()


def fill_optional(form: Locator) -> None:
    form.get_by_label("answer is").select_option(label="nothing")


def fill_parcel(form: Locator) -> None:
    form.get_by_label("weight", exact=True).fill("1.5")
    form.get_by_role("group", name="fragile").get_by_label("yes").check()
    form.get_by_label("speed", exact=True).select_option("fast")
    form.get_by_label("street", exact=True).fill("Long Lane 4")
    form.get_by_label("city", exact=True).fill("Ulm")
    form.get_by_role("button", name="Add one").click()
    form.get_by_label("name", exact=True).fill("tea")
    form.get_by_label("price", exact=True).fill("5")
    form.get_by_label("insurance", exact=True).select_option("full")
    form.get_by_role("checkbox", name="stops").check()
    form.get_by_role("textbox", name="stops").fill("2")


def fill_review(form: Locator) -> None:
    form.get_by_label("stars", exact=True).fill("9")
    form.get_by_label("text", exact=True).fill("Good tea.")
    form.get_by_label("name", exact=True).fill("ada")
    form.get_by_role("button", name="Settle").click()
    expect(form).to_contain_text("at least 1, at most 5")
    form.get_by_label("stars", exact=True).fill("5")


PARCEL = {
    "weight": 1.5,
    "fragile": True,
    "speed": "fast",
    "to": {"street": "Long Lane 4", "city": "Ulm"},
    "items": [{"name": "tea", "price": 5}],
    "insurance": "full",
    "stops": 2,
}
CASES: dict[str, tuple[Callable[[Locator], None], Any]] = {
    "number": (fill_number, 2.5),
    "choice": (fill_choice, "milk"),
    "list": (fill_list, [3, 8]),
    "optional": (fill_optional, None),
    "parcel": (fill_parcel, PARCEL),
    "review": (fill_review, {"stars": 5, "text": "Good tea.", "by": {"name": "ada"}}),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_promise_is_settled_in_a_form_of_its_type(shop: World, look: Watched, kind: str) -> None:
    fill, wanted = CASES[kind]
    page = open_suspended(shop, look, "survey", kind, id=f"survey-{kind}")
    press(page, "Settle")
    fill(page.get_by_role("dialog"))
    confirm(page, "Settle")
    expect_status(page, "completed")
    assert shop.get(f"executions/survey-{kind}")["result"] == wanted


def test_a_form_can_be_written_as_json_and_keeps_what_was_filled_in(shop: World, look: Watched) -> None:
    page = open_suspended(shop, look, "refund", "9", id="survey-json")
    press(page, "Settle")
    form = page.get_by_role("dialog")
    form.get_by_role("group", name="approved").get_by_label("yes").check()
    form.get_by_label("amount", exact=True).fill("7")
    form.get_by_role("button", name="Write it as JSON").click()
    text = form.get_by_role("textbox")
    expect(text).to_have_value(re.compile(r'"amount": 7'))
    text.fill('{"approved": true, "amount": 8}')
    confirm(page, "Settle")
    expect_status(page, "completed")
    assert shop.get("executions/survey-json")["result"] == "receipt for -8 on good"


def test_one_is_started_like_another_with_its_input_to_be_edited(shop: World, look: Watched) -> None:
    shop.start_execution("checkout", "71", "bad-card", 30, id="model-1")
    shop.until("model-1", "failed")
    page = look.open("executions/model-1")
    page.get_by_role("link", name="Start like this").click()
    expect(page.get_by_label("order", exact=True)).to_have_value("71")
    expect(page.get_by_role("textbox", name="cents")).to_have_value("30")
    page.get_by_label("card", exact=True).fill("good")
    do(page, "Start it")
    expect(page).to_have_url(re.compile("#/executions/checkout"))
    expect_status(page, "completed")
    expect(page.locator("main")).to_contain_text("receipt for 30 on good")
