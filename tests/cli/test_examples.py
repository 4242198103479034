"""The examples at the end of a command's help are commands that it takes."""

import shlex

import pytest

from holdfast.cli.examples import EXAMPLES, shown
from holdfast.cli.main import COMMANDS, parser_of
from tests.processes import holdfast

LINES = [(command, line) for command, lines in EXAMPLES.items() for line in lines]


@pytest.mark.parametrize(("command", "line"), LINES, ids=[line for _, line in LINES])
def test_an_example_is_a_command_line_that_its_command_takes(command: str, line: str) -> None:
    program, named, *words = shlex.split(line)
    assert (program, named) == ("holdfast", command)
    parsed = parser_of(command).parse_args(words)
    assert callable(parsed.run)


def test_the_examples_are_in_the_help_line_by_line() -> None:
    assert set(EXAMPLES) <= set(COMMANDS)
    told = holdfast("fork", "--help")
    assert told.code == 0
    assert told.out.endswith(f"{shown('fork')}\n")
