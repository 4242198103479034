"""The runtime is pure: nothing in it can wait, look at a clock, or reach another layer."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.runtime

PACKAGE = Path(holdfast.runtime.__file__).parent
FORBIDDEN = {
    "asyncio",
    "socket",
    "sqlite3",
    "time",
    "datetime",
    "random",
    "os",
    "subprocess",
    "concurrent",
    "select",
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield node.module or ""


MODULES = sorted(PACKAGE.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_module_imports_anything_impure(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] not in FORBIDDEN
        if name.startswith("holdfast"):
            assert name.startswith("holdfast.runtime")
        if name.startswith("threading"):
            assert path.stem == "slot"


def test_importing_the_runtime_loads_no_event_loop() -> None:
    code = "import sys, holdfast.runtime.testing; print('asyncio' in sys.modules, 'sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_module_is_longer_than_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 330


def test_every_public_name_exists() -> None:
    for name in holdfast.runtime.__all__:
        assert hasattr(holdfast.runtime, name)
