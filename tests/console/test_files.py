"""The files of the console, without a browser: nothing from elsewhere, no markup from users, small."""

import gzip
import re
from pathlib import Path

import pytest

from holdfast.server.console import styles

CONSOLE = Path(__file__).parent.parent.parent / "src" / "holdfast" / "console"
FILES = sorted(
    path
    for path in CONSOLE.rglob("*")
    if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
)
MODULES = [path for path in FILES if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]
LINES_MAX = 420
gzipped_bytes_max = 120_000

# What would turn a text into markup or code.
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\bsrcdoc\s*[:=](?!=)"
    r"|DOMParser|createContextualFragment|setHTML|javascript:|setAttribute\(\s*[\"']style"
)


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(CONSOLE).as_posix() for path in paths]


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_a_module_turns_no_text_into_markup_or_code(path: Path) -> None:
    assert SINKS.findall(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_a_module_says_what_it_owns_and_is_one_idea_long(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("/**"), "a module opens with what it owns"
    assert text.count("\n") <= LINES_MAX, "look for the second idea in this file"


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_a_module_imports_files_that_are_there(path: Path) -> None:
    text = path.read_text("utf-8")
    fixed = re.findall(r"""^import\b[^"'\n]*["']([^"'\n]+)["']""", text, re.M)
    later = re.findall(r"""\bimport\(["']([^"']+)["']\)""", text)
    for name in fixed + later:
        assert name.startswith("."), f"{name} comes from elsewhere"
        assert (path.parent / name).resolve().is_file(), name


def test_nothing_is_fetched_from_elsewhere() -> None:
    allowed = {"http://www.w3.org/2000/svg"}  # the name of a vocabulary, never fetched
    for path in FILES:
        found = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`)]*", path.read_text("utf-8")))
        assert found <= allowed, path


def test_one_module_talks_to_the_server() -> None:
    asks = re.compile(r"\bfetch\(|XMLHttpRequest|EventSource\(|WebSocket|sendBeacon")
    found = names([path for path in MODULES if asks.search(path.read_text("utf-8"))])
    assert found == ["js/api.js"]


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    page = (CONSOLE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert not re.search(r"\s(style|on[a-z]+)=", page)


def test_every_reference_of_the_page_is_relative_and_there() -> None:
    page = (CONSOLE / "index.html").read_text("utf-8")
    found = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    assert all(name.startswith("@assets@/") for name in found)
    paths = {name.removeprefix("@assets@/") for name in found}
    assert paths == {"icon.svg", "js/early.js", "js/main.js", "css/all.css"}
    assert paths - set(names(FILES)) == {"css/all.css"}, "which the server makes of all styles"


def test_every_style_is_in_the_one_file_of_styles() -> None:
    assert sorted(styles) == names(STYLES)


def test_styles_fetch_nothing_and_use_the_colours_that_have_names() -> None:
    for path in STYLES:
        text = path.read_text("utf-8")
        assert "url(" not in text
        assert "@import" not in text
        if path.name != "tokens.css":
            assert re.findall(r"#[0-9a-fA-F]{3,8}\b", re.sub(r"/\*.*?\*/", "", text, flags=re.S)) == []


def test_every_colour_has_a_light_and_a_dark_value() -> None:
    light, dark = (CONSOLE / "css" / "tokens.css").read_text("utf-8").split('[data-theme="dark"]')
    colour = re.compile(r"--([a-z0-9-]+):\s*(?:#|rgb)")
    assert set(colour.findall(light)) == set(colour.findall(dark))


def test_all_of_it_is_small() -> None:
    """Even all views together, as a browser loads them, are below what the first load may take."""
    text = b"".join((CONSOLE / name).read_bytes() for name in styles)
    loaded = [path.read_bytes() for path in MODULES if path.name != "types.js"]  # which has no code
    assert sum(len(gzip.compress(each, 9)) for each in [text, *loaded]) < gzipped_bytes_max
