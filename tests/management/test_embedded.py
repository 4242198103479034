"""An app serves the management API of its own node."""

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import NoNodeHere
from holdfast.server.errors import OpenToTheWorld
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.test_api import until
from tests.server.http import Connection


def shop(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def hello(name: str) -> str:
        return f"hello {name}"

    return app


async def greet(api: Api) -> None:
    await api.post("executions", {"workflow": "hello", "args": ["ada"], "id": "h"})
    found = await until(api, "h", "completed")
    assert found["result"] == "hello ada"


def test_a_script_serves_it_until_the_app_is_closed(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/holdfast.db")
    with app:
        url = app.serve_management(0)
        assert url.startswith("http://127.0.0.1:")
        asyncio.run(greet(Api(url)))
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(Api(url).get("executions"))


async def test_an_asyncio_program_serves_it(tmp_path: Path) -> None:
    async with shop("memory:") as app:
        url = await app.serve_management_async(0, tokens=["a-secret-token"])
        await greet(Api(url, "a-secret-token"))
        assert await Api(url).refused("GET", "executions") == (401, "HF3101")


async def test_nothing_else_is_answered_there() -> None:
    async with shop("memory:") as app:
        connection = await Connection.open(await app.serve_management_async(0))
        assert (await connection.request("POST", "/", b"{}")).status == 404
        assert (await connection.request("GET", "/poll/default/me")).status == 404
        assert (await connection.request("GET", "/health")).status == 200
        connection.writer.close()
        await connection.writer.wait_closed()


async def test_beyond_this_machine_it_needs_a_token() -> None:
    async with shop("memory:") as app:
        with pytest.raises(OpenToTheWorld):
            await app.serve_management_async(0, host="0.0.0.0")


async def test_an_app_of_a_server_leaves_it_to_the_server() -> None:
    async with running(Settings(port=0, store="memory:")) as server, shop(server.url) as app:
        with pytest.raises(NoNodeHere):
            await app.serve_management_async(0)
