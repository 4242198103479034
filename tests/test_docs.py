"""What the documents say is true: their Python runs, their commands exist, every error is listed."""

import importlib
import pkgutil
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast.ext.optional import MissingLibrary
from holdfast.protocol.errors import HoldfastError
from tests.counts import FULL
from tests.documents.pages import PAGES, ROOT, blocks, name_of

# Libraries of others, with which `make test-integrations` runs the examples that import them.
OTHERS = re.compile(
    r"^(?:import|from) (?:opentelemetry|sentry_sdk|structlog|loguru|pydantic_ai|agents|langgraph|mcp|"
    r"fastapi|starlette|flask|django)\b",
    re.M,
)
TESTS = "\ndef test_"  # in a block that is a file of tests
RUNS = ("first", "second") if FULL else ("first",)


def is_quick(block: str, number: int) -> bool:
    """`make test` runs the first example of each page, once; `make test-all` runs all of them, twice."""
    return number == 0 and TESTS not in block


BLOCKS = [
    pytest.param(
        block,
        id=f"{name_of(page)}-{number}",
        marks=pytest.mark.sized if is_quick(block, number) else pytest.mark.slow,
    )
    for page in PAGES
    for number, block in enumerate(blocks(page.read_text("utf-8"), "python"))
    if not OTHERS.search(block)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_in_the_documents_runs_and_runs_again(block: str, tmp_path: Path) -> None:
    """In one folder, as a reader would: the second run finds what the first one stored there, if anything."""
    command = [sys.executable, "-c", block]
    if TESTS in block:
        (tmp_path / "test_shop.py").write_text(block, "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    for run in RUNS:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"the {run} run: {done.stderr or done.stdout}"
        if not any(tmp_path.glob("*.db*")):
            return  # nothing that a second run could find


def test_every_command_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text("utf-8"), re.M))
    assert named
    assert named <= targets


def error_classes() -> list[type[HoldfastError]]:
    """Every class with a code of its own, anywhere in the package."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            with suppress(MissingLibrary):  # the library that it adapts is only in another environment
                importlib.import_module(module.name)
    found: list[type[HoldfastError]] = []
    waiting = [*HoldfastError.__subclasses__()]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if "code" in vars(cls) and cls.__module__.startswith("holdfast.") and cls not in found:
            found.append(cls)
    return found


def test_every_error_has_a_code_of_its_own_that_is_listed_once() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    codes = [cls.code for cls in error_classes()]
    assert len(codes) > 40
    assert len(codes) == len(set(codes)), "two errors share a code"
    for code in codes:
        assert page.count(f"| {code} |") == 1, code


def test_every_code_that_is_listed_is_one_of_the_sources() -> None:
    listed = re.findall(r"^\| (HF\d{4}) \|", (ROOT / "docs" / "errors.md").read_text("utf-8"), re.M)
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert len(listed) > 40
    assert not [code for code in listed if f'"{code}"' not in sources]


def test_the_demo_tells_its_story_to_the_end() -> None:
    command = [sys.executable, "-m", "holdfast", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed = done.stdout.index("kill -9 worker-1")
    assert done.stdout.count("not repeated") == 2
    assert done.stdout.index("not repeated") > killed
    assert done.stdout.count("label and mail the customer: done") == 1
    assert "✓ order-17 (order)" in done.stdout
    assert done.stdout.count("(step ") == 4
