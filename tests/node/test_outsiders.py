"""Two nodes on one SQLite file: each notices what the other has committed. Here both are in one process."""

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.node import foreign_writes


def an_app(folder: Path, *, worker: bool) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db", worker=worker)

    @app.workflow
    async def nap(number: int) -> int:
        await hf.sleep(0.1)
        return number

    @app.workflow
    async def asks() -> str | None:
        return await hf.race([hf.promise(str), hf.run(asyncio.sleep, 60, name="busy")])

    return app


async def test_a_result_that_another_process_has_found_is_seen_at_once(tmp_path: Path) -> None:
    caller, worker = an_app(tmp_path, worker=False), an_app(tmp_path, worker=True)
    async with worker, caller:
        for number in range(3):
            async with asyncio.timeout(25):  # a task is offered again after 30 s
                assert await caller.start("nap", number) == number


async def test_a_promise_that_another_process_has_settled_is_seen_by_an_execution_that_runs(
    tmp_path: Path,
) -> None:
    caller, worker = an_app(tmp_path, worker=False), an_app(tmp_path, worker=True)
    async with worker, caller, asyncio.timeout(25):
        handle = await caller.start("asks", id="a1").started()
        while True:
            try:
                await caller.resolve("a1:1", "yes")
                break
            except hf.errors.Refused:  # it is not there yet
                await asyncio.sleep(0.01)
        assert await handle == "yes"


async def test_processes_that_look_at_what_others_did_do_not_wake_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_writes, "look_s", 0.02)
    one, other = an_app(tmp_path, worker=True), an_app(tmp_path, worker=True)
    async with one, other, asyncio.timeout(60):
        assert await one.start("nap", 1) == 1
        assert await other.start("nap", 2) == 2
        before = -1
        while commits_of(one) + commits_of(other) != before:  # for as long as they have things to begin with
            before = commits_of(one) + commits_of(other)
            await asyncio.sleep(0.3)


def commits_of(app: hf.App) -> int:
    node = app.session._node  # pyright: ignore[reportPrivateUsage]
    assert node is not None
    return node.stats.commits + node.stats.sweeps
