"""What cannot be written down is an error at that operation, the same on every replay; lost messages."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import CreateAction, Request, TaskFence
from holdfast.testing import World, crash_everywhere
from holdfast.workflow import functions
from tests.workflow.world import World as WorkflowWorld, virtual

TOO_MUCH = "x" * 1_100_000

app = hf.App("memory:")


async def give(what: str, count: int = 1) -> str:
    return what * count


async def explode() -> None:
    raise ValueError(TOO_MUCH)


@app.workflow
async def echo(value: Any = None) -> Any:
    return value


@app.workflow
async def flow() -> list[str]:
    seen: list[str] = []

    async def attempt(what: str, work: Any) -> None:
        try:
            await work
            seen.append(f"{what} went well")
        except Exception as error:
            seen.append(f"{what}: {type(error).__name__}")

    await attempt("a large result", hf.run(give, "x", 1_100_000))
    await attempt("a large error", hf.run(explode))
    await attempt("a large argument", hf.call(echo, TOO_MUCH))
    unstorable: Any = object()
    await attempt("an argument that is no data", hf.call(echo, unstorable))
    await attempt("a start with it", hf.start(echo, TOO_MUCH))
    small = hf.call(echo, "small")
    large = hf.call(echo, TOO_MUCH)
    step = hf.run(give, "step")
    await attempt("beside others", large)
    seen += [await small, await step]
    await hf.sleep("1h")
    return seen


@pytest.mark.slow
def test_what_cannot_be_written_down_is_an_error_at_that_operation_after_every_crash() -> None:
    proof = crash_everywhere(flow, app=app, points_max=30)
    assert proof.result == [
        "a large result: PayloadTooLarge",
        "a large error: NotRecorded",
        "a large argument: PayloadTooLarge",
        "an argument that is no data: UnencodablePayload",
        "a start with it: PayloadTooLarge",
        "beside others: PayloadTooLarge",
        "small",
        "step",
    ]
    assert proof.crashes > 20


def test_a_result_that_cannot_be_written_down_fails_the_execution_and_not_its_worker() -> None:
    big = hf.App("memory:")

    @big.workflow
    async def large() -> str:
        return TOO_MUCH

    with World(big), pytest.raises(hf.errors.NotRecorded, match="bytes"):
        big.start(large).result()


def test_an_id_that_leaves_no_room_for_those_below_is_an_error_at_the_first_operation() -> None:
    with World(app), pytest.raises(hf.errors.NotRecorded, match="too long to add the ids of its steps"):
        app.start(flow, id="x" * 1_000).result()


@virtual
async def test_a_creation_that_the_node_refuses_is_an_error_there_and_on_replay(world: WorkflowWorld) -> None:
    """Here a token that does not cover the target, as a server says it."""
    performed: list[str] = []

    async def after(what: str) -> str:
        performed.append(what)
        return what

    @world.workflow
    async def refused() -> str:
        said = ""
        try:
            await functions.call("nowhere")
        except hf.errors.NotRecorded as error:
            said = await functions.run(after, error.what)
        await functions.promise()
        return said

    def guard(process: Any) -> Any:
        ask = process.wire.request

        async def request(requests: Sequence[Request]) -> list[Reply]:
            def forbidden(request: Request) -> bool:
                action = request.data.action if isinstance(request.data, TaskFence) else None
                return isinstance(action, CreateAction) and action.data.id == "x:1"

            replies: list[Reply] = await ask(
                [each for each in requests if not forbidden(each)] or requests[:0]
            )
            rest = iter(replies)
            return [Reply(403, "not yours") if forbidden(each) else next(rest) for each in requests]

        process.wire.request = request
        return process

    first = guard(world.worker())
    await world.start(refused, id="x")
    await world.until_state("x", "suspended")
    await first.die()
    guard(world.worker())
    await world.settle("x:3")
    assert "not yours" in await world.result("x")
    assert len(performed) == 1
    assert (await world.promise("x:1~no")).state == "rejected"


@virtual
async def test_a_lost_message_during_a_long_step_costs_half_a_minute(world: WorkflowWorld) -> None:
    async def long() -> str:
        await asyncio.sleep(100_000)
        return "slow"

    @world.workflow
    async def racing() -> str:
        from holdfast.runtime import race

        return str(await race([functions.promise(str), functions.run(long)]))

    process = world.worker()
    process.inbox.tell = lambda promise: None  # type: ignore[method-assign]
    await world.start(racing, id="x")
    await asyncio.sleep(10)
    before = world.loop.time()
    await world.settle("x:1", "quick")
    assert await world.result("x") == "quick"
    assert world.loop.time() - before < 60


@virtual
async def test_arguments_are_those_of_the_moment_of_asking(world: WorkflowWorld) -> None:
    """Changing one afterwards is no mismatch: neither live nor on replay."""
    given: list[list[int]] = []

    async def take(numbers: list[int]) -> int:
        given.append(list(numbers))
        await asyncio.sleep(5)
        return len(numbers)

    @world.workflow
    async def changing() -> int:
        numbers = [1]
        step = functions.run(take, numbers)
        child = functions.call("child", numbers)
        numbers.append(2)
        await functions.now()
        taken = await step
        await child
        await functions.promise()
        return taken

    @world.workflow
    async def child(numbers: list[int]) -> int:
        return len(numbers)

    first = world.worker()
    await world.start(changing, id="x")
    await world.until_state("x", "suspended")
    await first.die()
    world.worker()
    await world.settle("x:4")
    assert await asyncio.wait_for(world.result("x"), 1_000) >= 1
    assert len(given) == 1


@app.workflow
async def halve(number: int) -> float:
    return number / 2


@app.workflow
async def halve_what(number: Any) -> str:
    try:
        return str(await hf.call(halve, number))
    except hf.errors.BadArguments as error:
        return error.what


@pytest.mark.parametrize("arguments", [("seven",), (), (1, 2)])
def test_a_start_whose_arguments_do_not_fit_is_refused_where_it_is_made(arguments: tuple[Any, ...]) -> None:
    with World(app) as world:
        with pytest.raises(hf.errors.BadArguments, match=r"halve\(number: int\)"):
            app.start(halve, *arguments, id="refused")
        assert "refused" not in world.store.promises


def test_so_is_a_call_the_same_on_every_replay() -> None:
    with World(app) as world:
        assert app.start(halve_what, 7).result() == "3.5"
        assert "'number' does not fit" in app.start(halve_what, "seven").result()
        world.settle_down()
    crash_everywhere(halve_what, "seven", app=app)


@app.workflow
async def calls_a_step() -> str:
    try:
        return str(await hf.call(give, "x"))  # type: ignore[call-overload]
    except hf.errors.NotAWorkflow as error:
        return error.what


def test_what_is_no_workflow_is_refused_by_name() -> None:
    with World(app) as world:
        with pytest.raises(hf.errors.NotAWorkflow, match="give is a function, not a workflow"):
            app.start(give, "x")  # type: ignore[call-overload]
        assert app.start(calls_a_step).result() == "give is a function, not a workflow"
        world.settle_down()


@app.workflow
async def waits_for_nobody() -> None:
    await hf.promise(timeout="50ms")


def test_an_execution_that_timed_out_is_not_taken_for_one_that_goes_on() -> None:
    own = hf.App("memory:")
    own.workflow(name="waits_for_nobody")(waits_for_nobody.function)
    with pytest.raises(hf.TimedOut):
        own.start("waits_for_nobody").result(timeout=60)
    own.close()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (17, "17 is not a string"),
        ("", "must not be empty"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 1_025, "1025 bytes"),
    ],
)
def test_an_id_that_cannot_be_used_is_refused_where_it_is_given(given: Any, why: str) -> None:
    with World(app):
        for use in (
            lambda: app.start(echo, id=given),
            lambda: app.start("echo", id=given),
            lambda: app.handle(given),
            lambda: app.resolve(given),
            lambda: app.reject(given, ValueError()),
        ):
            with pytest.raises(hf.errors.BadId, match=why) as caught:
                use()
            assert "HF5015" in str(caught.value)
            assert len(str(caught.value)) < 300


def test_only_none_asks_for_a_fresh_id() -> None:
    with World(app):
        first = app.start("echo", id=None)
        assert first.id.startswith("echo-")
        assert app.start("echo").id != first.id
