"""The modules of the package and their syntax trees, each read and parsed once in a process."""

import ast
from functools import cache
from pathlib import Path

import holdfast

PACKAGE = Path(holdfast.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))
