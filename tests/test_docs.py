"""What the documents say is true: their Python runs, their commands exist, their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.protocol import errors
from holdfast.store import interface
from holdfast.worker import errors as worker_errors

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))
    if "..." not in block  # a sketch, not a program
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_in_the_documents_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text("utf-8")))
    assert named
    assert named <= targets


def test_every_error_code_is_listed_once() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    classes = [
        found
        for module in (errors, interface, worker_errors)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, errors.HoldfastError)
    ]
    codes = {found.code for found in classes} - {"HF0000", errors.Refusal.code}
    assert codes
    for code in codes:
        assert page.count(f"| {code} |") == 1, code


def test_the_demo_tells_its_story_to_the_end() -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "kill -9 worker-1" in done.stdout
    assert done.stdout.count("not repeated") == 2
    assert "order-17  resolved: delivered" in done.stdout
