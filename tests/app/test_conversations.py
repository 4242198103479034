"""Talking to an execution from outside: in scripts and in asyncio, embedded and over HTTP."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.processes import Server


@dataclass
class Item:
    name: str
    price: int = 1


@dataclass
class Stop:
    pass


class TooDear(Exception):
    pass


def make_app(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def basket(owner: str = "nobody") -> list[str]:
        names: list[str] = []
        async for message in hf.mailbox(Item | Stop):
            if isinstance(message.value, Stop):
                break
            if message.value.price < 0:
                message.refuse("a price is not negative")
            elif message.value.price > 1_000:
                message.refuse(TooDear(message.value.name))
            else:
                names.append(message.value.name)
                await hf.publish("size", len(names))
                await hf.emit("names", message.value.name)
                message.answer(len(names))
        return [owner, *names] if owner != "nobody" else names

    @app.workflow
    async def approval() -> list[Any]:
        first = await hf.receive(str)
        try:
            return [first, await hf.promise(bool, name="approval")]
        except ValueError as error:
            return [first, str(error)]

    @app.workflow
    async def deaf() -> None:
        await hf.promise(name="end")

    @app.workflow
    async def writer() -> None:
        await hf.run(_write_tokens, retry=hf.Retry(attempts=2, delay=0.001))

    @app.task(queue="talk")
    def talker() -> str:
        hf.publish("stage", "begun")
        for number in range(3):
            hf.emit("lines", number)
        hf.publish("stage", "done")
        return "over"

    return app


_tries: list[int] = []


def _write_tokens() -> None:
    _tries.append(1)
    for word in ("a", "b"):
        hf.emit("tokens", word)
    if len(_tries) % 2:
        raise ValueError("once")


def basket_of(app: hf.App) -> hf.types.Workflow[[str], Any]:
    found = app.registry.find("basket", 1)
    assert isinstance(found, hf.types.Workflow)
    return found


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "embedded":
        yield f"sqlite:///{tmp_path}/holdfast.db"
        return
    with Server(tmp_path) as server:
        yield server.url


@pytest.fixture
def app(url: str) -> Iterator[hf.App]:
    with make_app(url) as opened:
        yield opened


# --- in a script ------------------------------------------------------------------------------------------


def test_what_is_told_is_seen_in_order(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    for name in ("tea", "milk", "salt"):
        app.tell("b", Item(name))
    app.tell("b", Stop())
    assert handle.result(60) == ["tea", "milk", "salt"]


def test_under_the_same_key_a_message_is_sent_once(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    for _ in range(3):
        app.tell("b", Item("tea"), key="evt-9")
    app.tell("b", Stop())
    assert handle.result(60) == ["tea"]


def test_who_asks_gets_the_answer(app: hf.App) -> None:
    app.start("basket", id="b")
    assert app.ask("b", Item("tea"), timeout="30s") == 1
    assert app.ask("b", Item("milk"), timeout="30s", returns=int) == 2


def test_who_asks_in_vain_gets_the_error(app: hf.App) -> None:
    app.start("basket", id="b")
    with pytest.raises(hf.errors.MessageRefused, match="a price is not negative"):
        app.ask("b", Item("tea", -1), timeout="30s")
    with pytest.raises(TooDear, match="gold"):
        app.ask("b", Item("gold", 5_000), timeout="30s")


def test_what_is_not_of_the_type_fails_whoever_asks_and_nobody_else(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    with pytest.raises(hf.errors.UndecodablePayload):
        app.ask("b", 7, timeout="30s")
    app.tell("b", Item("tea"))
    app.tell("b", Stop())
    assert handle.result(60) == ["tea"]


def test_what_was_set_aside_is_in_the_info_of_the_execution(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    assert handle.info().set_aside == ()
    app.tell("b", Item("tea"))
    app.tell("b", 12)
    app.tell("b", "milk")
    assert app.ask("b", Item("salt")) == 2
    found = handle.info().set_aside
    assert [(each.id, each.number) for each in found] == [("b:in.2", 2), ("b:in.3", 3)]
    assert "Expected Item or Stop, got int (12)" in found[0].error
    app.tell("b", Stop())
    assert handle.result(60) == ["tea", "salt"]
    assert handle.info().set_aside == found


def test_without_an_answer_in_time_it_is_a_timeout(app: hf.App) -> None:
    app.start("deaf", id="d")
    with pytest.raises(hf.TimedOut, match="no answer within"):
        app.ask("d", "anybody?", timeout=0.05)


def test_who_asks_an_execution_that_ends_is_told_so(app: hf.App) -> None:
    app.start("deaf", id="d")
    told: list[BaseException] = []

    def ask() -> None:
        try:
            app.ask("d", "anybody?", timeout="1m")
        except hf.HoldfastError as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while app.handle("d").published("x") is None and not _was_told(app, "d"):
        pass
    app.handle("d").cancel(now=True)
    thread.join(30)
    assert [type(error) for error in told] == [hf.errors.ExecutionOver]
    assert "has ended without an answer" in str(told[0])


def _was_told(app: hf.App, execution: str) -> bool:
    from holdfast.protocol.replies import StreamsReply
    from holdfast.protocol.requests import StreamList

    caller = app.session.executions.caller
    bridge = app._bridge  # pyright: ignore[reportPrivateUsage]
    return bool(bridge.block(caller.ask(StreamList(execution), StreamsReply)).streams.get("in"))


def test_to_what_is_over_and_to_what_never_was_nothing_is_sent(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    app.tell("b", Stop())
    handle.result(60)
    for send in (app.tell, app.ask):
        with pytest.raises(hf.errors.ExecutionOver, match="HF1402"):
            send("b", Item("tea"))
        with pytest.raises(hf.errors.NoSuchExecution, match="HF1401"):
            send("nobody", Item("tea"))


def test_it_is_started_if_it_is_not_there_and_told_in_the_same_commit(app: hf.App) -> None:
    basket = basket_of(app)
    first = basket.with_options(id="b").start_and_tell(Item("tea"), "ann")
    again = basket.with_options(id="b").start_and_tell(Item("milk"), "bob")
    app.tell("b", Stop())
    assert first.result(60) == again.result(60) == ["ann", "tea", "milk"]
    with pytest.raises(hf.errors.ExecutionOver):
        basket.with_options(id="b").start_and_tell(Item("salt"), "ann")


def test_what_runs_under_the_id_must_be_the_same_workflow(app: hf.App) -> None:
    app.start("deaf", id="b")
    basket = basket_of(app)
    with pytest.raises(hf.errors.IdTaken):
        basket.with_options(id="b").start_and_tell(Item("tea"), "ann")


def test_a_promise_is_settled_by_name_before_the_code_has_come_there(app: hf.App) -> None:
    handle = app.start("approval", id="a")
    app.resolve("a", True, name="approval")
    app.resolve("a", True, name="approval")
    with pytest.raises(hf.errors.AlreadySettled, match="HF5204"):
        app.resolve("a", False, name="approval")
    with pytest.raises(hf.errors.AlreadySettled):
        app.reject("a", ValueError("no"), name="approval")
    app.tell("a", "go")
    assert handle.result(60) == ["go", True]
    with pytest.raises(hf.errors.ExecutionOver):
        app.resolve("a", True, name="other")
    with pytest.raises(hf.errors.NoSuchExecution):
        app.resolve("nobody", True, name="approval")


def test_a_promise_is_rejected_by_name(app: hf.App) -> None:
    handle = app.start("approval", id="a")
    app.tell("a", "go")
    app.reject("a", ValueError("not today"), name="approval")
    assert handle.result(60) == ["go", "not today"]


def test_what_was_published_can_be_looked_at_now_and_when_it_is_over(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    assert handle.published("size") is None
    app.ask("b", Item("tea"), timeout="30s")
    assert handle.published("size", returns=int) == 1
    app.tell("b", Item("milk"))
    app.tell("b", Stop())
    handle.result(60)
    assert app.handle("b").published("size") == 2
    with pytest.raises(hf.errors.NoSuchExecution):
        app.handle("nobody").published("size")


def test_a_stream_is_read_to_its_end_and_from_a_number_on(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    for name in ("tea", "milk", "salt"):
        app.tell("b", Item(name))
    reader = iter(handle.stream("names"))
    assert next(reader) == (1, "tea")
    app.tell("b", Stop())
    assert [*reader] == [(2, "milk"), (3, "salt")]
    assert [*handle.stream("names", after=2)] == [(3, "salt")]
    assert [*handle.stream("never")] == []


def test_watching_begins_with_the_last_value_and_ends_with_the_execution(app: hf.App) -> None:
    handle = app.start("basket", id="b")
    app.ask("b", Item("tea"), timeout="30s")
    app.ask("b", Item("milk"), timeout="30s")
    sizes = iter(handle.watch("size"))
    assert next(sizes) == 2
    app.ask("b", Item("salt"), timeout="30s")
    app.tell("b", Stop())
    assert [*sizes] == [3]


def test_an_attempt_of_a_step_can_be_told_from_the_one_before(app: hf.App) -> None:
    _tries.clear()
    handle = app.start("writer", id="w")
    items = [*handle.stream("tokens")]
    handle.result(60)
    assert [(*item, item.attempt) for item in items] == [
        (1, "a", "1.1"),
        (2, "b", "1.1"),
        (3, "a", "1.2"),
        (4, "b", "1.2"),
    ]
    assert {item.step for item in items} == {"w:1"}
    assert [item.number for item in items] == [1, 2, 3, 4]


def test_a_background_task_emits_and_publishes_as_well(app: hf.App) -> None:
    talker: Any = app.tasks.get("talker")
    handle = app.task_handle(talker.send().id)
    assert [value for _, value in handle.stream("lines")] == [0, 1, 2]
    assert handle.get(60).ok_value == "over"
    assert (handle.published("stage"), [*handle.watch("stage")]) == ("done", ["done"])


# --- in asyncio -------------------------------------------------------------------------------------------


async def test_everything_can_be_awaited(url: str) -> None:
    async with make_app(url) as app:
        basket = basket_of(app)
        handle = await basket.with_options(id="b").start_and_tell(Item("tea"), "nobody").started()
        await app.tell("b", Item("milk"), key="k")
        assert await app.ask("b", Item("salt"), timeout="30s") == 3
        assert await handle.published("size") == 3
        with pytest.raises(hf.errors.NoSuchExecution):
            await app.tell("nobody", 1)
        with pytest.raises(hf.errors.NoSuchExecution):
            await app.ask("nobody", 1)
        await app.tell("b", Stop())
        assert [item async for item in handle.stream("names")] == [(1, "tea"), (2, "milk"), (3, "salt")]
        assert [size async for size in handle.watch("size")] == [3]
        assert await handle == ["tea", "milk", "salt"]


async def test_a_reader_waits_while_others_go_on(url: str) -> None:
    async with make_app(url) as app:
        handle = await app.start("basket", id="b").started()
        seen: list[Any] = []

        async def follow() -> None:
            async for number, name in handle.stream("names"):
                seen.append((number, name))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow())
            for name in ("tea", "milk"):
                await app.ask("b", Item(name), timeout="30s")
            await app.tell("b", Stop())
        assert seen == [(1, "tea"), (2, "milk")]


async def test_many_senders_at_once_are_all_heard_once(url: str) -> None:
    async with make_app(url) as app:
        handle = await app.start("basket", id="b").started()
        await asyncio.gather(*[app.tell("b", Item(str(number))) for number in range(100)])
        await app.tell("b", Stop())
        assert sorted(await handle, key=int) == [str(number) for number in range(100)]


async def test_what_was_told_and_not_awaited_is_sent_all_the_same(tmp_path: Path) -> None:
    async with make_app(f"sqlite:///{tmp_path}/holdfast.db") as app:
        handle = await app.start("basket", id="b").started()
        app.tell("b", Item("tea"))
        app.tell("b", Stop())
        assert await handle == ["tea"]


async def test_a_workflow_may_not_talk_through_its_app(tmp_path: Path) -> None:
    app = make_app(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow
    async def wrong() -> str:
        try:
            app.tell("b", 1)
        except hf.errors.NoAsyncioHere as error:
            return type(error).__name__
        return "sent"

    async with app:
        assert await app.start(wrong) == "NoAsyncioHere"


async def test_a_message_goes_behind_a_start_that_nobody_has_awaited() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def greeted() -> str:
        return await hf.receive(str)

    async with app:
        handle = greeted.with_options(id="g").start()
        await app.tell("g", "hello")
        assert await handle == "hello"


async def test_what_many_senders_tell_at_the_same_time_is_one_commit() -> None:
    """Each of them is answered in the turn in which all the others are, and has the next message ready."""
    app = hf.App("memory:", worker=False)  # nobody else asks the node for anything

    @app.workflow
    async def deaf() -> None:
        await hf.promise(name="end")

    async def sender(number: int) -> None:
        for _ in range(5):
            await app.tell(f"d{number}", number)

    async with app, asyncio.timeout(60):
        for number in range(8):
            await app.start("deaf", id=f"d{number}").started()
        stats = app.session.node.stats
        before = stats.commits, stats.committed_requests
        await asyncio.gather(*[sender(number) for number in range(8)])
        assert (stats.commits - before[0], stats.committed_requests - before[1]) == (5, 40)


async def test_messages_behind_a_start_keep_their_order_and_later_ones_too() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def listener() -> list[int]:
        return [await hf.receive(int) for _ in range(6)]

    async with app, asyncio.timeout(60):
        handle = listener.with_options(id="o").start()
        for number in range(3):
            app.tell("o", number)  # behind the start, which the node does not have yet
        await handle.started()
        for number in range(3, 6):
            app.tell("o", number)
        assert await handle == [0, 1, 2, 3, 4, 5]
