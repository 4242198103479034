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
