"""The examples of traces and error reports run as scripts, and say what happened."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "observability"
SAID = {
    "traces": [
        "attempt charge ERROR",
        "attempt charge UNSET",
        "sleep UNSET",
        "start checkout UNSET",
        "step charge UNSET",
        "workflow checkout UNSET",
    ],
    "error_reports": ["ask for another card", "the bank is away 3"],
}


def test_every_example_is_tried_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_as_a_script(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == SAID[name]
