"""What is declared while an app is open takes effect at once."""

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.processes import Server, eventually

LONG_S = 60.0


@pytest.fixture(params=["embedded", "http"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[hf.App]:
    if request.param == "http":
        with Server(tmp_path) as server, hf.App(server.url) as app:
            yield app
    else:
        with hf.App(f"sqlite:///{tmp_path}/holdfast.db") as app:
            yield app


def test_a_task_that_is_declared_after_the_app_has_opened_is_run(app: hf.App) -> None:
    @app.task(queue="late")
    def double(number: int) -> int:
        return 2 * number

    assert double.send(21).get(LONG_S).ok_value == 42

    @app.task(queue="later")
    def triple(number: int) -> int:
        return 3 * number

    assert triple.send(2).get(LONG_S).ok_value == 6
    assert double.send(1).get(LONG_S).ok_value == 2


def test_a_queue_that_no_task_names_is_served(app: hf.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    app.queue("host-A")
    assert double.with_options(queue="host-A").send(4).get(LONG_S).ok_value == 8


def test_what_is_put_into_a_queue_that_the_worker_here_does_not_serve_is_told_once(
    app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.workflow
    async def triple(number: int) -> int:
        return 3 * number

    app.queue("host-A")
    assert double.with_options(queue="host-A").send(4).get(LONG_S).ok_value == 8
    assert "not declared" not in caplog.text
    for number in range(3):
        double.with_options(queue="host-B").send(number)
        triple.with_options(queue="host-C", id=f"t-{number}").start(number)
    told = [each.getMessage() for each in caplog.records if "is not declared" in each.getMessage()]
    assert [each.partition("'")[2][:6] for each in told] == ["host-B", "host-C"]
    app.queue("host-C")
    assert app.handle("t-1").result(LONG_S) == 3


def test_a_queue_that_was_declared_before_is_served_though_no_task_names_it(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.queue("host-A")

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with app:
        assert double.with_options(queue="host-A").send(4).get(LONG_S).ok_value == 8


def test_the_limits_of_a_queue_that_is_declared_late_hold_before_its_tasks_run(app: hf.App) -> None:
    at_once, most, lock = [0], [0], threading.Lock()
    queue = app.queue("narrow", concurrency=1)

    @app.task(queue="narrow")
    def busy() -> None:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        threading.Event().wait(0.02)
        with lock:
            at_once[0] -= 1

    for sent in busy.send_many([()] * 5):
        assert sent.get(LONG_S).is_ok
    assert most == [1]
    assert queue.info().concurrency == 1


def test_a_schedule_that_is_declared_late_fires(app: hf.App) -> None:
    fired = threading.Event()

    @app.schedule(every="1s")
    @app.task
    def tick() -> None:
        fired.set()

    assert fired.wait(LONG_S)


def test_an_event_starts_a_workflow_that_was_declared_for_it_a_moment_ago(app: hf.App) -> None:
    @app.workflow
    async def sends() -> None:
        await hf.send_event("user.left", id="evt-3", user="bob")

    app.start(sends, id="sends-first").result(LONG_S)

    @app.on("user.signed_up")
    async def greet(event: dict[str, Any]) -> str:
        return f"hello {event['user']}"

    app.event("user.signed_up", id="evt-1", user="ada")
    [greeting] = app.find(greet)
    assert app.handle(greeting.id).result(LONG_S) == "hello ada"

    @app.on("user.left")
    async def mourn(event: dict[str, Any]) -> str:
        return f"farewell {event['user']}"

    app.event("user.left", id="evt-2", user="ada")
    [farewell] = app.find(mourn)
    assert app.handle(farewell.id).result(LONG_S) == "farewell ada"


def test_a_workflow_that_was_declared_late_for_an_event_is_started_by_another_program(tmp_path: Path) -> None:
    with Server(tmp_path) as server, hf.App(server.url) as app, hf.App(server.url, worker=False) as other:

        @app.on("user.signed_up")
        async def greet(event: dict[str, Any]) -> str:
            return f"hello {event['user']}"

        def is_started() -> bool:
            other.event("user.signed_up", user="ada")
            return bool(list(app.find(greet)))

        eventually(is_started)


def test_what_an_operator_changed_is_left_alone_by_later_declarations(app: hf.App) -> None:
    queue = app.queue("narrow", concurrency=1)
    eventually(lambda: queue.info().concurrency == 1)
    hf_set(app, "narrow", 7)

    @app.task(queue="other")
    def double(number: int) -> int:
        return 2 * number

    assert double.send(1).get(LONG_S).is_ok
    assert queue.info().concurrency == 7


def hf_set(app: hf.App, queue: str, concurrency: int) -> None:
    from holdfast.app import bridge_of
    from holdfast.client.caller import ask
    from holdfast.protocol.requests import QueueSet

    async def change() -> Any:
        return await app.session.task_client.caller.client.request([ask(QueueSet(queue, concurrency))])

    assert bridge_of(app).block(change())[0].status == 200


async def test_in_asyncio_too(tmp_path: Path) -> None:
    async with hf.App(f"sqlite:///{tmp_path}/holdfast.db") as app:

        @app.task(queue="late")
        async def double(number: int) -> int:
            return 2 * number

        sent = await double.send_async(3)
        assert (await sent.get_async(LONG_S)).ok_value == 6


def test_a_late_schedule_that_does_not_fit_is_told_once_and_holds_nothing_up(
    app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.schedule(every="1h", args=["too", "many"])
    @app.task
    def nightly() -> None: ...

    @app.task(queue="later")
    def double(number: int) -> int:
        return 2 * number

    assert double.send(21).get(LONG_S).ok_value == 42
    told = [each.getMessage() for each in caplog.records if "nightly" in each.getMessage()]
    assert len(told) == 1
    assert "was skipped" in told[0]
    assert "HF5003" in told[0]
