"""`holdfast mcp`, spoken to by the client of the official package: on standard input, and by HTTP."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import holdfast as hf
from holdfast.ext.mcp import text_chars_max
from tests.processes import environment

READING = ["list", "look"]
WRITING = ["start", "tell", "ask", "settle", "retry"]


class Shop:
    """An app at work in this process, on a file that the command opens too."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/holdfast.db"
        self.app = app = hf.App(self.url)
        self.is_open = False

        def pack(what: str) -> str:
            if not self.is_open:
                raise ValueError("the shop is closed")
            return f"packed {what}"

        @app.workflow
        async def order(what: str) -> str:
            if not await hf.promise(bool, name="approval"):
                return "refused"
            async for message in hf.mailbox(str):
                message.answer(len(message.value))
                break
            return await hf.run(pack, what)

        @app.workflow
        async def long(size: int) -> str:
            return "x" * size


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    with made.app:
        yield made


@contextlib.asynccontextmanager
async def by_stdio(shop: Shop, *words: str) -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "holdfast", "mcp", "-S", shop.url, *words], env=environment()
    )
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def by_http(shop: Shop, *words: str) -> AsyncIterator[ClientSession]:
    command = [sys.executable, "-m", "holdfast", "mcp", "-S", shop.url, "--http", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:  # noqa: ASYNC220
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert found
        try:
            async with (
                streamable_http_client(found[0]) as streams,
                ClientSession(streams[0], streams[1]) as session,
            ):
                await session.initialize()
                yield session
        finally:
            process.terminate()


async def names(session: ClientSession) -> list[str]:
    return [tool.name for tool in (await session.list_tools()).tools]


async def call(session: ClientSession, tool: str, /, **arguments: Any) -> Any:
    result = await session.call_tool(tool, arguments)
    [content] = result.content
    assert not result.is_error, content
    return json.loads(content.text)


async def refused(session: ClientSession, tool: str, /, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)


@pytest.mark.parametrize("reach", [by_stdio, by_http])
async def test_without_write_a_model_only_looks(shop: Shop, reach: Any) -> None:
    async with reach(shop) as session:
        assert await names(session) == READING
        for name in WRITING:
            assert "Unknown tool" in await refused(session, name, id="o-1", workflow="order")
        assert await call(session, "list") == []
        tools = (await session.list_tools()).tools
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)


@pytest.mark.parametrize("reach", [by_stdio, by_http])
async def test_with_write_a_model_leads_an_execution_to_its_end(shop: Shop, reach: Any) -> None:
    async with reach(shop, "--write") as session:
        assert await names(session) == READING + WRITING
        started = await call(session, "start", workflow="order", arguments={"what": "tea"}, id="o-1")
        again = await call(session, "start", workflow="order", arguments={"what": "tea"}, id="o-1")
        assert started == again == {"id": "o-1"}
        await call(session, "settle", id="o-1", name="approval", value=True)
        assert await call(session, "ask", id="o-1", message="hello") == {"answer": 5}
        with pytest.raises(ValueError, match="closed"):
            await shop.app.handle("o-1")
        [listed] = await call(session, "list", status="failed", workflow="order")
        assert (listed["id"], listed["state"]) == ("o-1", "failed")
        shown = await call(session, "look", id="o-1")
        assert "the shop is closed" in shown["error"]
        assert [step["state"] for step in shown["steps"] if step["kind"] == "step"] == ["failed"]
        shop.is_open = True
        await call(session, "retry", id="o-1")
        assert await shop.app.handle("o-1") == "packed tea"
        assert (await call(session, "look", id="o-1"))["result"] == "packed tea"


async def test_what_is_refused_is_said_with_its_code(shop: Shop) -> None:
    async with by_stdio(shop, "--write") as session:
        assert "HF1401" in await refused(session, "look", id="nobody")
        assert "NoSuchExecution" in await refused(session, "tell", id="nobody", message=1)
        await call(session, "start", workflow="order", arguments={"what": "tea"}, id="o-1")
        assert "IdTaken" in await refused(
            session, "start", workflow="order", arguments={"what": "milk"}, id="o-1"
        )
        await call(session, "settle", id="o-1", name="approval", error="too dear")
        with pytest.raises(hf.errors.RemoteError, match="too dear"):
            await shop.app.handle("o-1")


async def test_a_long_result_is_cut(shop: Shop) -> None:
    async with by_stdio(shop, "--write") as session:
        await call(session, "start", workflow="long", arguments={"size": 100_000}, id="l-1")
        await shop.app.handle("l-1")
        shown = await call(session, "look", id="l-1")
        assert len(shown["result"]) < text_chars_max + 100
        assert "100002 characters" in shown["result"]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "mcp", "-S", f"sqlite:///{tmp_path}/typo.db"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)
    assert done.returncode != 0
    assert "typo.db" in done.stderr
    assert not (tmp_path / "typo.db").exists()
