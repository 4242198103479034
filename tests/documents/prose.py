"""How long the sentences of the documents are, and which words they should not use.

    python -m tests.documents.prose             # a line for each page
    python -m tests.documents.prose docs/x.md   # the long sentences of a page, and its words

1. Only prose counts: no code blocks, tables, headings, pictures or addresses.
2. A piece of `code` is one word. An item of a list is at least one sentence.
3. Every page keeps these bounds, except those that are generated (`tests/documents/pages.py`).
"""

import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.documents.pages import FENCE, PAGES, ROOT, name_of

WORDS_MEDIAN_MAX = 16
WORDS_MAX = 40
# Each pattern with what to write instead.
WORDS = [
    line.split("\t")
    for line in (Path(__file__).parent / "words.tsv").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
ENDS = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`])")
SHORT = re.compile(r"\b(e\.g|i\.e|etc|vs|approx|no|St)\.$")


@dataclass(frozen=True)
class Prose:
    """A page, measured."""

    page: str
    sentences: list[str]
    lengths: list[int]
    words: list[str]

    @property
    def median(self) -> float:
        return statistics.median(self.lengths) if self.lengths else 0

    @property
    def too_long(self) -> list[str]:
        return [text for text, length in zip(self.sentences, self.lengths, strict=True) if length > WORDS_MAX]


def paragraphs(text: str) -> list[str]:
    """Each paragraph and each item of a list, as one line."""
    text = FENCE.sub("\n\n", text)
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", "", text, flags=re.S)
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        bare = line.strip().lstrip("> ")
        if not bare or bare.startswith(("#", "|", "!", "---")):
            found.append([])
            continue
        item = re.match(r"(?:[-*+]|\d+\.)\s+", bare)
        if item:
            found.append([])
            bare = bare[item.end() :]
        found[-1].append(bare)
    return [" ".join(lines) for lines in found if lines]


def sentences(text: str) -> list[str]:
    found: list[str] = []
    for paragraph in paragraphs(text):
        plain = re.sub(r"`[^`]*`", "`code`", paragraph)
        plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", plain)
        whole = ""
        for part in ENDS.split(plain):
            whole = f"{whole} {part}".strip()
            if not SHORT.search(whole):
                found.append(whole)
                whole = ""
        if whole:
            found.append(whole)
    return [sentence for sentence in found if re.search(r"[A-Za-z]{2}", sentence)]


def measure(page: Path) -> Prose:
    text = page.read_text("utf-8")
    each = sentences(text)
    bare = "\n".join(each)
    found = [
        f"{match[0]!r}: write {instead}"
        for pattern, instead in WORDS
        for match in re.finditer(pattern, bare, re.I)
    ]
    return Prose(name_of(page), each, [len(re.findall(r"[\w`]\S*", one)) for one in each], found)


def main(names: list[str]) -> None:
    for page in [ROOT / name for name in names] or [page for page in PAGES if page.exists()]:
        prose = measure(page)
        longest = max(prose.lengths, default=0)
        count = len(prose.lengths)
        print(f"{prose.page:44} {count:4} sentences, median {prose.median:4.1f}, longest {longest}")
        if names:
            print(*(f"  {text}" for text in prose.too_long), *(f"  {word}" for word in prose.words), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
