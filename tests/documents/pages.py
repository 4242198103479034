"""Which pages there are, and what in a page is prose, code or a link. Knows nothing about what they say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "CHANGELOG.md")),
    ROOT / "examples" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```\s*$", re.M | re.S)
GENERATED = {"docs/reference/api.md", "docs/reference/commands.md", "docs/reference/limits.md"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return [code for _, found, code in FENCE.findall(text) if found == language]


def anchors(text: str) -> set[str]:
    """What a link may name behind `#`: the headings, as code hosts and the site write them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found


def wrapped_lines(text: str) -> list[str]:
    """The lines of prose that go on with what the line before began: there should be none, as a paragraph or
    an item of a list is one line, and the reader's screen breaks it."""
    return [line for line, goes_on in _lines(text) if goes_on]


def unwrapped(text: str) -> str:
    """The same text with each paragraph and each item of a list on one line."""
    lines: list[str] = []
    for line, goes_on in _lines(text):
        if goes_on:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


_begins_anew = re.compile(r"\s*([-*]\s|[>|<#]|\d+\.\s|\[\^|$)|    ")
_stands_alone = re.compile(r"\s*([|<#]|$)|---")


def _lines(text: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    in_code = may_go_on = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            in_code, may_go_on = not in_code, False
            found.append((line, False))
            continue
        found.append((line, may_go_on and not in_code and not _begins_anew.match(line)))
        may_go_on = not in_code and not _stands_alone.match(line)
    return found
