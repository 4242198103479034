"""Every example with an agent library runs as a script, as often as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples" / "agents"
SAID = {
    "pydantic_ai_agent": "Take |an |umbrella.|\nTake an umbrella.",
    "approve_a_tool_call": "approve a transfer of 0 cents?\n0 cents are on their way\nDone.",
    "openai_agents_agent": "asking for the weather in Lisbon\nTake an umbrella.",
    "look_by_mcp": "['list', 'look', 'start', 'tell', 'ask', 'settle', 'retry']\ntea is on its way",
    "langgraph_agent": "writing about frogs\nFrogs can jump.\n['Frogs can jump.', '(true, and far)']",
}


def test_every_example_is_tried_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_as_a_script_and_runs_again(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().endswith(SAID[name])
        assert not done.stderr
