"""The examples of typing_examples.py pass both checkers: types are kept, wrong arguments are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(__file__).with_name("typing_examples.py")


@pytest.mark.parametrize("command", [["mypy", "--warn-unused-ignores"], ["pyright"]], ids=["mypy", "pyright"])
def test_types_are_kept_and_wrong_arguments_refused(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command, str(EXAMPLES)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
