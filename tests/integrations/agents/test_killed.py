"""A run of twelve model and tool calls, killed before and after each: the same answer, and twelve calls."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integrations.agents.paid_calls import entries
from tests.processes import environment

ROOT = Path(__file__).parent.parent.parent.parent
LIBRARIES = ("pydantic_ai", "openai_agents", "langgraph")
ANSWER = "added [10, 11], added [10, 11, 12, 13, 14]"
CALLS = ["model", "add"] * 2 + ["model"] + ["model", "add"] * 3 + ["model"]


def lives(library: str, folder: Path, points: Sequence[str]) -> None:
    command = [sys.executable, "-m", "tests.integrations.agents.lives", library, str(folder), *points]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), timeout=600, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_run_that_is_killed_before_and_after_each_of_its_calls_pays_for_each_once(
    library: str, tmp_path: Path
) -> None:
    lives(library, tmp_path, [f"{side}:{number}" for number in range(1, 13) for side in ("before", "after")])
    assert [entry["what"] for entry in entries(tmp_path / "ledger")] == CALLS
    assert (tmp_path / "answer").read_text() == ANSWER


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_call_inside_of_which_the_process_is_killed_is_made_again_under_the_same_key(
    library: str, tmp_path: Path
) -> None:
    """So whoever is paid can tell: a provider that takes idempotency keys bills twelve calls."""
    lives(
        library, tmp_path, ["inside:3", "inside:5"]
    )  # a model call; the ledger has one more then: a tool call
    paid = entries(tmp_path / "ledger")
    assert (tmp_path / "answer").read_text() == ANSWER
    assert len(paid) == 14
    keys = [entry["step"] for entry in paid]
    assert keys[2] == keys[3]
    assert keys[4] == keys[5]
    assert len(set(keys)) == 12
