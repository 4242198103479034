"""Conversations at their edges: awaited starts, readers ahead of a stream, a webhook that comes twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.errors import BadArguments, BadId
from holdfast.workflow.errors import BadName
from tests.processes import Server, eventually

WAIT_S = 60.0


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "embedded":
        yield f"sqlite:///{tmp_path}/holdfast.db"
        return
    with Server(tmp_path) as server:
        yield server.url


def declare(app: hf.App) -> hf.types.Workflow[[int], Any]:
    @app.workflow
    async def sum_of(count: int) -> int:
        total = 0
        for _ in range(count):
            total += await hf.receive(int)
            await hf.emit("totals", total)
        return total

    @app.workflow
    async def approval() -> bool:
        return bool(await hf.promise(bool, name="approval"))

    @app.workflow
    async def itself() -> Any:
        return await hf.attach("narcissus")

    return sum_of


def workflow(app: hf.App, name: str) -> hf.types.Workflow[..., Any]:
    found = app.registry.find(name, 1)
    assert isinstance(found, hf.types.Workflow)
    return found


async def test_whoever_awaits_start_and_tell_has_told_and_need_not_wait_for_the_end(url: str) -> None:
    app = hf.App(url)
    sum_of = declare(app)
    async with app, asyncio.timeout(WAIT_S):
        handle = await sum_of.with_options(id="s").start_and_tell(1, 3)
        again = await sum_of.with_options(id="s").start_and_tell(2, 3)
        assert (handle.id, again.id) == ("s", "s")
        assert await app.ask("s", 4) is None
        assert await handle == 7
        with pytest.raises(hf.errors.ExecutionOver):
            await sum_of.with_options(id="s").start_and_tell(8, 3)


async def test_whoever_does_not_await_start_and_tell_has_a_handle_as_well(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sum_of = declare(app)
    async with app, asyncio.timeout(WAIT_S):
        told = sum_of.with_options(id="s").start_and_tell(5, 1)
        assert [total async for _, total in told.stream("totals")] == [5]
        assert await (await told) == 5


def test_a_reader_that_is_ahead_of_a_stream_waits_for_what_comes_after_its_number(url: str) -> None:
    app = hf.App(url)
    sum_of = declare(app)
    with app:
        handle = sum_of.with_options(id="s").start(4)
        app.tell("s", 1)
        eventually(lambda: next(iter(handle.stream("totals")), None))
        reader = iter(handle.stream("totals", after=3))
        for number in (2, 3, 4):
            app.tell("s", number)
        assert [tuple(item) for item in reader] == [(4, 10)]
        assert handle.result(timeout=WAIT_S) == 10
        assert list(handle.stream("totals", after=4)) == []
        assert list(handle.stream("totals", after=400)) == []


def test_what_was_resolved_by_name_may_be_resolved_again_when_the_execution_is_over(url: str) -> None:
    app = hf.App(url)
    declare(app)
    with app:
        handle = workflow(app, "approval").with_options(id="a").start()
        app.resolve("a", True, name="approval")
        assert handle.result(timeout=WAIT_S) is True
        app.resolve("a", True, name="approval")
        with pytest.raises(hf.errors.AlreadySettled, match="True"):
            app.resolve("a", False, name="approval")
        with pytest.raises(hf.errors.ExecutionOver):
            app.resolve("a", True, name="never-asked-for")


@pytest.mark.parametrize("key", ["", "x" * 257, 5, b"x"])
def test_a_key_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path, key: Any) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sum_of = declare(app)
    with app:
        sum_of.with_options(id="s").start(1)
        with pytest.raises(BadId, match="The key"):
            app.tell("s", 1, key=key)


@pytest.mark.parametrize("name", ["", "a b", 5, "x" * 101])
def test_a_name_that_no_stream_has_is_refused_at_the_call(tmp_path: Path, name: Any) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sum_of = declare(app)
    with app:
        handle = sum_of.with_options(id="s").start(1)
        for look in (handle.stream, handle.watch, handle.published):
            with pytest.raises(BadName, match="HF5119"):
                look(name)


@pytest.mark.parametrize("after", [-1, "8", 2**60, 1.5])
def test_a_number_that_no_element_has_is_refused_at_the_call(tmp_path: Path, after: Any) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sum_of = declare(app)
    with app:
        handle = sum_of.with_options(id="s").start(1)
        with pytest.raises(BadArguments, match="after="):
            handle.stream("totals", after=after)


def test_an_execution_that_attaches_to_itself_fails_and_says_why(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    declare(app)
    with app:
        handle = workflow(app, "itself").with_options(id="narcissus").start()
        with pytest.raises(BadArguments, match="this execution itself"):
            handle.result(timeout=WAIT_S)


@pytest.mark.parametrize("error", ["no", ValueError, None])
def test_a_rejection_with_something_else_than_an_exception_is_refused_and_settles_nothing(error: Any) -> None:
    app = hf.App("memory:")
    declare(app)
    with app:
        handle = app.start("approval", id="a")
        with pytest.raises(BadArguments, match="reject takes an exception"):
            app.reject("a", error, name="approval")
        app.resolve("a", True, name="approval")
        assert handle.result(WAIT_S) is True


@pytest.mark.parametrize("wanted", ["int", 5, ["int"]])
@pytest.mark.parametrize("how", ["receive", "mailbox"])
def test_what_no_message_can_be_read_as_is_an_error_where_it_is_asked_for(how: str, wanted: Any) -> None:
    """Otherwise every message would be set aside."""
    app = hf.App("memory:")

    @app.workflow
    async def wrong() -> Any:
        with pytest.raises(BadArguments, match="No message can be read as"):
            await (hf.receive(wanted) if how == "receive" else hf.mailbox(wanted).next())
        return await hf.receive(int | str)

    with app:
        handle = app.start("wrong", id="w")
        app.tell("w", "kept")
        assert handle.result(WAIT_S) == "kept"


def test_whoever_passes_a_handle_for_an_id_is_told_to_pass_its_id() -> None:
    app = hf.App("memory:")
    declare(app)
    with app:
        handle: Any = app.start("approval", id="a")
        with pytest.raises(BadId, match=r"pass its \.id"):
            app.tell(handle, 1)
        with pytest.raises(BadId, match=r"The id 17 is not a string\. "):
            app.tell(17, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [17, None, "", "x" * 1025], ids=["number", "none", "empty", "long"])
@pytest.mark.parametrize("how", ["tell", "ask", "attach", "cancel"])
def test_what_is_no_id_is_an_error_in_the_workflow_that_uses_it(how: str, given: Any) -> None:
    """Otherwise it would be tried again and again until the execution is halted."""
    app = hf.App("memory:")

    async def use() -> None:
        if how == "tell":
            await hf.tell(given, 1)
        elif how == "ask":
            await hf.ask(given, 1)
        elif how == "attach":
            await hf.attach(given)
        else:
            await hf.cancel(given)

    @app.workflow
    async def wrong() -> str:
        with pytest.raises(BadId):
            await use()
        return "goes on"

    with app:
        assert app.start("wrong").result(WAIT_S) == "goes on"
