"""The documents read plainly: short sentences, and the words that the field uses."""

from pathlib import Path

import pytest

from tests.documents.pages import GENERATED, PAGES, name_of, unwrapped, wrapped_lines
from tests.documents.prose import NOT_YET, WORDS_MAX, WORDS_MEDIAN_MAX, measure, sentences

READ = [page for page in PAGES if name_of(page) not in GENERATED]


@pytest.mark.parametrize("page", [page for page in READ if name_of(page) not in NOT_YET], ids=name_of)
def test_sentences_are_short_and_words_are_plain(page: Path) -> None:
    prose = measure(page)
    assert not prose.too_long, f"longer than {WORDS_MAX} words"
    assert prose.median <= WORDS_MEDIAN_MAX
    assert not prose.words


def test_a_page_that_fulfils_this_is_not_excused_from_it() -> None:
    assert {name_of(page) for page in READ} >= NOT_YET, "a page that is gone"
    fine = [
        name_of(page)
        for page in READ
        if name_of(page) in NOT_YET
        and not measure(page).too_long
        and not measure(page).words
        and measure(page).median <= WORDS_MEDIAN_MAX
    ]
    assert not fine, "take these out of not_yet.txt"


def test_prose_is_told_from_code_tables_and_lists() -> None:
    text = "# Title\n\nOne `a b c` here. Two\nlines, e.g. this. \n\n| a | b |\n\n"
    text += "- item one\n- item two: x\n\n```\ncode\n```\n"
    assert sentences(text) == ["One `code` here.", "Two lines, e.g. this.", "item one", "item two: x"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_paragraph_is_one_line(page: Path) -> None:
    assert not wrapped_lines(page.read_text())


def test_lines_are_joined_within_a_paragraph_and_within_an_item_only() -> None:
    text = "# Title\nOne\n**two** three.\n\n- a\n  b\n- c\n\n| t |\n| u |\n\n```\nx\ny\n```\nend\n"
    joined = "# Title\nOne **two** three.\n\n- a b\n- c\n\n| t |\n| u |\n\n```\nx\ny\n```\nend\n"
    assert unwrapped(text) == joined
