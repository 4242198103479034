"""A pattern finds its place whatever the code there is called, and only one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.syntax import NoSinglePlace, planted, planted_in_text

SOURCE = """
class Bucket:
    def take(self, wanted):
        if wanted > self.left:
            raise Empty(f"{wanted} is too much")
        self.left = self.left - wanted
        return self.left
"""
OLD = "if wanted > self.left:\n    raise Empty(...)"
NEW = "if wanted >= self.left:\n    raise Empty(...)"


def changed(folder: Path, text: str, old: str, new: str, name: str = "bucket.py") -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    path, result = planted(old, new, folder)
    assert path == folder / name
    return result


def as_written(text: str) -> str:
    return ast.unparse(ast.parse(text)) + "\n"


@pytest.mark.parametrize(
    "name", ["wanted", "Empty", "take", "Bucket"], ids=["variable", "function", "method", "class"]
)
def test_a_rename_does_not_hide_the_place(name: str, tmp_path: Path) -> None:
    source = SOURCE.replace(name, "renamed")
    assert changed(tmp_path, source, OLD, NEW) == as_written(source.replace(" > ", " >= "))


def test_a_renamed_attribute_is_found_if_nothing_has_the_old_name(tmp_path: Path) -> None:
    source = SOURCE.replace("self.left", "self.remaining")
    assert changed(tmp_path, source, OLD, NEW) == as_written(source.replace(" > ", " >= "))


def test_an_attribute_that_still_exists_is_meant_as_written(tmp_path: Path) -> None:
    alike = SOURCE + SOURCE.replace("self.left", "self.right")
    assert changed(tmp_path, alike, OLD, NEW).count(">=") == 1


def test_a_file_that_was_moved_is_found(tmp_path: Path) -> None:
    assert ">=" in changed(tmp_path, SOURCE, OLD, NEW, "deep/down/elsewhere.py")


def test_two_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSinglePlace, match=r"bucket.py:4, bucket.py:11"):
        changed(tmp_path, SOURCE + SOURCE, OLD, NEW)


def test_no_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSinglePlace, match="nowhere"):
        changed(tmp_path, SOURCE, "if wanted < self.left:\n    ...", "pass")


def test_different_names_stand_for_different_names(tmp_path: Path) -> None:
    assert changed(tmp_path, "a + a\nb + c\n", "x + y", "x - y") == "a + a\nb - c\n"


def test_equal_names_stand_for_equal_names(tmp_path: Path) -> None:
    assert changed(tmp_path, "a + a\nb + c\n", "x + x", "x - x") == "a - a\nb + c\n"


def test_builtins_and_self_stand_for_themselves(tmp_path: Path) -> None:
    assert changed(tmp_path, "len(a)\nsize(a)\n", "len(x)", "0") == "0\nsize(a)\n"
    with pytest.raises(NoSinglePlace, match="nowhere"):
        changed(tmp_path, "other.left\n", "self.left", "0")


@pytest.mark.parametrize(
    ("source", "old", "new", "result"),
    [
        ("f(a, b, c=1, d=2)", "f(..., c=1, **...)", "f(..., c=3, **...)", "f(a, b, c=3, d=2)"),
        ("a and b < 1 and c", "... and x < 1 and ...", "... and x < 2 and ...", "a and b < 2 and c"),
        ("{'a', 'b', 'c'}", "{..., 'b', ...}", "{..., ...}", "{'a', 'c'}"),
        (
            "for a in b:\n    f()\n    g(a)",
            "for x in y: ...",
            "for x in y[:1]: ...",
            "for a in b[:1]:\n    f()\n    g(a)",
        ),
        ("if a:\n    f(a)", "f(x)", "", "if a:\n    pass"),
    ],
    ids=["arguments", "conditions", "elements", "body", "nothing"],
)
def test_dots_stand_for_what_they_cover(source: str, old: str, new: str, result: str, tmp_path: Path) -> None:
    if not new:
        old, source = f"{old}\npass", f"{source}\n    pass"
    assert changed(tmp_path, source, old, new).strip() == result


def test_a_replacement_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="knows no mystery"):
        changed(tmp_path, SOURCE, "self.left - wanted", "self.left - mystery")


def test_a_replacement_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="changes nothing"):
        changed(tmp_path, SOURCE, OLD, OLD)


def test_a_part_of_a_string_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "sql.py").write_text("X = 'SELECT a FOR UPDATE'\nY = 'SELECT b'\n", "utf-8")
    assert planted_in_text(" FOR UPDATE", "", tmp_path)[1] == "X = 'SELECT a'\nY = 'SELECT b'\n"
    with pytest.raises(NoSinglePlace):
        planted_in_text("SELECT", "DELETE", tmp_path)
