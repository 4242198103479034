"""What an execution is doing, what it did, and which there are: from scripts and from asyncio."""

import asyncio
import json
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.caller import Caller
from holdfast.jobs.errors import BadOption
from holdfast.protocol.executions import read_waits
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, StreamRead
from tests.postgres import database_url


class Declined(Exception):
    pass


def charge(cents: int) -> str:
    if cents < 0:
        raise Declined(f"{cents} is too little")
    return f"paid {cents}"


def shop(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow(tags={"shop": "north"})
    async def checkout(cents: int) -> str:
        paid = await hf.run(charge, cents)
        await hf.sleep(0.001)
        return paid

    @app.workflow
    async def approve() -> str:
        await hf.run(charge, 1)
        return await hf.promise(str, timeout="1h")  # the line that it waits at

    @app.workflow
    async def parent() -> str:
        return await hf.call(checkout, 5)

    @app.task(queue="mail")
    def send_mail(address: str) -> str:
        return address

    return app


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.App]:
    urls = {"sqlite": f"sqlite:///{tmp_path}/holdfast.db", "memory": "memory:"}
    opened = shop(urls[request.param] if request.param in urls else database_url())
    with opened:
        yield opened


def until(app: hf.App, execution: str, state: str) -> Any:
    """Its details, once it is so."""
    ends = time.monotonic() + 30
    while True:
        found = app.handle(execution).info()
        if found.state == state:
            return found
        assert time.monotonic() < ends, found
        time.sleep(0.01)


def test_a_suspended_execution_says_what_it_waits_for_and_at_which_line(app: hf.App) -> None:
    app.start("approve", id="order-17", tags={"customer": "4"})
    found = until(app, "order-17", "suspended")
    [wait] = found.waits
    assert (wait.id, wait.what, wait.function.rpartition(".")[2]) == ("order-17:2", "promise", "approve")
    assert Path(wait.file).name == "test_looking.py"
    assert "the line that it waits at" in Path(__file__).read_text("utf-8").splitlines()[wait.line - 1]
    assert (found.name, found.attempts, found.tags["customer"]) == ("approve", 1, "4")
    assert found.deadline is None
    assert found.since >= found.created_at
    app.resolve("order-17:2", "yes")
    assert app.handle("order-17").result(60) == "yes"
    done = app.handle("order-17").info()
    assert (done.state, done.waits) == ("completed", ())
    assert done.ended_at == done.since


def test_what_an_execution_publishes_is_part_of_what_it_tells(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow
    async def pack() -> None:
        await hf.publish("stage", "picked")
        await hf.publish("stage", "packed")
        await hf.publish("boxes", {"small": 2})
        await hf.emit("log", "not a value")

    with app:
        handle = app.start(pack)
        handle.result(60)
        assert handle.info().published == {"stage": "packed", "boxes": {"small": 2}}
        assert next(iter(app.find(pack))).published == {}, "a page does not read them"


def test_what_a_wait_was_kept_as_by_an_older_version_is_read() -> None:
    [wait] = read_waits('[{"id":"o:1","attempts":2,"resumes_at":70000}]')
    assert wait.resumes_at == 70_000


def test_published_values_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sent: list[int] = []
    begin = Caller.begin

    def counted(self: Caller, requests: list[Request]) -> Awaitable[list[Reply]]:
        if any(isinstance(request.data, StreamRead) for request in requests):
            sent.append(len(requests))
        return begin(self, requests)

    @app.workflow
    async def publishes() -> None:
        for number in range(20):
            await hf.publish(f"value-{number}", "x" * number)

    with app:
        handle = app.start(publishes)
        handle.result(60)
        monkeypatch.setattr(Caller, "begin", counted)
        assert handle.info().published == {f"value-{number}": "x" * number for number in range(20)}
    assert sent == [20]


def test_each_strand_of_a_suspended_execution_says_where_it_waits(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    async def first() -> str:
        return await hf.promise(str, timeout="1h")

    async def second() -> None:
        await hf.sleep("1h")

    @app.workflow
    async def both() -> None:
        await hf.gather(hf.spawn(first()), hf.spawn(second()))

    @app.workflow
    def spelt_otherwise() -> Any:
        return (yield from hf.promise(str, timeout="1h"))

    with app:
        app.start(both, id="b")
        found = {wait.what: wait.function.rpartition(".")[2] for wait in until(app, "b", "suspended").waits}
        assert found == {"promise": "first", "sleep": "second"}
        app.start(spelt_otherwise, id="g")
        [wait] = until(app, "g", "suspended").waits
        assert wait.function.rpartition(".")[2] == "spelt_otherwise"


def test_a_failed_one_tells_its_error_and_is_found_by_it(app: hf.App) -> None:
    handle = app.start("checkout", -5, id="bad")
    with pytest.raises(Declined):
        handle.result(60)
    found = handle.info()
    assert (found.state, found.error, found.error_code) == (
        "failed",
        "Declined: -5 is too little",
        "Declined",
    )
    assert [each.id for each in app.find(error="Declined")] == ["bad"]
    assert [each.id for each in app.find(error=Declined)] == ["bad"]
    assert [each.id for each in app.find(status="failed", since="1h")] == ["bad"]
    assert [*app.find(error="Other")] == []


def test_the_operations_of_an_execution_are_listed_in_the_order_of_the_code(app: hf.App) -> None:
    handle = app.start("parent", id="p")
    assert handle.result(60) == "paid 5"
    [call] = handle.steps()
    assert (call.kind, call.name, call.state, call.result()) == ("call", "checkout", "completed", "paid 5")
    step, sleep = app.handle(call.id).steps()
    assert (step.kind, step.name, step.attempts, step.result()) == ("step", "charge", 1, "paid 5")
    assert step.worker
    assert step.took_s is not None
    assert (sleep.kind, sleep.state, sleep.error) == ("sleep", "completed", None)


def test_messages_are_among_its_operations_and_what_it_publishes_and_emits_is_not(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow
    async def talk() -> int:
        await hf.publish("stage", "waits")
        await hf.emit("tokens", "a")
        return await hf.receive(int)

    with app:
        handle = talk.with_options(id="t").start()
        app.tell("t", 5, key="evt-9")
        assert handle.result(60) == 5
        found = [(each.kind, each.name) for each in handle.steps()]
    assert ("message", "message 1") in found
    assert all(name for _, name in found), found
    assert len([kind for kind, _ in found if kind == "message"]) == 1
    assert not [kind for kind, _ in found if kind == "promise"]


def test_a_failed_step_tells_its_error(app: hf.App) -> None:
    handle = app.start("checkout", -1, id="bad")
    with pytest.raises(Declined):
        handle.result(60)
    [step] = handle.steps()
    assert (step.state, step.error, step.result()) == ("failed", "Declined: -1 is too little", None)


def test_a_history_is_plain_data(app: hf.App) -> None:
    handle = app.start("checkout", 7, id="order-7")
    handle.result(60)
    history = json.loads(json.dumps(handle.history()))
    assert history["format"] == "holdfast-history-1"
    assert history["promise"]["id"] == "order-7"
    assert {record["id"] for record in history["records"]} >= {"order-7:1", "order-7:2"}


def test_executions_are_found_newest_first_by_what_is_true_of_them(app: hf.App) -> None:
    for number in range(5):
        app.start("checkout", number, id=f"c-{number}").result(60)
    app.start("approve", id="a")
    until(app, "a", "suspended")
    assert [each.id for each in app.find("checkout", page_size=2)] == ["c-4", "c-3", "c-2", "c-1", "c-0"]
    assert [each.id for each in app.find(status=["suspended", "halted"])] == ["a"]
    assert [each.id for each in app.find(prefix="c-", tags={"shop": "south"})] == []
    found, cursor = app.find("checkout", page_size=2).page()
    assert [each.id for each in found] == ["c-4", "c-3"]
    assert [each.id for each in app.find("checkout", page_size=2).page(cursor)[0]] == ["c-2", "c-1"]
    assert app.find("checkout").count() == {"completed": 5}
    assert app.find().count() == {"completed": 5, "suspended": 1}
    assert app.find(until="1h").count() == {}


def test_background_tasks_are_found_as_well(app: hf.App) -> None:
    sent: Any = app.tasks.get("send_mail")
    handle = sent.send("ada@example.org")
    handle.get(60)
    [found] = app.find(kind="task", queue="mail")
    assert (found.id, found.name, found.state) == (handle.id, sent.name, "completed")


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{folder}/holdfast.db"])
def test_what_failed_says_in_a_list_what_it_failed_with(url: str, tmp_path: Path) -> None:
    app = hf.App(url.format(folder=tmp_path))

    @app.workflow
    async def order() -> None:
        raise ValueError("no such tea")

    @app.task
    def mail() -> None:
        raise ValueError("no such address")

    @app.task(default_error_code="DOWN")
    def post() -> hf.TaskResult[int, hf.TaskError]:
        return hf.TaskResult(err=hf.TaskError("CLOSED", "after six"))

    with app:
        handle = app.start(order, id="o")
        with pytest.raises(ValueError, match="no such tea"):
            handle.result(60)
        sent: list[Any] = [mail.with_options(id="m").send(), post.with_options(id="p").send()]
        for task in sent:
            assert task.get(60).is_err
        wanted = {
            "o": "ValueError: no such tea",
            "m": "UNHANDLED_EXCEPTION: no such address",
            "p": "CLOSED: after six",
        }
        assert {each.id: each.error for each in app.find(status="failed")} == wanted
        assert {key: app.handle(key).info().error for key in wanted} == wanted


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "done"},
        {"order": "oldest"},
        {"page_size": 0},
        {"error": ""},
        {"error": 5},
        {"queue": 7},
        {"workflow": charge},
    ],
)
def test_a_search_that_makes_no_sense_is_refused_at_once(filters: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        hf.App("memory:").find(**filters)


async def test_the_same_from_asyncio(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/holdfast.db")
    async with app:
        handle = app.start("checkout", 3, id="c")
        await asyncio.wait_for(handle, 60)
        assert (await handle.info_async()).state == "completed"
        assert [step.name for step in await handle.steps_async()] == ["charge", ""]
        assert (await handle.history_async())["promise"]["id"] == "c"
        assert [each.id async for each in app.find("checkout")] == ["c"]
        assert await app.find().count_async() == {"completed": 1}
