"""Messages about a payload that does not fit: what was expected, what came, and where.

"Expected int, got str ('12')", "Expected int, got str ('12') at items[0].price".
"""

from __future__ import annotations

import re
from reprlib import Repr
from typing import Any, Final

import msgspec

_short: Final = Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 2

# What msgspec says. It speaks of JSON, and people wrote Python.
_got: Final = re.compile(r"Expected `(.+)`, got `(.+?)`(?: - at `(.+)`)?", re.DOTALL)
_lacks: Final = re.compile(r"Object missing required field `(.+?)`(?: - at `(.+)`)?", re.DOTALL)
_place: Final = re.compile(r"(.*?)(?: - at `(.+)`)?", re.DOTALL)
_step: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_python: Final = {"object": "dict", "array": "list", "null": "None"}


def describe(raw: bytes, type_: Any, error: Exception, *, quotes: bool = True) -> str:
    """`quotes`: may the value itself be told?"""
    wanted = shown_type(type_)
    if not isinstance(error, msgspec.ValidationError):
        return f"Expected {wanted}, got something that cannot be read as that ({error})"
    text = str(error)
    if found := _got.fullmatch(text):
        expected, got, path = found.groups()
        wanted = _in_python(expected) if path else _of_root(expected, wanted)
        return f"Expected {wanted}, got {_in_python(got)}{_value(raw, path, quotes)}{_at(path)}"
    if found := _lacks.fullmatch(text):
        field, path = found.groups()
        if path is None:
            return f"Expected {wanted}, got dict without {field!r}{_value(raw, path, quotes)}"
        return f"Expected dict with {field!r}, got dict{_value(raw, path, quotes)}{_at(path)}"
    found = _place.fullmatch(text)
    assert found is not None
    sentence, path = found.groups()
    value = _value(raw, path, quotes).removeprefix(" (").removesuffix(")") or "another value"
    return f"Expected {wanted}, got {value}{_at(path)}: {sentence.replace('`', '')}"


def shown_type(type_: Any) -> str:
    if hasattr(type_, "__metadata__"):  # Annotated
        return shown_type(type_.__origin__)
    return type_.__qualname__ if isinstance(type_, type) else str(type_).replace("typing.", "")


def _of_root(expected: str, wanted: str) -> str:
    """The name in the annotation says more than that it is an object."""
    return wanted if expected in ("object", "array") or "|" in expected else _in_python(expected)


def _in_python(words: str) -> str:
    return " | ".join(_python.get(word, word) for word in words.split(" | "))


def _at(path: str | None) -> str:
    return f" at {path.removeprefix('$').removeprefix('.')}" if path and path != "$" else ""


def got(value: Any, *, quotes: bool) -> str:
    """`int (12)`: what came."""
    name = "None" if value is None else type(value).__name__
    return f"{name} ({_short.repr(value)})" if quotes and value is not None else name


def _value(raw: bytes, path: str | None, quotes: bool) -> str:
    if not quotes:
        return ""
    try:
        value = msgspec.json.decode(raw)
        for name, number in _steps(path or "$"):
            value = value[name] if name else value[int(number)]
    except Exception:  # the place is named less exactly than that, or it is no JSON
        return ""
    return "" if value is None else f" ({_short.repr(value)})"


def _steps(path: str) -> list[tuple[str, str]]:
    steps = _step.findall(path)
    if "".join(f".{name}" if name else f"[{number}]" for name, number in steps) != path.removeprefix("$"):
        raise ValueError(path)
    return steps
