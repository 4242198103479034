"""Pages are found, linked and named as they should be, on the site and on a code host alike."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.documents.pages import DOCS, FENCE, LINK, PAGES, ROOT, anchors, name_of

SITE = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]


def listed(entries: Any) -> list[str]:
    """Every page in the navigation, in its order."""
    if isinstance(entries, str):
        return [entries]
    each: list[Any] = [*entries.values()] if isinstance(entries, dict) else entries
    return [page for below in each for page in listed(below)]


def test_every_page_is_in_the_navigation_once() -> None:
    found = listed(SITE["nav"])
    assert sorted(found) == sorted(set(found))
    assert set(found) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {
        "llms-guide.md"
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_names_a_page_and_a_heading_that_exist(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text("utf-8")), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_of_the_site_links_to_nothing_outside_of_it(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" not in target and not target.startswith("#"):
            there = (page.parent / target.partition("#")[0]).resolve()
            assert there.is_relative_to(DOCS), f"{name_of(page)} links to {target}: name the file instead"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_has_one_title(page: Path) -> None:
    assert len(re.findall(r"^# ", FENCE.sub("", page.read_text("utf-8")), re.M)) == 1


def test_every_picture_says_what_it_shows() -> None:
    for page in PAGES:
        for shown in re.findall(r"!\[([^]]*)\]\(", page.read_text("utf-8")):
            assert shown.strip(), name_of(page)


@pytest.mark.parametrize("listing", ["index.md", "patterns.md"])
def test_each_how_to_page_is_listed(listing: str) -> None:
    folder = DOCS / "how-to"
    links = LINK.findall((folder / listing).read_text("utf-8"))
    pages = {page.name for page in folder.glob("*.md")} - {"index.md", "patterns.md"}
    assert pages <= {target.partition("#")[0] for target in links}


def test_the_index_of_examples_names_each_once_and_each_is_short() -> None:
    folder = ROOT / "examples"
    index = (folder / "README.md").read_text("utf-8")
    programs = [path for path in folder.rglob("*.py") if path.name != "__init__.py"]
    listed_here = re.findall(r"^\| \[([\w/.]+)\]\(([\w/.]+)\)", index, re.M)
    assert all(name == target for name, target in listed_here)
    names = [path.relative_to(folder).as_posix() for path in programs]
    assert sorted(name for name, _ in listed_here) == sorted(names)
    assert not [path.name for path in programs if path.read_text("utf-8").count("\n") >= 100]


def test_no_page_has_you_fetch_the_package_from_pypi_where_its_name_is_that_of_another_project() -> None:
    """With an extra is fine: pip then takes Holdfast as it is installed, and adds packages to it."""
    fetched = re.compile(
        r"(?:pip|uv) install[^`\n]*[\s'\"]holdfast(?![\w\[/])|uvx holdfast|install -U[^`\n]*holdfast"
    )
    for page in [*PAGES, DOCS / "llms.txt"]:
        assert not fetched.findall(page.read_text("utf-8")), name_of(page)
    for path in (ROOT / "deploy").rglob("*.service"):  # what these install into is empty
        assert "install 'holdfast" not in path.read_text("utf-8"), path.name


def test_an_entry_of_the_changelog_stands_there_once() -> None:
    """Merges like to double them."""
    entries = re.findall(r"^- .{30}", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert sorted(entries) == sorted(set(entries))
