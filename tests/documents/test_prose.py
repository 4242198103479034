"""The documents read plainly: short sentences, and the words that the field uses."""

from pathlib import Path

import pytest

from tests.documents.pages import GENERATED, PAGES, name_of, unwrapped, wrapped_lines
from tests.documents.prose import WORDS_MAX, WORDS_MEDIAN_MAX, measure, sentences

READ = [page for page in PAGES if name_of(page) not in GENERATED]


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_sentences_are_short_and_words_are_plain(page: Path) -> None:
    prose = measure(page)
    assert not prose.too_long, f"longer than {WORDS_MAX} words"
    assert prose.median <= WORDS_MEDIAN_MAX
    assert not prose.words


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
