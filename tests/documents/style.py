"""Reads the prose of the documents with proselint: `python -m tests.documents.style`, a part of `make check`.

It is given sentences only, because it takes code and tables for prose. Our own words are in words.tsv, which
prose.py reads.
"""

import sys

from proselint.checks import __register__ as checks
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from tests.documents.pages import GENERATED, PAGES, name_of
from tests.documents.prose import sentences

# What we write otherwise: straight quotes, three dots, "exactly-once".
OFF = {"lexical_illusions", "misc", "restricted", "typography"}
CONFIG = Config(max_errors=1_000, checks={name: name not in OFF for name in DEFAULT["checks"]})


def main() -> int:
    CheckRegistry().register_many(checks)
    found = 0
    for page in PAGES:
        if name_of(page) in GENERATED:
            continue
        for sentence in sentences(page.read_text("utf-8")):
            for result in LintFile(name_of(page), sentence).lint(CONFIG):
                found += 1
                print(f"{name_of(page)}: {result.check_result.message}\n    {sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
