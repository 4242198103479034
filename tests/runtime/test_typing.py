"""The examples of typing_examples.py pass both checkers: types are kept, wrong arguments are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(__file__).with_name("typing_examples.py")


def check(*command: str) -> None:
    pytest.importorskip(command[0])
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mypy_knows_the_types_and_refuses_wrong_arguments() -> None:
    check("mypy", "--warn-unused-ignores", str(EXAMPLES))


@pytest.mark.slow
def test_pyright_knows_the_types_and_refuses_wrong_arguments() -> None:
    check("pyright", str(EXAMPLES))
