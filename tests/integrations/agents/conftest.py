"""The libraries await something of their own when an error leaves them. In an execution that is killed or
torn down nobody comes to that: Python warns of a coroutine that was never awaited, as expected here."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Their libraries are installed by `make test-integrations`.
collect_ignore_glob = [] if os.environ.get("HOLDFAST_INTEGRATIONS") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            for ignored in (
                "ignore:coroutine .* was never awaited:RuntimeWarning",
                "ignore::pytest.PytestUnraisableExceptionWarning",
            ):
                item.add_marker(pytest.mark.filterwarnings(ignored))
