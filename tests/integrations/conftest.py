import gc
import os
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _wanted() -> None:
    if not os.environ.get("HOLDFAST_INTEGRATIONS"):
        pytest.skip("other people's servers are tested by `make test-integrations`, which installs them")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What a library leaves behind in one test, such as an open loop, is not told in another."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
