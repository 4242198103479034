"""docs/reference/management.md is true: its commands run, in the order in which they stand, by curl."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.server.management.routes import ROUTES
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.test_api import until


@dataclass
class Item:
    name: str
    price: int


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "management.md"
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines()
]


async def curl(command: str, url: str) -> str:
    words = shlex.split(command.replace("http://127.0.0.1:8001", url))
    assert words[0] == "curl"
    process = await asyncio.create_subprocess_exec(
        *words, "--fail-with-body", "-g", stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    is_ended = "--max-time" in words  # a stream, which ends only because of that
    assert process.returncode == (28 if is_ended else 0), (command, answer)
    return answer.decode()


async def test_every_command_of_the_page_works() -> None:
    assert len(COMMANDS) >= 20
    async with running(Settings(port=0, store="memory:")) as server:
        app = hf.App(server.url)

        @app.workflow
        async def approve(name: str) -> str:
            return await hf.promise(str, timeout="1h") + name

        @app.workflow
        async def basket(size: int) -> list[str]:
            names: list[str] = []
            async for message in hf.mailbox(Item):
                names.append(message.value.name)
                await hf.emit("log", message.value.name)
                await hf.publish("size", len(names))
                message.answer(len(names))
                if len(names) == size:
                    break
            return names

        async with app:
            api = Api(server.url)
            for command in COMMANDS:
                if "/resolve" in command or "/halt" in command:  # it must wait for that first
                    await until(api, "order-17", "suspended")
                answer = await curl(command, server.url)
                if "--max-time" in command:
                    assert "event: " in answer, command
                else:
                    assert isinstance(json.loads(answer), dict), command


@pytest.mark.parametrize("noun", sorted({route.parts[1] for route in ROUTES}))
def test_the_page_tells_of_every_noun(noun: str) -> None:
    assert f"/v1/{noun}" in PAGE.read_text("utf-8")
