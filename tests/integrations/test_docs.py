"""The examples in the documents that need libraries of others run, too."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.pages import PAGES, blocks, name_of
from tests.test_docs import OTHERS

BLOCKS = [
    pytest.param(block, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page.read_text("utf-8"), "python"))
    if OTHERS.search(block)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs(block: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", block]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
