import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _wanted() -> None:
    if not os.environ.get("HOLDFAST_INTEGRATIONS"):
        pytest.skip("other people's servers are tested by `make test-integrations`, which installs them")
