"""Settling from outside: the first outcome stands, and whoever comes second is told what it is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf


def task_client(folder: Path) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db")

    @app.workflow
    async def approve() -> str:
        try:
            return await hf.promise(str, timeout="1h")
        except ValueError as error:
            return f"refused: {error}"

    @app.workflow
    async def brief() -> str:
        await hf.promise(str, timeout="1ms")
        return "never"

    @app.task(queue="nobody")
    def errand() -> None: ...

    return app


async def asked(app: hf.App, promise_id: str) -> None:
    """Until a promise is there."""
    async with asyncio.timeout(60):
        while not (await app.session._node.find_promises([promise_id])):  # type: ignore[union-attr]  # pyright: ignore  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_same_value_again_is_fine_and_another_is_told_what_stands(tmp_path: Path) -> None:
    async with task_client(tmp_path) as app:
        handle = await app.start("approve", id="a").started()
        await asked(app, "a:1")
        await app.resolve("a:1", "yes")
        await app.resolve("a:1", "yes")
        with pytest.raises(hf.errors.AlreadySettled, match="HF5204") as caught:
            await app.resolve("a:1", "no")
        assert (caught.value.state, caught.value.value) == ("resolved", "yes")
        with pytest.raises(hf.errors.AlreadySettled):
            await app.reject("a:1", ValueError("too late"))
        assert await handle == "yes"


async def test_of_two_senders_with_different_values_exactly_one_is_told_that_it_won(tmp_path: Path) -> None:
    async with task_client(tmp_path) as app:
        handle = await app.start("approve", id="a").started()
        await asked(app, "a:1")
        answers = [app.resolve("a:1", word) for word in ("yes", "no")]
        told = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(each is None for each in told) == 1
        assert await handle == ("yes" if told[0] is None else "no")


async def test_the_same_error_again_is_fine_wherever_it_was_raised(tmp_path: Path) -> None:
    async with task_client(tmp_path) as app:
        handle = await app.start("approve", id="a").started()
        await asked(app, "a:1")
        await app.reject("a:1", ValueError("broke"))
        try:
            raise ValueError("broke")
        except ValueError as error:
            await app.reject("a:1", error)
        with pytest.raises(hf.errors.AlreadySettled) as caught:
            await app.reject("a:1", ValueError("rich"))
        assert isinstance(caught.value.value, ValueError)
        assert await handle == "refused: broke"


async def test_what_timed_out_is_settled_too(tmp_path: Path) -> None:
    async with task_client(tmp_path) as app:
        with pytest.raises(hf.TimedOut):
            await app.start("brief", id="b")
        with pytest.raises(hf.errors.AlreadySettled, match="timed out") as caught:
            await app.resolve("b:1", "yes")
        assert caught.value.state == "rejected_timedout"


async def test_an_execution_or_a_task_is_not_settled_from_outside(tmp_path: Path) -> None:
    async with task_client(tmp_path) as app:
        handle = await app.start("approve", id="a").started()
        errand: Any = app.tasks.find("errand")
        sent = await errand.with_options(id="e").send_async()
        assert sent.id == "e"
        for promise_id in ("a", "e"):
            with pytest.raises(hf.errors.NotAnOpenPromise, match="HF5205"):
                await app.resolve(promise_id, "done")
            with pytest.raises(hf.errors.NotAnOpenPromise, match="cancel"):
                await app.reject(promise_id, ValueError())
        await asked(app, "a:1")
        await app.resolve("a:1", "yes")
        assert await handle == "yes"
