"""Every test that the track record and the checklist name exists: a renamed one would prove nothing there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/reliability.md", "SECURITY.md")
NAMED = re.compile(r"(?P<file>(?:[\w-]+/)*[\w-]+\.py)?(?:::)?(?P<test>test_\w+)?(?:\[.*)?")


def defined() -> dict[str, set[str]]:
    """By the path of a file: the tests in it."""
    files = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    return {
        path.relative_to(ROOT).as_posix(): set(re.findall(r"def (test_\w+)", path.read_text("utf-8")))
        for path in files
    }


def missing(text: str, known: dict[str, set[str]]) -> list[str]:
    """What a line names that is not there. `::test_...` is in the file that was named before it."""
    found: list[str] = []
    for line in text.splitlines():
        files = [*known]
        for name in re.findall(r"`([^`\s]+)`", line):
            fits = NAMED.fullmatch(name)
            if fits is None or not (fits["file"] or fits["test"]):
                continue
            if fits["file"]:
                files = [path for path in known if f"/{path}".endswith(f"/{fits['file']}")]
                is_code = not fits["file"].startswith(("test_", "tests/", "bench/"))
                if not files and not is_code:
                    found.append(name)
            elif not name.startswith("::"):
                files = [*known]
            if fits["test"] and not any(fits["test"] in known[path] for path in files):
                found.append(name)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    assert missing((ROOT / page).read_text("utf-8"), defined()) == []


def test_one_that_was_renamed_is_found() -> None:
    known = {"tests/a/test_a.py": {"test_one"}, "tests/b/test_b.py": {"test_two"}}
    text = "| `test_a.py::test_one`, `::test_two` | `test_c.py` |\n| `test_two` `test_three` |"
    assert missing(text, known) == ["::test_two", "test_c.py", "test_three"]
