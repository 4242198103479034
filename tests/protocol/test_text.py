"""What users wrote is shown without a terminal obeying it."""

import pytest

from holdfast.protocol.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\r\nb\tc\x00", "a\\x0d\\x0ab\\x09c\\x00"),
        ("\x7f\x9b31m", "\\x7f\\x9b31m"),
        ("\u202etxt.exe\u202c\u2066\u2069", "\\u202etxt.exe\\u202c\\u2066\\u2069"),
        ("one\u2028two\u2029three", "one\\u2028two\\u2029three"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_code(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_all_other_text_stays_as_it_is() -> None:
    text = "Bestellung 17: Größe \u00a0 \u05e9\u05dc\u05d5\u05dd \U0001f600 \\x1b C:\\new"
    assert printable(text) == text
