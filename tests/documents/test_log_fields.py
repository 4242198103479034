"""Every field and every event that Holdfast logs is on the page about them, and no other."""

import ast
import re
from collections.abc import Iterator
from typing import get_args

from holdfast.workflow.logs import Event
from tests.documents.pages import DOCS, ROOT

PAGE = (DOCS / "reference" / "metrics.md").read_text("utf-8").partition("## Log fields")[2]
# What `holdfast.workflow.logs` puts on every record about an execution.
ALWAYS = {"event"}
MAKERS = {"fields", "_fields"}  # functions, and names of dicts, that hold the fields of a record


def names_in(node: ast.AST) -> set[str]:
    keys = (key for each in ast.walk(node) if isinstance(each, ast.Dict) for key in each.keys)
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


def logged(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (isinstance(node, ast.keyword) and node.arg == "extra") or (
            isinstance(node, ast.Assign)
            and any(isinstance(each, ast.Name) and each.id in MAKERS for each in node.targets)
        ):
            yield from names_in(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in MAKERS:
            yield from names_in(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tell":
            yield from (each.arg for each in node.keywords if each.arg is not None)


def rows(head: str) -> set[str]:
    """The names in the first column of each table whose first column has this head."""
    found: set[str] = set()
    for table in re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE + "\n", re.M):
        for row in table.splitlines():
            found |= set(re.findall(r"`([^`]+)`", row.split("|")[1]))
    return found


def test_every_field_of_a_log_record_is_described_and_no_other() -> None:
    sources = (path.read_text("utf-8") for path in (ROOT / "src" / "holdfast").rglob("*.py"))
    found = {name for text in sources if "import logging" in text for name in logged(ast.parse(text))}
    assert found | ALWAYS == rows("field")


def test_every_event_of_a_worker_is_described_and_no_other() -> None:
    assert set(get_args(Event)) == rows("event")
