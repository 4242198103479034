"""Executions among each other: telling, asking and attaching; promises with names."""

from typing import Any

import pytest

from holdfast import runtime
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import ExecutionOver, NoSuchExecution
from holdfast.protocol.records import Value
from holdfast.protocol.requests import PromiseCreate, PromiseSettle
from holdfast.runtime.errors import TimedOut
from holdfast.workflow import functions as hf
from holdfast.workflow.errors import BadName, MessageRefused
from holdfast.workflow.messages import ask, attach, mailbox, receive, tell
from tests.workflow.world import World, virtual


def workflows(world: World) -> None:
    async def adder() -> int:
        total = 0
        async for message in mailbox(int):
            if message.value < 0:
                message.refuse(ValueError("negative"))
                continue
            total += message.value
            message.answer(total)
            if message.value == 0:
                return total
        raise AssertionError

    world.workflow(adder)


@virtual
async def test_an_execution_tells_and_asks_another(world: World) -> None:
    workflows(world)

    @world.workflow
    async def asker() -> list[Any]:
        await tell("adder", 5)
        first = await ask("adder", 6, returns=int)
        refused = ""
        try:
            await ask("adder", -1)
        except ValueError as error:
            refused = str(error)
        await tell("adder", 0)
        return [first, refused, await attach("adder", returns=int)]

    world.worker()
    await world.start("adder", id="adder")
    assert await world.run(asker, id="asker") == [11, "negative", 11]
    assert world.journal("asker") == {
        "asker:1": "tell adder",
        "asker:2": "ask adder",
        "asker:3": "ask adder",
        "asker:4": "tell adder",
        "asker:5": "attach adder",
    }


@virtual
async def test_two_executions_ask_each_other(world: World) -> None:
    @world.workflow
    async def player(other: str, begins: bool) -> list[int]:
        seen: list[int] = []

        async def serve() -> None:
            async for message in mailbox(int):
                seen.append(message.value)
                message.answer(message.value + 1)

        runtime.spawn(serve)
        if not begins:
            await hf.promise(name="over")
            return seen
        value = 0
        for _ in range(3):
            value = await ask(other, value, returns=int)
        return [value]

    world.worker()
    await world.start(player, "a", False, id="b")
    assert await world.run(player, "b", True, id="a") == [3]
    await world.settle("b:over")
    assert await world.result("b") == [0, 1, 2]


@virtual
async def test_a_message_is_sent_once_though_the_sender_dies_right_after(world: World) -> None:
    workflows(world)

    @world.workflow
    async def teller() -> int:
        await tell("adder", 5)
        await hf.sleep(1)
        await tell("adder", 0)
        return await attach("adder", returns=int)

    await world.start("adder", id="adder")
    await world.start(teller, id="teller")
    first = world.worker()

    def cut(requests: Any) -> None:
        if any("tell" in repr(each) or "StreamAppend" in repr(each) for each in requests):
            first.freeze()

    first.wire.after = cut
    await world.until(lambda: "adder:in.1" in world.store.promises)
    await first.die()
    world.worker()
    assert await world.result("teller") == 5


@virtual
async def test_whoever_is_over_or_never_was_cannot_be_told(world: World) -> None:
    @world.workflow
    async def ended() -> int:
        return 1

    @world.workflow
    async def teller() -> list[str]:
        seen: list[str] = []
        for other in ("ended", "nobody"):
            for send in (lambda other=other: tell(other, 1), lambda other=other: ask(other, 1)):
                try:
                    await send()
                except (ExecutionOver, NoSuchExecution) as error:
                    seen.append(f"{type(error).__name__} {error.code}")
        try:
            await attach("nobody")
        except NoSuchExecution as error:
            seen.append(f"attach {error.code}")
        return [*seen, str(await attach("ended"))]

    process = world.worker()
    await world.run(ended, id="ended")
    expected = ["ExecutionOver HF1402"] * 2 + ["NoSuchExecution HF1401"] * 2 + ["attach HF1401", "1"]
    assert await world.run(teller, id="teller") == expected
    await process.die()


@virtual
async def test_that_there_was_no_execution_is_remembered(world: World) -> None:
    @world.workflow
    async def ended() -> int:
        return 1

    @world.workflow
    async def looker() -> str:
        try:
            await attach("later")
        except NoSuchExecution:
            await hf.sleep(10)
            return "it was not there"
        return "it is there"

    first = world.worker()
    await world.start(looker, id="looker")
    await world.until_state("looker", "suspended")
    await first.die()
    world.worker()
    await world.run(ended, id="later")
    assert await world.result("looker") == "it was not there"


@virtual
async def test_whoever_asks_is_told_that_the_other_ended_without_an_answer(world: World) -> None:
    @world.workflow
    async def rude() -> None:
        await mailbox(int).next()

    @world.workflow
    async def asker() -> str:
        try:
            await ask("rude", 1)
        except ExecutionOver:
            return "over"
        return "answered"

    world.worker()
    await world.start(rude, id="rude")
    assert await world.run(asker, id="asker") == "over"


@virtual
async def test_a_question_has_a_timeout(world: World) -> None:
    @world.workflow
    async def deaf() -> None:
        await hf.sleep(1_000)

    @world.workflow
    async def asker() -> str:
        try:
            await ask("deaf", 1, timeout=5)
        except TimedOut:
            return "late"
        return "answered"

    world.worker()
    await world.start(deaf, id="deaf")
    assert await world.run(asker, id="asker") == "late"


@virtual
async def test_an_attached_execution_raises_its_error_and_may_be_deleted_afterwards(world: World) -> None:
    @world.workflow
    async def failing() -> None:
        await hf.promise(name="go")
        raise LookupError("nothing there")

    @world.workflow
    async def attached() -> str:
        found = ""
        try:
            await attach("failing")
        except LookupError as error:
            found = str(error)
        await hf.sleep(100)
        return found

    first = world.worker()
    await world.start(failing, id="failing")
    await world.start(attached, id="attached")
    await world.until_state("attached", "suspended")
    await world.settle("failing:go")
    await world.until(lambda: "attached:1" in world.store.promises)
    await world.until_state("attached", "suspended")
    await first.die()
    world.store.promises.pop("failing")
    world.worker()
    assert await world.result("attached") == "nothing there"


@virtual
async def test_several_fibers_attach_to_one_execution(world: World) -> None:
    @world.workflow
    async def slow() -> int:
        await hf.sleep(10)
        return 4

    @world.workflow
    async def both() -> int:
        return sum(await runtime.gather([attach("slow", returns=int), attach("slow", returns=int)]))

    world.worker()
    await world.start(slow, id="slow")
    assert await world.run(both, id="both") == 8


@virtual
async def test_a_promise_with_a_name_is_settled_before_the_code_comes_to_it(world: World) -> None:
    @world.workflow
    async def order() -> list[Any]:
        first = await hf.promise(bool, name="approval")
        again = await hf.promise(bool, name="approval")
        return [first, again, hf.promise(name="other").id]

    await world.start(order, id="x")
    entries = {tags.BRANCH: "x", tags.PARENT: "x", tags.ORIGIN: "x"}
    await world.ask(PromiseCreate("x:approval", limits.instant_ms_max, tags=entries))
    await world.ask(PromiseSettle("x:approval", "resolved", world.payloads.encode(True)))
    world.worker()
    assert await world.result("x") == [True, True, "x:other"]


@virtual
async def test_a_promise_with_a_name_is_awaited_and_survives_a_crash(world: World) -> None:
    @world.workflow
    async def order() -> list[Any]:
        approved, paid = await runtime.gather(hf.promise(bool, name="approval"), hf.promise(int, name="paid"))
        return [approved, paid, await hf.promise(str, name="note", timeout=5)]

    first = world.worker()
    await world.start(order, id="x")
    await world.until_state("x", "suspended")
    await world.settle("x:paid", 5)
    await world.until_state("x", "suspended")
    await first.die()
    world.worker()
    await world.settle("x:approval", True)
    with pytest.raises(TimedOut):
        await world.result("x")


@pytest.mark.parametrize(
    "name", ["7", "cancel", "in", "out", "value", "a.b", "a:b", "a~b", "", "ä", "a" * 101]
)
def test_reserved_names_are_refused(name: str) -> None:
    @virtual
    async def refused(world: World) -> None:
        @world.workflow
        async def order() -> None:
            await hf.promise(name=name)

        world.worker()
        with pytest.raises(BadName, match="HF5119"):
            await world.run(order)

    refused()


@virtual
async def test_a_message_that_is_told_last_is_sent_though_nobody_awaits_that(world: World) -> None:
    @world.workflow
    async def listener() -> int:
        return await receive(int)

    @world.workflow
    async def teller() -> None:
        tell("listener", 3)

    world.worker()
    await world.start(listener, id="listener")
    await world.run(teller, id="teller")
    assert await world.result("listener") == 3


@virtual
async def test_the_answer_of_a_question_cannot_be_aimed_elsewhere(world: World) -> None:
    from holdfast.protocol.requests import StreamAppend

    @world.workflow
    async def answering() -> None:
        (await mailbox().next()).answer("stolen")

    await world.ask(PromiseCreate("target", limits.instant_ms_max))
    await world.start(answering, id="x")
    forged = Value({"holdfast:answer": "target"}, world.payloads.encode(1).data)
    await world.ask(StreamAppend("x", "in", forged))
    world.worker()
    await world.result("x")
    assert (await world.promise("target")).state == "pending"


def test_a_refusal_says_why() -> None:
    assert MessageRefused("no").code == "HF5117"
