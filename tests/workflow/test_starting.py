"""Starting from asyncio: a handle is there at once, and what it stands for is not dropped without a word."""

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.host.execution_client import ExecutionClient


def an_app(folder: Path) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db")

    @app.workflow
    async def greet() -> str:
        return "hello"

    @app.workflow
    async def asks() -> str:
        return await hf.promise(str)

    return app


async def test_what_was_started_is_durable_when_the_app_has_closed_though_nobody_awaited_it(
    tmp_path: Path,
) -> None:
    app = an_app(tmp_path)
    async with app:
        app.start("greet", id="g1")
    async with app, asyncio.timeout(60):
        assert await app.handle("g1") == "hello"


async def test_a_promise_that_was_resolved_is_so_when_the_app_has_closed_though_nobody_awaited_it(
    tmp_path: Path,
) -> None:
    app = an_app(tmp_path)
    async with app:
        handle = await app.start("asks", id="a1").started()
        async with asyncio.timeout(60):
            while not await is_there(app, "a1:1"):  # noqa: ASYNC110 (nothing tells us)
                await asyncio.sleep(0.01)
        app.resolve("a1:1", "yes")
    async with app, asyncio.timeout(60):
        assert await app.handle(handle.id) == "yes"


async def refuse(*args: object) -> None:
    await asyncio.sleep(0)
    raise hf.errors.Refused(403, "no [HF3102]")


async def is_there(app: hf.App, promise_id: str) -> bool:
    node = app.session._node  # pyright: ignore[reportPrivateUsage]
    assert node is not None
    return bool(await node.find_promises([promise_id]))


async def test_started_answers_with_the_handle_once_the_start_is_durable(tmp_path: Path) -> None:
    app = an_app(tmp_path)
    async with app:
        handle = app.start("greet", id="g1")
        assert not await is_there(app, "g1")
        assert await handle.started() is handle
        assert await is_there(app, "g1")
        assert await handle == "hello"


async def test_started_raises_what_the_start_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = an_app(tmp_path)
    monkeypatch.setattr(ExecutionClient, "start", refuse)
    async with app:
        with pytest.raises(hf.errors.Refused):
            await app.start("greet", id="g1").started()


def test_in_a_script_started_has_nothing_to_wait_for(tmp_path: Path) -> None:
    app = an_app(tmp_path)
    with app:
        handle = app.start("greet", id="g1")
        assert asyncio.run(handle.started()) is handle


async def test_who_stops_waiting_does_not_call_the_start_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = an_app(tmp_path)
    go_on = asyncio.Event()
    start = ExecutionClient.start

    async def late(*args: object) -> object:
        await go_on.wait()
        return await start(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ExecutionClient, "start", late)
    async with app:
        handle = app.start("greet", id="g1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle, 0.01)
        go_on.set()
        assert await handle == "hello"


async def test_a_start_that_failed_is_told_in_the_log_when_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = an_app(tmp_path)
    monkeypatch.setattr(ExecutionClient, "start", refuse)
    with caplog.at_level(logging.ERROR, logger="holdfast.app"):
        async with app:
            app.start("greet", id="g1")
    [record] = [record for record in caplog.records if record.name == "holdfast.app"]
    assert "g1" in record.getMessage()
    assert "HF3102" in record.getMessage()


async def test_who_is_told_by_an_error_is_not_told_by_the_log_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = an_app(tmp_path)
    monkeypatch.setattr(ExecutionClient, "start", refuse)
    with caplog.at_level(logging.ERROR, logger="holdfast.app"):
        async with app:
            with pytest.raises(hf.errors.Refused):
                await app.start("greet", id="g1")
    assert not caplog.records


async def test_closing_waits_for_what_is_on_its_way_only_as_long_as_for_running_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = an_app(tmp_path)

    async def never(*args: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ExecutionClient, "start", never)
    app.settings = replace(app.settings, grace_s=0.01)
    with caplog.at_level(logging.ERROR, logger="holdfast.app"):
        async with app:
            handle = app.start("greet", id="g1")
    assert any("g1" in record.getMessage() for record in caplog.records)
    with pytest.raises(hf.errors.ClosedTooSoon):
        await handle.started()


async def test_a_framework_opens_and_closes_an_app_by_its_lifespan(tmp_path: Path) -> None:
    app = an_app(tmp_path)
    async with app.lifespan(object()):
        handle = await app.start("greet", id="g1").started()
        assert await handle == "hello"
        session = app.session
    with pytest.raises(hf.errors.AppError):
        _ = app.session
    assert session.is_idle
