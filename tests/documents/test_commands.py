"""The documents show command lines that `holdfast` takes: known commands, known options, nothing missing."""

import argparse
import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from holdfast.cli.main import COMMANDS, parser_of
from tests.documents.pages import FENCE, PAGES, ROOT, name_of
from tests.documents.reference import below_of

TEXTS = [*PAGES, ROOT / "docs" / "llms.txt"]
SHELLS = ("", "text", "console", "bash", "sh")
LINE = re.compile(r"^(?:\$ |> )?(?:[A-Z_]+=\S+ )*(?:uvx (?:--from \S+ )?)?(holdfast [a-z].*)")
CODE = re.compile(r"`(?:[A-Z_]+=\S+ )*(holdfast [a-z][^`]*)`")
ENDS = re.compile(r"\s(?:#|\||&&|>|;)(?=\s|$)|;(?=\s|$)")


def whole_lines(text: str) -> Iterator[str]:
    """The commands of code blocks, each with what a backslash continues."""
    for _, language, code in FENCE.findall(text):
        if language in SHELLS:
            for line in code.replace("\\\n", " ").splitlines():
                if found := LINE.match(line.strip()):
                    yield ENDS.split(found[1])[0].strip()


def refused(line: str) -> str:
    """What the parser says against a command line; nothing if it takes it."""
    _, command, *words = shlex.split(line)
    if command not in COMMANDS:
        return f"there is no command {command}"
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            parser_of(command).parse_args(words)
    except SystemExit as end:
        return told.getvalue().strip().splitlines()[-1] if end.code else ""
    return ""


def options_of(command: str) -> set[str]:
    """Those of a command and of everything below it."""
    found: set[str] = set()
    waiting: list[argparse.ArgumentParser] = [parser_of(command)]
    while waiting:
        for action in waiting.pop()._actions:
            found |= set(action.option_strings)
            waiting.extend(below_of(action).values())
    return found


SHOWN = [(name_of(page), line) for page in TEXTS for line in whole_lines(page.read_text("utf-8"))]


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=[f"{page}: {line}" for page, line in SHOWN])
def test_a_command_line_in_a_code_block_is_one_that_its_command_takes(page: str, line: str) -> None:
    assert not refused(line), page


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_a_command_in_a_sentence_exists_with_its_options(page: Path) -> None:
    for line in CODE.findall(FENCE.sub("", page.read_text("utf-8"))):
        _, command, *words = re.split(r"[\s,]+", ENDS.split(line)[0].strip())
        assert command in COMMANDS, line
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word, re.I)}
        assert options <= options_of(command), line


def test_a_command_that_does_not_exist_is_found() -> None:
    page = "```text\n$ X=1 holdfast invoke a \\\n  --func b   # why\n$ holdfast nothing\n$ holdfast gc\n```\n"
    lines = list(whole_lines(page))
    assert lines == ["holdfast invoke a    --func b", "holdfast nothing", "holdfast gc"]
    assert [bool(refused(line)) for line in lines] == [False, True, True]
