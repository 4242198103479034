from collections.abc import AsyncGenerator

import pytest

from holdfast.client.http import HttpClient
from holdfast.server import Settings, running
from tests.client.weather import Weather, weather


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    """A real server, in memory, in debug mode."""
    async with running(Settings(port=0, store="memory:", debug=True)) as server:
        yield server.url


@pytest.fixture
async def sky(url: str) -> AsyncGenerator[Weather]:
    """Whatever happens between the client and that server."""
    async with weather(url) as proxy:
        yield proxy


@pytest.fixture
async def client(sky: Weather) -> AsyncGenerator[HttpClient]:
    async with HttpClient([sky.url]) as connected:
        yield connected
