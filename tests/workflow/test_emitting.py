"""Emitting and publishing: from the code of a workflow, from its steps and from background tasks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast import runtime
from holdfast.client.caller import Caller
from holdfast.payloads.errors import StepCalledOff
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.replies import StreamReply
from holdfast.protocol.requests import StreamRead
from holdfast.protocol.streams import ATTEMPT_HEADER, STEP_HEADER
from holdfast.steps import emitter as emitter_module
from holdfast.steps.here import current_attempt
from holdfast.workflow import functions
from holdfast.workflow.emitting import emit, publish
from holdfast.workflow.errors import BadName, NotRunning
from tests.workflow.talk import elements, values
from tests.workflow.world import World, virtual


@virtual
async def test_a_workflow_emits_and_publishes_in_order_and_once(world: World) -> None:
    @world.workflow
    async def shop() -> None:
        await publish("stage", "begun")
        for number in range(3):
            emit("tokens", number)
        await functions.sleep(10)
        await publish("stage", {"packed": 3})

    first = world.worker()
    await world.start(shop, id="x")
    await world.until_state("x", "suspended")
    assert await values(world, "x", "value.stage") == ["begun"]
    await first.die()
    world.worker()
    await world.result("x")
    assert await values(world, "x", "out.tokens") == [0, 1, 2]
    assert await values(world, "x", "value.stage") == ["begun", {"packed": 3}]


@virtual
async def test_an_async_step_emits_and_its_result_is_recorded_after_all_its_chunks(world: World) -> None:
    async def model() -> int:
        for number in range(600):
            await emit("tokens", f"token {number}")
        return 600

    @world.workflow
    async def chat() -> int:
        return await functions.run(model)

    process = world.worker()
    await world.start(chat, id="x")
    commits: list[list[str]] = []
    process.wire.before = lambda requests: commits.append([repr(each.data) for each in requests])
    assert await world.result("x") == 600
    assert await values(world, "x", "out.tokens") == [f"token {number}" for number in range(600)]
    emitting = [number for number, each in enumerate(commits) if any("AppendAction" in one for one in each)]
    recording = [number for number, each in enumerate(commits) if any("step model" in one for one in each)]
    assert len(emitting) < 20
    assert max(emitting) < recording[0]
    [chunk, *_] = await elements(world, "x", "out.tokens")
    assert chunk.value.headers == {STEP_HEADER: "x:1", ATTEMPT_HEADER: "1.1"}


@virtual
async def test_a_step_that_is_tried_again_marks_a_new_attempt(world: World) -> None:
    async def model() -> str:
        await emit("tokens", f"of attempt {current_attempt()}")
        if current_attempt() == 1:
            raise ConnectionError("cut off")
        return "done"

    @world.workflow
    async def chat() -> str:
        return await functions.run(model, retry=hf.Retry(attempts=2, delay=1))

    world.worker()
    assert await world.run(chat) == "done"
    found = await elements(world, "x", "out.tokens")
    assert [(each.value.headers or {})[ATTEMPT_HEADER] for each in found] == ["1.1", "1.2"]
    assert await values(world, "x", "out.tokens") == ["of attempt 1", "of attempt 2"]


@virtual
async def test_a_step_that_begins_again_after_a_crash_marks_a_new_attempt(world: World) -> None:
    async def model() -> str:
        await emit("tokens", "hello")
        await asyncio.sleep(5)
        return "done"

    @world.workflow
    async def chat() -> str:
        return await functions.run(model)

    first = world.worker()
    await world.start(chat, id="x")
    await world.until(lambda: "x:out.tokens.1" in world.store.promises)
    await first.die()
    world.worker()
    assert await world.result("x") == "done"
    found = await elements(world, "x", "out.tokens")
    assert [(each.value.headers or {})[ATTEMPT_HEADER] for each in found] == ["1.1", "2.1"]


@virtual
async def test_a_lost_claim_raises_at_the_next_emit(world: World) -> None:
    seen: list[BaseException] = []
    reached = asyncio.Event()
    goes_on = asyncio.Event()

    async def model() -> None:
        await emit("tokens", 1)
        reached.set()
        await goes_on.wait()
        for number in range(2, 10):
            try:
                await emit("tokens", number)
                await asyncio.sleep(0.1)
            except StepCalledOff as error:
                seen.append(error)
                raise

    @world.workflow
    async def chat() -> None:
        await runtime.shield(functions.run(model))

    world.worker()
    await world.start(chat, id="x")
    await reached.wait()
    await world.until(lambda: "x:out.tokens.1" in world.store.promises)
    from msgspec.structs import replace

    task = world.store.tasks["x"]
    world.store.tasks["x"] = replace(task, version=task.version + 1)
    goes_on.set()
    await world.until(lambda: bool(seen))
    assert await values(world, "x", "out.tokens") == [1]


@virtual
async def test_a_full_window_makes_a_step_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter_module, "window_chunks", 10)
    outstanding: list[int] = []

    async def model() -> None:
        for number in range(100):
            await emit("tokens", number)
            stored = sum(key.startswith("x:out.tokens.") for key in world.store.promises)
            outstanding.append(number + 1 - stored)

    @world.workflow
    async def chat() -> None:
        await functions.run(model)

    world.worker()
    await world.run(chat)
    assert max(outstanding) <= 11
    assert await values(world, "x", "out.tokens") == list(range(100))


@virtual
async def test_what_cannot_be_appended_fails_the_step(world: World) -> None:
    async def model() -> str:
        for number in range(70):
            await emit(f"stream-{number}", number)
        return "done"

    @world.workflow
    async def chat() -> str:
        return await functions.run(model)

    world.worker()
    with pytest.raises(Exception, match="64 streams"):
        await world.run(chat)


@virtual
async def test_a_name_too_many_is_refused_where_the_workflow_emits_and_by_every_replay(world: World) -> None:
    @world.workflow
    async def chat() -> int:
        number = 0
        try:
            for number in range(70):
                await emit(f"stream-{number}", number)
        except hf.errors.TooManyStreams:
            await functions.sleep(10)
        return number

    first = world.worker()
    await world.start(chat, id="x")
    await world.until_state("x", "suspended")
    assert await values(world, "x", "out.stream-63") == [63]
    await first.die()
    world.worker()
    assert await world.result("x") == 64


@virtual
async def test_what_was_emitted_last_and_refused_is_told_and_the_execution_has_ended(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def model() -> None:
        for number in range(64):
            await emit(f"stream-{number}", number)

    @world.workflow
    async def chat() -> str:
        await functions.run(model)
        await emit("one-more", 1)
        return "done"

    world.worker()
    await world.start(chat, id="x")
    assert await world.result("x") == "done"
    told = [record.getMessage() for record in caplog.records]
    assert [each for each in told if each.startswith("x:out.one-more was begun last and was refused: ")]
    assert not [each for each in told if "offered again" in each]


@pytest.mark.parametrize("name", ["", "a.b", "ä", "x" * 101])
def test_a_bad_name_of_a_stream_is_refused_at_the_call(name: str) -> None:
    with pytest.raises(BadName, match="HF5119"):
        emit(name, 1)


def test_outside_of_everything_there_is_nothing_to_emit_for() -> None:
    with pytest.raises(NotRunning, match="HF5116"):
        publish("stage", 1)


# --- threads, child processes and tasks, in real time ----------------------------------------------------


def in_thread(count: int) -> int:
    for number in range(count):
        emit("tokens", number)
    publish("stage", "done")
    return count


@hf.step(mode="process")
def in_child(count: int) -> int:
    return in_thread(count)


async def read(app: hf.App, execution: str, stream: str) -> list[Any]:
    client = app.session._client  # pyright: ignore[reportPrivateUsage]
    reply = await Caller(client).ask(StreamRead(execution, stream, limit=256), StreamReply)
    return [Payloads().decode(each.value) for each in reply.promises]


def shop(folder: Path) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db")

    @app.task(queue="q")
    def job(count: int) -> int:
        return in_thread(count)

    @app.workflow
    async def chat(how: str) -> Any:
        if how == "thread":
            return await functions.run(in_thread, 100)
        if how == "process":
            return await in_child(100)
        return (await functions.call(job, 100)).ok

    return app


@pytest.mark.parametrize("how", ["thread", "process", "task"])
async def test_plain_steps_child_processes_and_called_tasks_emit_for_the_execution(
    how: str, tmp_path: Path
) -> None:
    async with shop(tmp_path) as app:
        assert await app.start("chat", how, id="x") == 100
        assert await read(app, "x", "out.tokens") == list(range(100))
        assert await read(app, "x", "value.stage") == ["done"]


async def test_a_task_that_was_sent_alone_has_streams_of_its_own(tmp_path: Path) -> None:
    async with shop(tmp_path) as app:
        job: Any = app.tasks.find("job")
        handle = await job.with_options(id="alone").send_async(3)
        await handle.get_async()
        assert await read(app, "alone", "out.tokens") == [0, 1, 2]
