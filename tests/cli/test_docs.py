"""docs/reference/cli.md is true: its commands run, in the order in which they are written."""

import re
import shlex
from pathlib import Path

import pytest

from tests.processes import Server, holdfast

page = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


@pytest.mark.slow
def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    commands = [line.removeprefix("$ holdfast ") for block in blocks for line in block.splitlines()]
    assert len(commands) >= 15
    with Server(tmp_path) as server:
        for command in commands:
            outcome = holdfast(*shlex.split(command), "-S", server.url)
            assert outcome.code == 0, f"{command}: {outcome.err}"
