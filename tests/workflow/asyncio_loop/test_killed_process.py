"""A real process that runs an asyncio workflow is killed again and again; another one goes on."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.processes import environment

kills = 6


@pytest.mark.slow
def test_an_asyncio_workflow_survives_the_death_of_its_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.workflow.asyncio_loop.mortal_program", str(tmp_path)]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
            assert process.stdout is not None
            for count, _line in enumerate(process.stdout, 1):
                if count == 3:
                    break
            process.kill()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=True)
    [result] = [line for line in done.stdout.splitlines() if line.startswith("result")]
    seen = result.removeprefix("result ").split(",")
    assert sorted(seen) == sorted(f"seen {name}{number}" for name in "ab" for number in range(4))
    for name in "ab":  # each producer's items in its own order
        assert [each for each in seen if f" {name}" in each] == [f"seen {name}{n}" for n in range(4)]
    attempts = Counter((tmp_path / "steps").read_text().split("\n"))
    # What was recorded is not performed again: only the steps under way at a kill are, at most two of them.
    assert sum(attempts.values()) - len(attempts) <= 3 * kills
