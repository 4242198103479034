"""Entities on every store, in this process and behind a server: each call is applied once, in order."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.postgres import database_url
from tests.processes import Server

callers = 8
calls_each = 5
patience_s = 300.0


def make_app(url: str, *, worker: bool = True) -> tuple[hf.App, Any]:
    app = hf.App(url, worker=worker)

    @app.entity
    class Tally(hf.Entity):
        count: int = 0

        async def add(self, *, with_step: bool = False) -> int:
            self.count += 1
            if with_step:
                await hf.run(int)
            return self.count

        async def refuse(self) -> None:
            self.count += 1_000
            raise ValueError("not so")

        @hf.read
        async def show(self) -> int:
            return self.count

    @app.workflow
    async def adding(key: str, times: int) -> list[int]:
        return [await Tally(key).add() for _ in range(times)]

    return app, Tally


@pytest.fixture(params=["memory", "sqlite", "postgres", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "memory":
            yield "memory:"
        case "sqlite":
            yield f"sqlite:///{tmp_path / 'entities.db'}"
        case "postgres":
            yield database_url()
        case _:
            with Server(tmp_path) as server:
                yield server.url


async def test_calls_beside_each_other_are_applied_one_after_the_other(url: str) -> None:
    """All at once, so that messages wait in the mailbox while a call is handled."""
    app, tally = make_app(url)

    async def call(caller: int) -> list[int]:
        entity: Any = app.entity(tally, "shared")
        told = [await entity.add(with_step=(caller + number) % 4 == 0) for number in range(calls_each)]
        with pytest.raises(ValueError, match="not so"):
            await entity.refuse()
        return told

    async with asyncio.timeout(patience_s), app:
        heard = await asyncio.gather(*map(call, range(callers)))
        for own in heard:
            assert own == sorted(own)
        told = sorted(number for own in heard for number in own)
        assert told == [*range(1, callers * calls_each + 1)]
        assert await app.entity(tally, "shared").show() == callers * calls_each


async def test_calls_after_each_other_by_a_workflow_and_from_outside(url: str) -> None:
    app, tally = make_app(url)
    async with asyncio.timeout(patience_s), app:
        entity: Any = app.entity(tally, "one")
        assert [await entity.add() for _ in range(10)] == [*range(1, 11)]
        assert await app.start("adding", "one", 5) == [*range(11, 16)]
        assert (await app.entities(tally).state("one")).count == 15


@pytest.mark.parametrize("url", ["postgres", "server"], indirect=True)
async def test_several_workers_share_the_instances(url: str) -> None:
    asking, tally = make_app(url, worker=False)
    first, _ = make_app(url)
    second, _ = make_app(url)
    keys = [f"k{number}" for number in range(4)]

    async def call(caller: int) -> list[tuple[str, int]]:
        heard: list[tuple[str, int]] = []
        for number in range(calls_each):
            key = keys[(caller + number) % len(keys)]
            heard.append((key, await asking.entity(tally, key).add()))
        return heard

    async with asyncio.timeout(patience_s), first, second, asking:
        told = [pair for heard in await asyncio.gather(*map(call, range(callers))) for pair in heard]
        for key in keys:
            own = sorted(number for name, number in told if name == key)
            assert own == [*range(1, len(own) + 1)]
            assert await asking.entity(tally, key).show() == len(own)
