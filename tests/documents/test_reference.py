"""What is generated is up to date, and every public name, command, option and metric is documented."""

import argparse
import inspect
import re
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import testing
from holdfast.cli.main import COMMANDS
from holdfast.server.settings import SETTINGS
from tests.documents.pages import DOCS, ROOT
from tests.documents.reference import GIVEN, INTERNAL, PAGES, below_of, groups, parsers, public, written
from tests.documents.signatures import document, members


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == written(name), "run `make docs-reference`"


def test_every_public_name_is_in_one_group() -> None:
    found = [name for names in groups().values() for name in names]
    assert sorted(found) == sorted(public())


def test_every_public_name_says_what_it_is() -> None:
    without = [name for name, found in public().items() if callable(found) and not document(found)]
    assert not without


def test_the_page_on_the_command_line_names_every_command() -> None:
    page = (DOCS / "reference" / "cli.md").read_text("utf-8")
    assert not [
        name for name in COMMANDS if not re.search(rf"`(?:holdfast )?{name}\b|holdfast {name}\b", page)
    ]


def test_every_option_says_what_it_does() -> None:
    without = [
        f"{title} {action.option_strings or action.dest}"
        for name in COMMANDS
        for title, parser in parsers(name)
        for action in parser._actions
        if not action.help and not below_of(action)
    ]
    assert not without


def test_every_command_has_a_table_of_all_its_options() -> None:
    """Those of the connection are listed once, and those of `dev` that are as in `serve` stand there."""
    page = (DOCS / "reference" / "commands.md").read_text("utf-8")
    parts = {part.partition("`")[0]: part for part in page.split("# `holdfast ")[1:]}
    shared = page.partition("## Connection options")[2].partition("\n## ")[0]
    without = [
        f"{title} {option}"
        for name in COMMANDS
        for title, parser in parsers(name)
        for action in parser._actions
        for option in action.option_strings
        if option not in ("-h", "--help")
        and action.help != argparse.SUPPRESS
        and f"`{option}" not in parts[title] + parts["serve"] * (title == "dev")
        and not (f"`{option}" in shared and "connection options" in parts[title])
    ]
    assert not without


def test_options_that_a_docstring_explains_become_a_list() -> None:
    def several() -> None:
        """Do it.

        Before them. `first`: one, of
        two. More of it. `second`, `third`: the rest.

        `alone`: is no list.
        """

    assert document(several).split("\n") == [
        *(
            "Do it.",
            "",
            "Before them.",
            "",
            "- `first`: one, of two. More of it.",
            "- `second`, `third`: the rest.",
        ),
        *("", "`alone`: is no list."),
    ]


def test_every_method_that_is_shown_says_what_it_does() -> None:
    shown = {name: found for name, found in public().items() if inspect.isclass(found)}
    shown |= {name: getattr(testing, name) for name in testing.__all__}
    shown |= {call: found for calls in GIVEN.values() for call, found in calls.items()}
    without = [
        f"{name}.{one}"
        for name, found in shown.items()
        if inspect.isclass(found)
        for one, value in members(found).items()
        if one not in INTERNAL.get(found.__name__, "").split()
        and not document(value)
        and not one.endswith("_async")
    ]
    assert not without


def metrics() -> set[str]:
    """Every metric that the sources name."""
    found: set[str] = set()
    for path in [*(ROOT / "src/holdfast/server").rglob("*.py"), *(ROOT / "src/holdfast/host").rglob("*.py")]:
        found |= set(re.findall(r"\"(holdfast_[a-z_]+)\"", path.read_text("utf-8")))
    return found


def described(page: Path) -> set[str]:
    return set(re.findall(r"`(holdfast_[a-z_]+)`?", page.read_text("utf-8")))


def test_every_metric_is_described_and_no_other() -> None:
    page = described(DOCS / "reference" / "metrics.md")
    assert metrics() == page


def test_every_variable_of_the_environment_is_described_and_no_other() -> None:
    settings = {setting.variable for setting in SETTINGS}
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"[\"'](HOLDFAST_[A-Z_]+[A-Z])[\"']", sources))
    pages = "".join(path.read_text("utf-8") for path in [*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md"])
    described = set(re.findall(r"\b(HOLDFAST_[A-Z_]+[A-Z])\b", pages))
    assert read - settings <= described
    assert described <= read | settings


def test_every_method_of_the_app_is_described() -> None:
    without = [
        name for name, value in members(hf.App).items() if not document(value) and not name.endswith("_async")
    ]
    assert not without
