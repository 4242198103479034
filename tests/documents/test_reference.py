"""What is generated is up to date, and every public name, command, option and metric is documented."""

import re
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli.main import COMMANDS
from tests.documents.pages import DOCS, ROOT
from tests.documents.reference import PAGES, groups, parsers, public, written
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
        if not action.help and action.option_strings
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


def test_every_method_of_the_app_is_described() -> None:
    without = [
        name for name, value in members(hf.App).items() if not document(value) and not name.endswith("_async")
    ]
    assert not without
