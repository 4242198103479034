"""What typing_examples.py claim, both checkers find: types are kept, and wrong arguments are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = [str(ROOT / "tests" / part / "typing_examples.py") for part in ("workflow", "jobs")]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["mypy", "--warn-unused-ignores"], ["pyright"]], ids=["mypy", "pyright"])
def test_types_are_kept_and_wrong_arguments_refused(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command, *EXAMPLES],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
