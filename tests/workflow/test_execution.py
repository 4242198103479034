"""Executions: ids, records, replay and its checks, on a real node in virtual time.

`rebuilt` runs a workflow twice over: the first worker dies when the workflow waits, and another rebuilds it
from what is recorded.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.payloads.payloads import Payloads
from holdfast.protocol.requests import CreateAction, TaskContinue, TaskFence
from holdfast.runtime import (
    Channel,
    NotAwaited,
    Queue,
    TimedOut,
    any_of,
    gather,
    race,
    scope,
    select,
    spawn,
    within,
)
from holdfast.workflow import functions as hf
from holdfast.workflow.errors import ExecutionCancelled
from holdfast.workflow.registry import Registry
from tests.workflow.world import WorkerProcess, World, virtual, workflow


class Effects:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def do(self, what: Any) -> Any:
        self.seen.append(what)
        return what

    async def slow(self, what: Any, seconds: float) -> Any:
        self.seen.append(what)
        await asyncio.sleep(seconds)
        return what

    async def fail(self, error: Exception) -> None:
        self.seen.append(str(error))
        raise error


async def rebuilt(world: World, flow: Any, *args: Any, gate: str, value: Any = None) -> Any:
    """Run until it is suspended, kill the worker, let another rebuild it, open the gate."""
    first = world.worker()
    await world.start(flow, *args, id="x")
    await world.until_state("x", "suspended")
    await first.die()
    world.worker()
    await world.settle(gate, value)
    return await world.result("x")


# --- ids ------------------------------------------------------------------------------------------------


@virtual
async def test_the_nth_operation_of_an_execution_has_the_number_n(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def child() -> None:
        await hf.run(effects.do, "below")
        await hf.now()

    @world.workflow
    async def flow() -> None:
        await hf.run(effects.do, "a")
        await hf.sleep(1)
        await hf.call(child)
        await hf.uuid()

    world.worker()
    await world.run(flow)
    assert world.journal("x") == {
        "x:1": "step do",
        "x:2": "sleep",
        "x:3": "call child",
        "x:3.1": "step do",
        "x:3.2": "note now",
        "x:4": "note uuid",
    }


@virtual
async def test_ids_go_by_the_order_of_asking_not_of_finishing(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> list[str]:
        return list(await gather(*(hf.run(effects.slow, str(n), 10 - n) for n in range(1, 6))))

    world.worker()
    assert await world.run(flow) == ["1", "2", "3", "4", "5"]
    for n in range(1, 6):
        assert world.payloads.decode((await world.promise(f"x:{n}")).value) == str(n)


@virtual
async def test_a_step_is_recorded_when_it_finishes_in_one_request(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> None:
        await hf.run(effects.slow, "quick", 1)

    process = world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: bool(effects.seen))
    assert world.journal("x") == {}
    await world.result("x")
    [fence] = [request.data for request in process.wire.sent if isinstance(request.data, TaskFence)]
    assert isinstance(fence.action, CreateAction)
    assert fence.action.data.settle is not None


@virtual
async def test_a_step_that_takes_long_can_be_seen_while_it_runs(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> str:
        return await hf.run(effects.slow, "long", 30)

    world.worker()
    await world.start(flow, id="x")
    await asyncio.sleep(10)
    assert (await world.promise("x:1")).state == "pending"
    assert await world.result("x") == "long"
    assert effects.seen == ["long"]


@virtual
async def test_a_long_step_that_somebody_settles_has_that_outcome(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> Any:
        first = await hf.run(effects.slow, "long", 30)
        return first + await hf.run(effects.do, " and on")

    world.worker()
    await world.start(flow, id="x")
    await asyncio.sleep(10)
    await world.settle("x:1", "overruled")
    assert await world.result("x") == "overruled and on"


# --- replay ---------------------------------------------------------------------------------------------


@virtual
async def test_what_is_recorded_is_not_performed_again(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> list[Any]:
        before = [await hf.run(effects.do, n) for n in range(5)]
        both = await gather(hf.run(effects.do, "a"), hf.run(effects.do, "b"))
        gate = await hf.promise(str)
        return [*before, *both, gate, await hf.run(effects.do, "after")]

    assert await rebuilt(world, flow, gate="x:8", value="open") == [0, 1, 2, 3, 4, "a", "b", "open", "after"]
    assert effects.seen == [0, 1, 2, 3, 4, "a", "b", "after"]


@virtual
async def test_notes_are_the_same_on_replay(world: World) -> None:
    seen: list[Any] = []

    @world.workflow
    async def flow() -> None:
        notes = (await hf.now(), await hf.random(), await hf.uuid())
        seen.append(notes)
        await hf.promise()
        seen.append(notes)

    await rebuilt(world, flow, gate="x:4")
    assert len(seen) == 3, "it was rebuilt"
    assert seen[0] == seen[1] == seen[2]
    when, number, name = seen[0]
    assert isinstance(when, datetime)
    assert when.tzinfo is UTC
    assert 0 <= number < 1
    assert isinstance(name, uuid.UUID)


@virtual
async def test_a_note_beside_a_step_forgets_neither(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> Any:
        step = hf.run(effects.do, "step")
        timer = hf.sleep(5)
        number = await hf.random()
        await timer
        return [await step, number]

    world.worker()
    step, number = await asyncio.wait_for(world.run(flow), 100)
    assert step == "step"
    assert number == world.payloads.decode((await world.promise("x:3")).value)


@virtual
async def test_a_note_is_written_also_when_the_code_returns_at_once(world: World) -> None:
    @world.workflow
    async def flow() -> float:
        return await hf.random()

    world.worker()
    assert await world.run(flow) == world.payloads.decode((await world.promise("x:1")).value)


@virtual
async def test_a_result_and_an_error_of_a_step_look_alike_live_and_on_replay(world: World) -> None:
    """Rule 4: values go through their recorded form."""
    seen: list[Any] = []

    async def pair() -> tuple[int, str]:
        return 1, "x"

    async def untyped() -> Any:
        return 1, "x"

    @world.workflow
    async def flow() -> None:
        got = (await hf.run(pair), await hf.run(untyped))
        seen.append(got)
        await hf.promise()

    await rebuilt(world, flow, gate="x:3")
    assert seen == [((1, "x"), [1, "x"])] * 2


@virtual
async def test_a_suspended_execution_goes_on_with_the_same_fibers_when_nobody_drove_it_meanwhile(
    world: World,
) -> None:
    entered: list[int] = []

    @world.workflow
    async def flow() -> int:
        entered.append(1)
        for _ in range(5):
            await hf.sleep("1h")
        return len(entered)

    world.worker()
    assert await world.run(flow) == 1
    assert (await world.task("x")).version == 6


@virtual
async def test_beyond_the_warm_bound_it_is_rebuilt(world: World) -> None:
    entered: list[int] = []

    @world.workflow
    async def flow(n: int) -> int:
        entered.append(n)
        await hf.sleep("1h")
        return n

    process = world.worker(warm_max=2)
    for n in range(10):
        await world.start(flow, n, id=f"x{n}")
        await world.until_state(f"x{n}", "suspended")
    assert process.workflows.warm_count == 2
    assert [await world.result(f"x{n}") for n in range(10)] == [*range(10)]
    assert len(entered) == 18


@virtual
async def test_an_execution_that_another_worker_drove_meanwhile_is_rebuilt(world: World) -> None:
    entered: list[str] = []
    registries = {name: Registry() for name in "ab"}
    for name, registry in registries.items():

        def flow_of(name: str) -> Callable[..., Any]:
            async def flow() -> str:
                entered.append(name)
                one = await hf.promise(str)
                two = await hf.promise(str)
                return f"{one} {two} {await hf.promise(str)}"

            return flow

        workflow(flow_of(name), registry, "flow")
    a = world.worker(registries["a"])
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    a.freeze()
    b = world.worker(registries["b"])
    await world.settle("x:1", "one")
    await world.until(lambda: entered == ["a", "b"], 1)
    await world.until_state("x", "suspended")
    b.freeze()
    a.thaw()
    await world.settle("x:2", "two")
    await world.until(lambda: entered == ["a", "b", "a"], 1)
    b.thaw()
    await world.until_state("x", "suspended")
    await world.settle("x:3", "three")
    assert await world.result("x") == "one two three"


@virtual
async def test_the_logger_does_not_repeat_itself_on_replay(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> None:
        hf.logger.info("begin")
        await hf.run(effects.do, 1)
        hf.logger.info("middle")
        await hf.promise()
        hf.logger.info("end")

    with caplog.at_level(logging.INFO, "holdfast.workflow"):
        await rebuilt(world, flow, gate="x:2")
    assert said(caplog) == ["begin", "middle", "end"]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "holdfast.workflow"]


@virtual
async def test_the_logger_does_not_repeat_what_was_said_between_an_operation_and_the_wait_for_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    @world.workflow
    async def flow() -> None:
        approval = hf.promise(str)
        hf.logger.info("waiting for %s", approval.id)
        await approval
        hf.logger.info("approved")

    with caplog.at_level(logging.INFO, "holdfast.workflow"):
        await rebuilt(world, flow, gate="x:1")
    assert said(caplog) == ["waiting for x:1", "approved"]


@virtual
async def test_the_logger_says_what_follows_from_results_that_were_written_together(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    effects = Effects()

    async def fiber(name: str) -> None:
        await hf.run(effects.slow, name, 1)
        hf.logger.info("%s is done", name)

    @world.workflow
    async def flow() -> None:
        await gather(spawn(fiber("a")), spawn(fiber("b")))
        await hf.promise()

    with caplog.at_level(logging.INFO, "holdfast.workflow"):
        await rebuilt(world, flow, gate="x:3")
    assert said(caplog) == ["a is done", "b is done"]


# --- order ----------------------------------------------------------------------------------------------


@virtual
async def test_the_winner_of_a_race_of_steps_is_the_winner_on_replay(world: World) -> None:
    effects = Effects()
    winners: list[str] = []

    @world.workflow
    async def flow() -> Any:
        winner = await race([hf.run(effects.slow, "slow", 3), hf.run(effects.slow, "quick", 1)])
        winners.append(winner)
        await hf.run(effects.do, f"after {winner}")
        await hf.promise()
        return winner

    assert await rebuilt(world, flow, gate="x:4") == "quick"
    assert winners == ["quick", "quick"]
    assert effects.seen.count("after quick") == 1


@virtual
async def test_which_of_two_outside_completions_came_first_is_remembered(world: World) -> None:
    """Both are settled by the time of the rebuild: only the record tells which was seen first."""
    effects = Effects()
    seen: list[str] = []

    @world.workflow
    async def flow() -> list[str]:
        box: Queue[str] = Queue()

        async def forward() -> None:
            await box.put(await hf.promise(str))

        for _ in range(2):
            spawn(forward())
        first = await box.get()
        await hf.run(effects.do, f"after {first}")
        second = await box.get()
        await hf.run(effects.do, f"after {second}")
        await hf.promise()
        seen.append(first)
        return [first, second]

    first = world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await world.settle("x:2", "late asked, early settled")
    await world.until(lambda: len(effects.seen) == 1)
    await world.until_state("x", "suspended")
    await world.settle("x:1", "early asked, late settled")
    await world.until(lambda: len(effects.seen) == 2)
    await world.until_state("x", "suspended")
    await first.die()
    world.worker()
    await world.settle("x:5")
    assert await world.result("x") == ["late asked, early settled", "early asked, late settled"]
    assert len(effects.seen) == 2


@virtual
async def test_calls_observed_in_some_order_are_seen_in_that_order_on_replay(world: World) -> None:
    """The records of calls belong to other executions; the rebuilt one asks for them."""
    effects = Effects()

    @world.workflow
    async def child(seconds: float) -> float:
        await hf.sleep(seconds)
        return seconds

    @world.workflow
    async def flow() -> list[float]:
        order: list[float] = []

        async def one(seconds: float) -> None:
            got = await hf.call(child, seconds)
            order.append(got)
            await hf.run(effects.do, got)

        async with scope() as tasks:
            for seconds in (3.0, 1.0, 2.0):
                tasks.spawn(one(seconds))
        await hf.promise()
        return order

    first = world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: len(effects.seen) == 3)
    await world.until_state("x", "suspended")
    await first.die()
    world.worker()
    await world.settle("x:7")
    assert await world.result("x") == [1.0, 2.0, 3.0]
    assert effects.seen == [1.0, 2.0, 3.0]


@virtual
async def test_a_lone_completion_from_outside_costs_no_record(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        for _ in range(3):
            await hf.sleep(1)

    world.worker()
    await world.run(flow)
    assert sorted(key for key in world.store.promises if key.startswith("x:")) == ["x:1", "x:2", "x:3"]


@virtual
async def test_ordinary_fan_out_costs_one_record_a_step(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> None:
        await gather(*(hf.run(effects.do, n) for n in range(20)))

    process = world.worker()
    await world.run(flow)
    assert len([key for key in world.store.promises if key.startswith("x:")]) == 20
    assert process.wire.kinds().count("task.fence") == 20


@virtual
async def test_a_fan_out_too_large_for_one_commit_is_recorded_all_the_same(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> int:
        await gather(*(hf.sleep(1) for _ in range(2_000)))
        return len(await gather(*(hf.run(effects.do, n) for n in range(2_000))))

    world.worker()
    assert await world.run(flow) == 2_000


# --- the check of replay --------------------------------------------------------------------------------


def registry_of(flow: Callable[..., Any], name: str = "flow") -> Registry:
    registry = Registry()
    workflow(flow, registry, name)
    return registry


async def deployed(world: World, before: Callable[..., Any], after: Callable[..., Any]) -> str:
    """Run one version until it waits, deploy another, wake it. Returns what halted it."""
    first = world.worker(registry_of(before))
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    halted: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: halted.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("holdfast.worker")
    log.addHandler(handler)
    try:
        second = world.worker(registry_of(after))
        for promise in [*world.store.promises.values()]:
            if promise.state == "pending" and promise.id != "x":
                await world.settle(promise.id, "gate")
        await world.until_state("x", "halted")
        await second.stop()
    finally:
        log.removeHandler(handler)
    return halted[-1]


@virtual
async def test_another_step_than_recorded_halts_naming_both_and_the_line(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.run(effects.do, 1)
        await hf.promise()

    async def after() -> None:
        await hf.run(effects.slow, 1, 1)  # the line
        await hf.promise()

    said = await deployed(world, before, after)
    assert "x:1" in said
    assert "step do" in said
    assert "step slow" in said
    assert f'"{__file__}", line {after.__code__.co_firstlineno + 1}' in said
    assert effects.seen == [1], "nothing was performed"


@virtual
async def test_other_arguments_than_recorded_halt(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.run(effects.do, 1)
        await hf.promise()

    async def after() -> None:
        await hf.run(effects.do, 2)
        await hf.promise()

    said = await deployed(world, before, after)
    assert "x:1" in said
    assert "arguments" in said
    assert "now it is given (2)" in said
    assert "after#1" in said
    assert line(after, 1) in said


def line(function: Callable[..., Any], number: int) -> str:
    """The n-th line after that of the `def`, as errors name it."""
    return f'"{__file__}", line {function.__code__.co_firstlineno + number}'


@virtual
async def test_where_the_record_has_them_both_arguments_are_named_and_long_ones_are_cut(world: World) -> None:
    async def sleeps() -> None:
        await hf.sleep(7200)

    async def sleeps_longer() -> None:
        await hf.sleep("1d")

    said = await deployed(world, sleeps, sleeps_longer)
    assert "recorded with (about 7200)" in said
    assert "given (86400.0)" in said


@virtual
async def test_the_arguments_of_a_call_are_named_as_they_were_and_as_they_are(world: World) -> None:
    async def before() -> None:
        await hf.call("elsewhere", "old", size=1)

    async def after() -> None:
        await hf.call("elsewhere", "new" * 1_000, size=1)

    said = await deployed(world, before, after)
    assert "recorded with ('old', size=1)" in said
    assert "given ('newnew" in said
    assert len(said) < 800


@virtual
async def test_arguments_that_only_a_codec_can_read_are_not_shown(world: World) -> None:
    class Reversed:
        def encode(self, raw: bytes, /) -> bytes:
            return raw[::-1]

        decode = encode

    async def before() -> None:
        await hf.call("elsewhere", "my password")

    async def after() -> None:
        await hf.call("elsewhere", "my new password")

    world.payloads = Payloads(Reversed())
    said = await deployed(world, before, after)
    assert "other arguments" in said
    assert "password" not in said


@virtual
async def test_another_kind_than_recorded_halts(world: World) -> None:
    async def before() -> None:
        await hf.promise()

    async def after() -> None:
        await hf.sleep(1)

    said = await deployed(world, before, after)
    assert "promise" in said
    assert "sleep" in said


@virtual
async def test_a_step_where_a_call_was_recorded_halts_before_it_is_performed(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.call("elsewhere")
        await hf.promise()

    async def after() -> None:
        await hf.run(effects.do, "instead")

    first = world.worker(registry_of(before))
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    second = world.worker(registry_of(after))
    await world.settle("x:1")
    await world.until_state("x", "halted")
    await second.stop()
    assert effects.seen == []


@virtual
async def test_code_that_ends_before_what_is_recorded_halts(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.run(effects.do, 1)
        await hf.run(effects.do, 2)
        await hf.promise()

    async def after() -> None:
        await hf.run(effects.do, 1)

    said = await deployed(world, before, after)
    assert "x:2 was recorded as 'step do'" in said
    assert "after x:1 ('step do', fiber after#1" in said
    assert line(after, 1) in said
    assert "x:3" not in said, "the first that is missing is named"


@virtual
async def test_code_that_fails_before_what_is_recorded_halts_and_says_where(world: World) -> None:
    async def before() -> None:
        await hf.promise()

    async def after() -> None:
        raise ValueError("too early")

    said = await deployed(world, before, after)
    assert "x:1 was recorded as 'promise'" in said
    assert "ValueError" in said
    assert line(after, 1) in said


@virtual
async def test_code_that_asks_for_nothing_any_more_halts_and_says_which(world: World) -> None:
    async def before() -> None:
        await hf.promise()

    async def after() -> None:
        pass

    said = await deployed(world, before, after)
    assert "x:1 was recorded as 'promise'" in said
    assert line(after, 0) in said


@virtual
async def test_code_that_waits_for_something_else_than_recorded_halts(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.run(effects.do, 1)
        await gather(hf.run(effects.do, 2), hf.promise(str))

    async def after() -> None:
        await hf.run(effects.do, 1)
        await spawn(_never())

    async def _never() -> None:
        await Channel[int]("empty").receive

    said = await deployed(world, before, after)
    assert "x:2 was recorded as 'step do'" in said
    assert "_never#2" in said
    assert line(_never, 1) in said


@virtual
async def test_a_halted_execution_goes_on_after_a_fixed_deploy(world: World) -> None:
    effects = Effects()

    async def good() -> Any:
        one = await hf.run(effects.do, 1)
        gate = await hf.promise(str)
        return [one, gate, await hf.run(effects.do, 2)]

    async def bad() -> Any:
        return await hf.run(effects.do, "different")

    await deployed(world, good, bad)
    world.worker(registry_of(good))
    await asyncio.sleep(100)
    assert (await world.task("x")).state == "halted", "it waits for a person"
    await world.ask(TaskContinue("x"))
    assert await world.result("x") == [1, "gate", 2]
    assert effects.seen == [1, 2]


@virtual
async def test_a_mismatch_that_the_code_catches_halts_all_the_same(world: World) -> None:
    effects = Effects()

    async def before() -> None:
        await hf.run(effects.do, 1)
        await hf.promise()

    async def after() -> None:
        try:
            await hf.run(effects.do, 2)
        except Exception:
            await hf.run(effects.do, "swallowed")

    await deployed(world, before, after)
    assert effects.seen == [1]


# --- patched --------------------------------------------------------------------------------------------


@virtual
async def test_patched_is_true_for_new_executions_and_stays_so(world: World) -> None:
    seen: list[bool] = []

    @world.workflow
    async def flow() -> None:
        seen.append(await hf.patched("tax"))
        await hf.promise()

    await rebuilt(world, flow, gate="x:2")
    assert seen == [True, True]


@virtual
async def test_patched_is_false_for_executions_recorded_before(world: World) -> None:
    effects = Effects()

    async def before() -> Any:
        await hf.run(effects.do, "one")
        await hf.promise()
        return await hf.run(effects.do, "old end")

    async def after() -> Any:
        await hf.run(effects.do, "one")
        if await hf.patched("tax"):
            await hf.run(effects.do, "tax")
        await hf.promise()
        return await hf.run(effects.do, "old end")

    first = world.worker(registry_of(before))
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    world.worker(registry_of(after))
    await world.settle("x:2")
    assert await world.result("x") == "old end"
    assert effects.seen == ["one", "old end"]
    await world.start("flow", id="y")
    await world.until_state("y", "suspended")
    assert effects.seen[-2:] == ["one", "tax"]


@virtual
async def test_patched_is_false_where_a_call_was_recorded(world: World) -> None:
    async def before() -> Any:
        return await hf.call("elsewhere")

    async def after() -> Any:
        new = await hf.patched("tax")
        return [new, await hf.call("elsewhere")]

    first = world.worker(registry_of(before))
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    world.worker(registry_of(after))
    await world.settle("x:1", "called")
    assert await world.result("x") == [False, "called"]


# --- errors ---------------------------------------------------------------------------------------------


class Declined(Exception):
    def __init__(self, card: str, code: int) -> None:
        super().__init__(card, code)
        self.card = card
        self.code = code


@virtual
async def test_the_error_of_a_step_is_itself_live_on_replay_and_at_the_caller(world: World) -> None:
    effects = Effects()
    caught: list[Declined] = []

    @world.workflow
    async def flow() -> None:
        try:
            await hf.run(effects.fail, Declined("visa", 51))
        except Declined as error:
            caught.append(error)
            await hf.promise()
            raise

    with pytest.raises(Declined) as raised:
        await rebuilt(world, flow, gate="x:2")
    for error in [*caught, raised.value]:
        assert (error.card, error.code) == ("visa", 51)
    assert len(caught) == 2
    assert effects.seen == ["('visa', 51)"]
    assert "in fail" in str(caught[1].__cause__), "the remote traceback as text"


@virtual
async def test_the_error_of_a_called_workflow_is_raised_where_it_is_awaited(world: World) -> None:
    @world.workflow
    async def child() -> None:
        raise Declined("visa", 51)

    @world.workflow
    async def flow() -> int:
        try:
            await hf.call(child)
        except Declined as error:
            return error.code
        return 0

    world.worker()
    assert await world.run(flow) == 51


@virtual
async def test_a_value_that_cannot_be_recorded_fails_the_step_not_the_worker(world: World) -> None:
    async def odd() -> Any:
        return object()

    @world.workflow
    async def flow() -> str:
        try:
            await hf.run(odd)
        except Exception as error:
            return type(error).__name__
        return ""

    world.worker()
    assert await world.run(flow) == "UnencodablePayload"


@virtual
async def test_a_deadlock_is_the_error_of_the_workflow(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        await Channel[int]("empty").receive

    world.worker()
    with pytest.raises(Exception, match="empty"):
        await world.run(flow)


# --- spelling -------------------------------------------------------------------------------------------


@virtual
async def test_a_generator_records_what_a_coroutine_records(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def as_coroutine() -> Any:
        one = await hf.run(effects.do, 1)
        await hf.sleep(1)
        two = await gather(hf.run(effects.do, 2), hf.run(effects.do, 3))
        new = await hf.patched("p")
        return [one, *two, new, (await hf.now()).timestamp() >= 0]

    @world.workflow
    def as_generator() -> Generator[Any, Any, Any]:
        one = yield from hf.run(effects.do, 1)
        yield from hf.sleep(1)
        two = yield from gather(hf.run(effects.do, 2), hf.run(effects.do, 3))
        new = yield from hf.patched("p")
        now = yield from hf.now()
        return [one, *two, new, now.timestamp() >= 0]

    world.worker()
    assert await world.run(as_coroutine, id="x") == await world.run(as_generator, id="y")
    assert [*world.journal("x").values()] == [*world.journal("y").values()]


@dataclass
class Order:
    id: uuid.UUID
    at: datetime
    items: list[tuple[str, int]]


@virtual
async def test_payloads_are_typed_both_ways(world: World) -> None:
    seen: list[Any] = []

    async def price(order: Order) -> Order:
        seen.append(order)
        return order

    @world.workflow
    async def flow(order: Order) -> Order:
        seen.append(order)
        priced = await hf.run(price, order)
        seen.append(priced)
        return priced

    order = Order(uuid.uuid4(), datetime(2026, 1, 2, tzinfo=UTC), [("tea", 2)])
    world.worker()
    await world.start(flow, order, id="x")
    assert await world.result("x", Order) == order
    assert seen == [order] * 3


# --- timers, promises, calls, cancellation --------------------------------------------------------------


@virtual
async def test_a_promise_settled_from_outside_is_what_the_code_gets(world: World) -> None:
    ids: list[str] = []

    @world.workflow
    async def flow() -> int:
        approval = hf.promise(int)
        ids.append(approval.id)
        return await approval

    world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await world.settle(ids[0], 7)
    assert await world.result("x") == 7


@virtual
async def test_a_promise_past_its_timeout_raises(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        try:
            await hf.promise(timeout="2d")
        except TimedOut:
            return "nobody came"
        return ""

    world.worker(lease_s=20_000)
    assert await world.run(flow) == "nobody came"
    assert world.loop.time() >= 2 * 86_400


@virtual
async def test_select_of_a_promise_and_a_timer(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        tag, _ = await select(ok=hf.promise(str), late=hf.sleep("1d"))
        return tag

    world.worker(lease_s=20_000)
    assert await world.run(flow, id="late") == "late"
    await world.start(flow, id="ok")
    await world.until_state("ok", "suspended")
    await world.settle("ok:1", "yes")
    assert await world.result("ok") == "ok"


@virtual
async def test_a_timer_counts_from_when_it_was_first_asked_for(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        await hf.sleep("1h")

    first = world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await asyncio.sleep(3_000)
    await first.die()
    world.worker()
    await world.result("x")
    assert 3_600 <= world.loop.time() < 3_700


@virtual
async def test_started_workflows_run_without_being_awaited(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def child(n: int) -> None:
        await hf.sleep(10)
        await hf.run(effects.do, n)

    @world.workflow
    async def flow() -> str:
        started = await hf.start(child, 1)
        hf.start(child, 2)
        return started

    world.worker()
    assert await world.run(flow) == "x:1"
    assert effects.seen == []
    await world.result("x:1")
    await world.result("x:2")
    assert sorted(effects.seen) == [1, 2]


@virtual
async def test_a_cancelled_execution_stops_and_its_awaiter_is_told(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def child() -> None:
        await hf.sleep("1d")
        await hf.run(effects.do, "never")

    @world.workflow
    async def flow() -> str:
        called = hf.call(child)
        await hf.sleep(5)
        await hf.cancel(called.id)  # type: ignore[attr-defined]
        try:
            await called
        except ExecutionCancelled:
            return "cancelled"
        return "?"

    world.worker(lease_s=20_000)
    assert await world.run(flow) == "cancelled"
    await asyncio.sleep(100_000)
    assert effects.seen == []


@virtual
async def test_a_cancellation_is_performed_also_when_the_code_returns_at_once(world: World) -> None:
    @world.workflow
    async def waits() -> None:
        await hf.promise()

    @world.workflow
    async def flow() -> None:
        await hf.cancel("other")

    world.worker()
    await world.start(waits, id="other")
    await world.run(flow)
    assert (await world.promise("other")).state == "rejected_canceled"


@virtual
async def test_a_cancellation_that_is_the_last_thing_is_performed_though_nobody_awaits_it(
    world: World,
) -> None:
    @world.workflow
    async def waits() -> None:
        await hf.promise()

    @world.workflow
    async def flow() -> None:
        hf.now()
        hf.cancel("one")
        hf.cancel("two", now=False)
        hf.cancel("three")
        raise ValueError("at once")

    world.worker()
    for name in ("one", "two", "three"):
        await world.start(waits, id=name)
    with pytest.raises(ValueError, match="at once"):
        await world.run(flow)
    for name in ("one", "two", "three"):
        assert (await world.settled(name)).state == "rejected_canceled"
    assert world.journal("x") == {f"x:{n}": "note cancel" for n in (2, 3, 4)}


@virtual
async def test_a_condition_that_was_not_awaited_is_an_error_and_not_true(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def patches() -> str:
        return "taken" if hf.patched("tax") else "not"  # pyright: ignore[reportGeneralTypeIssues]

    @world.workflow
    async def runs() -> str:
        return "taken" if hf.run(effects.do, 0) else "not"  # pyright: ignore[reportGeneralTypeIssues]

    world.worker()
    for number, flow in enumerate((patches, runs)):
        with pytest.raises(NotAwaited, match=r"Await it.*HF5111"):
            await world.run(flow, id=f"x{number}")


@virtual
async def test_a_cancellation_is_performed_before_a_long_wait(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def waits() -> None:
        await hf.promise()

    @world.workflow
    async def suspends() -> None:
        await hf.cancel("one")
        await hf.promise()

    @world.workflow
    async def works() -> None:
        step = hf.run(effects.slow, 1, 1_000)
        await hf.cancel("two")
        await step

    world.worker()
    for name in ("one", "two"):
        await world.start(waits, id=name)
    await world.start(suspends, id="s")
    await world.start(works, id="w")
    await asyncio.sleep(1)
    for name in ("one", "two"):
        assert (await world.promise(name)).state == "rejected_canceled"


@virtual
async def test_a_workflow_past_its_deadline_is_over(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> None:
        await hf.run(effects.slow, 1, 100)
        await hf.run(effects.do, 2)

    process = world.worker()
    await world.start(flow, id="x", timeout_at=world.loop.millis() + 50_000)
    assert (await world.settled("x")).state == "rejected_timedout"
    await asyncio.sleep(200)
    assert effects.seen == [1]
    assert process.worker.held_count == 0


# --- outside and inside at once -------------------------------------------------------------------------


@virtual
async def test_a_step_that_loses_to_a_promise_is_called_off_and_its_end_changes_nothing(world: World) -> None:
    effects = Effects()

    @world.workflow
    async def flow() -> Any:
        winner = await any_of([hf.run(effects.slow, "slow", 500), hf.promise(str)])
        await hf.run(effects.do, "after")
        await hf.promise()
        return winner

    first = world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: effects.seen == ["slow"])
    await world.settle("x:2", "promise")
    await world.until(lambda: "after" in effects.seen)
    await first.die()
    world.worker()
    await world.until_state("x", "suspended")
    await world.settle("x:4")
    assert await world.result("x") == "promise"
    assert effects.seen.count("after") == 1


def test_every_worker_is_dead_at_the_end() -> None:
    """The harness itself: `WorkerProcess.die` must leave no fiber open."""
    from holdfast.runtime import open_schedulers

    @virtual
    async def inner(world: World) -> None:
        @world.workflow
        async def flow() -> None:
            await hf.promise()

        process: WorkerProcess = world.worker()
        await world.start(flow, id="x")
        await world.until_state("x", "suspended")
        assert process.workflows.warm_count == 1

    before = len(open_schedulers)
    inner()
    assert len(open_schedulers) == before


@virtual
async def test_a_timeout_of_the_runtime_is_a_durable_timer(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        try:
            await within(30, hf.promise(str))
        except TimedOut:
            return "too late"
        return ""

    world.worker()
    assert await world.run(flow) == "too late"
    assert sorted(world.journal("x").values()) == ["promise", "sleep"]
    assert 30 <= world.loop.time() < 40


@virtual
async def test_an_execution_is_suspended_inside_a_timeout_and_woken_at_once(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        async with hf.timeout("1h"):
            return await hf.promise(str)

    world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await world.settle("x:2", "in time")
    assert await world.result("x") == "in time"
    assert world.loop.time() < 10


@virtual
async def test_a_late_answer_does_not_unsettle_what_was_heard_of_meanwhile(world: World) -> None:
    """A message about a promise overtakes the reply that still calls it pending."""
    effects = Effects()

    @world.workflow
    async def flow() -> str:
        return await race([hf.promise(str), hf.run(effects.slow, "slow", 100)])

    process = world.worker()
    original = process.wire.request

    async def slowly(requests: Any) -> Any:
        replies = await original(requests)
        if requests[0].kind == "promise.register_listener":
            await world.settle("x:1", "quick")
            await asyncio.sleep(5)
        return replies

    process.wire.request = slowly  # type: ignore[method-assign]
    assert await world.run(flow) == "quick"
