"""What a task is given, what it is called when it fails, which instants are set when it ends."""

import asyncio
from pathlib import Path
from typing import Annotated

import pytest

import holdfast as hf
from holdfast.client.caller import ask
from holdfast.node import Node
from holdfast.protocol.records import Value
from holdfast.protocol.requests import TaskClaim, TaskFail
from holdfast.store.urls import open_store
from holdfast.testing import World


class Mailer:
    def __init__(self, name: str) -> None:
        self.name = name


def test_a_task_is_given_what_the_app_provides() -> None:
    app = hf.App()
    app.provide(Mailer, Mailer("typed"))
    app.provide("spare", Mailer("named"))

    @app.task
    def in_a_thread(to: str, mailer: Mailer = hf.provided) -> str:
        return f"{mailer.name} to {to}"

    @app.task
    async def on_the_loop(
        mailer: Mailer, to: str, *, spare: Annotated[Mailer, hf.types.Depends("spare")]
    ) -> str:
        return f"{mailer.name} and {spare.name} to {to}"

    with World(app):
        assert in_a_thread.send("ada").get().ok_value == "typed to ada"
        assert hf_send(on_the_loop, "ada") == "typed and named to ada"


def test_a_schedule_leaves_out_what_the_app_provides() -> None:
    app = hf.App()
    app.provide(Mailer, Mailer("typed"))
    told: list[str] = []

    @app.schedule(every="1h", args=["ada"])
    @app.task
    def remind(to: str, mailer: Mailer) -> None:
        told.append(f"{mailer.name} to {to}")

    @app.schedule(every="1h")
    @app.workflow
    async def report(mailer: Mailer) -> None:
        told.append(mailer.name)

    with World(app) as world:
        world.elapse("70m")
    assert sorted(told) == ["typed", "typed to ada"]


def hf_send(task: object, *args: object) -> object:
    """As a caller who does not run a type checker would send it."""
    return task.send(*args).get().ok_value  # type: ignore[attr-defined]


def test_a_workflow_calls_a_task_that_is_given_something() -> None:
    app = hf.App()
    app.provide(Mailer, Mailer("typed"))

    @app.task
    def mail(to: str, mailer: Mailer = hf.provided) -> str:
        return f"{mailer.name} to {to}"

    @app.workflow
    async def flow() -> str:
        return (await hf.call(mail, "bob")).ok_value

    with World(app):
        assert app.start(flow, id="f").result() == "typed to bob"


def test_what_nobody_provides_is_said_so() -> None:
    app = hf.App()

    @app.task
    def mail(mailer: Mailer = hf.provided) -> str:
        return mailer.name

    with World(app):
        error = mail.send().get().err_value
    assert error.error_code == "WORKER_RESOLUTION_ERROR"
    assert "Mailer" in (error.message or "")


def test_a_caller_cannot_give_what_the_app_provides() -> None:
    app = hf.App()
    app.provide(Mailer, Mailer("typed"))

    @app.task
    def mail(mailer: Mailer = hf.provided) -> str:
        return mailer.name

    @app.task(mode="process")
    def apart(mailer: Mailer = hf.provided) -> str:
        return mailer.name

    with World(app):
        assert mail.try_send(mailer={"name": "mine"}).err_value.code == "VALIDATION_FAILED"  # type: ignore[arg-type]
        refused = apart.try_send().err_value
        assert (refused.code, "child process" in refused.message) == ("VALIDATION_FAILED", True)


def test_a_repeated_id_is_not_new() -> None:
    app = hf.App()

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with World(app):
        named = double.with_options(id="mail-1")
        assert [named.send(1).is_new for _ in range(3)] == [True, False, False]
        assert named.send(1).get().ok_value == 2
        assert not named.send(1).is_new, "though it is over"
        assert double.send(1).is_new


@pytest.mark.parametrize(
    "value", [Value(), Value(None, "eyJhIjogMX0=")], ids=["nothing", "an object of theirs"]
)
async def test_a_failure_has_one_code_whatever_its_value_is(value: Value, tmp_path: Path) -> None:
    """As another program, or the console, fails it."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    app = hf.App(url, worker=False)

    @app.task(queue="q")
    def by_hand() -> None: ...

    async with app:
        handle = await by_hand.send_async()
        async with Node(open_store(url)) as node:
            await node.request([ask(TaskClaim(["queue.q"], 1, "w", 60_000, start=True))])
            await node.request([ask(TaskFail(handle.id, 1, "SMTP_DOWN", value))])
        result = await handle.get_async(timeout=60)
        codes = result.err_value.error_code, (await handle.info_async()).error_code
    assert codes == ("SMTP_DOWN", "SMTP_DOWN")


def test_what_was_cancelled_has_neither_completed_nor_failed() -> None:
    app = hf.App()

    @app.task(retry=hf.Retry.fixed(["1h"]))
    def fails() -> None:
        raise ValueError

    with World(app) as world:
        handle = fails.send()
        world.elapse(1)
        assert handle.info().next_retry_at is not None
        handle.cancel()
        info = handle.info()
        assert info.status is hf.TaskStatus.CANCELLED
        assert info.failed_at is info.completed_at is info.next_retry_at is None
        assert info.finished_at == world.now


def test_the_last_retry_leaves_no_next_one() -> None:
    app = hf.App()

    @app.task(retry=hf.Retry.fixed([1, 1]))
    def fails() -> None:
        raise ValueError

    with World(app):
        handle = fails.send()
        assert handle.get().is_err
        info = handle.info()
        assert (info.retry_count, info.next_retry_at) == (2, None)
        assert info.failed_at == info.finished_at


def test_a_time_limit_names_the_attempt_that_took_too_long() -> None:
    app = hf.App()

    @app.task(retry=hf.Retry.fixed([1, 1]), time_limit="1s")
    async def slow() -> None:
        await asyncio.sleep(60)

    with World(app):
        error = slow.send().get().err_value
        assert error.error_code == "TIME_LIMIT_EXCEEDED"
        assert error.message == "Attempt 3 of the task slow took longer than 1 s"
