"""The management API of a server on each store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.server import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.postgres import database_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as server:
        yield Api(server.url)
