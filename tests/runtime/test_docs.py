"""docs/reference/runtime.md is true: its examples run, and every name and number it uses exists."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import holdfast.runtime
from holdfast.runtime import testing

GUIDE = (Path(__file__).parents[2] / "docs" / "reference" / "runtime.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
MODULES = sorted(path.stem for path in Path(holdfast.runtime.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_of_the_guide_runs(number: int) -> None:
    code = compile(EXAMPLES[number], f"docs/reference/runtime.md example {number + 1}", "exec")
    exec(code, {"__name__": f"example_{number}"})


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) >= 4


def test_every_call_the_guide_names_exists() -> None:
    called = set(re.findall(r"`(\w+)\(", GUIDE)) - {"issue", "report"}
    known = set(dir(holdfast.runtime)) | set(dir(testing))
    assert called
    assert called <= known, called - known


@pytest.mark.parametrize("module", MODULES)
def test_every_example_in_a_docstring_runs(module: str) -> None:
    names: dict[str, Any] = {**vars(holdfast.runtime)}
    loaded = import_module(f"holdfast.runtime.{module}" if module != "__init__" else "holdfast.runtime")
    runner = doctest.DocTestRunner()
    for found in doctest.DocTestFinder().find(loaded, globs=names):
        runner.run(found)
    assert runner.failures == 0
