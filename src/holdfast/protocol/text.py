"""Checks on text and integers that every field shares. All raise ValueError with a sentence.

Text must survive every store and every client: no NUL, no lone surrogate, a bounded size in bytes.
"""

import re
from collections.abc import Mapping
from typing import Final

from holdfast.protocol import limits

_none: Final[Mapping[str, str]] = {}


def check_text(name: str, value: str, most: int = limits.id_bytes_max, *, empty: bool = False) -> None:
    if not value and not empty:
        raise ValueError(f"{name} must not be empty")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{name} holds a lone surrogate, which is not text") from None
    if size > most:
        raise ValueError(f"{name} has {size} bytes, the limit is {most}")
    if "\0" in value:
        raise ValueError(f"{name} holds a NUL character")


_password: Final = re.compile(r"((?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def hide_password(url: str) -> str:
    """A URL as it may be shown: without user and password, even where it is not quite a URL."""
    head, at, rest = url.rpartition("@")
    scheme, slashes, _ = head.partition("//")
    shown = f"{scheme}{slashes}...@{rest}" if at and slashes else f"...@{rest}" if at else url
    return _password.sub(r"\1...", shown)


# C0, DEL, C1, separators of lines and paragraphs, overrides and isolates of direction, lone surrogates
_unprintable: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text of users as it may be shown on a terminal or in a log line: what a terminal would obey, or what
    would change the order of what is read, is shown as its code (`\\x1b`, `\\u202e`); all else stays."""
    return _unprintable.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def printable_json(text: str) -> str:
    """The same for JSON, which stays the same JSON: line feeds between its parts stay, too."""
    return _unprintable.sub(_shown_in_json, text)


def _shown_in_json(found: re.Match[str]) -> str:
    return "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def are_harmless(entries: Mapping[str, str], others: Mapping[str, str] = _none) -> bool:
    """Is there surely nothing wrong with them? Nearly always: looked at as a whole, before the names of what
    might be wrong are made."""
    together = "".join((*entries, *entries.values(), *others, *others.values()))
    return (
        len(together) <= _harmless_bytes
        and len(entries) <= limits.entry_count_max
        and len(others) <= limits.entry_count_max
        and together.isascii()
        and "\0" not in together
    )


def check_entries(name: str, entries: Mapping[str, str]) -> None:
    if len(entries) > limits.entry_count_max:
        raise ValueError(f"{name} has {len(entries)} entries, the limit is {limits.entry_count_max}")
    for key, value in entries.items():
        check_text(f"a key of {name}", key, limits.key_bytes_max, empty=True)
        check_text(f"{name}[{key[:40]!r}]", value, limits.entry_bytes_max, empty=True)


_harmless_bytes: Final = min(limits.key_bytes_max, limits.entry_bytes_max)


def check_integer(name: str, value: int, least: int, most: int = limits.instant_ms_max) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}")
