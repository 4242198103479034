from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from holdfast.node import Node
from holdfast.store.postgres import PostgresStore
from tests.postgres import database_url


@pytest.fixture
async def url() -> str:
    """A database of its own, with no schema yet."""
    return database_url()


@pytest.fixture
async def nodes(url: str) -> AsyncIterator[list[Node]]:
    """Three nodes on it."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Node(PostgresStore(url))) for _ in range(3)]
