"""Messages to a running execution: received in order, each once, whatever is interrupted or dies."""

import logging
from base64 import b64decode
from datetime import date
from typing import Any, Literal

import pytest
from msgspec import Struct

from holdfast import runtime
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.errors import UndecodablePayload
from holdfast.protocol.cancelling import ask_to_cancel
from holdfast.protocol.requests import PromiseSettle
from holdfast.workflow import functions as hf
from holdfast.workflow.errors import AlreadyAnswered, MessageRefused
from holdfast.workflow.messages import mailbox, receive
from tests.workflow.talk import ask, tell
from tests.workflow.world import World, virtual


class Item(Struct):
    name: str
    price: int


class Coupon(Struct):
    code: str


@virtual
async def test_messages_are_seen_in_the_order_of_commits(world: World) -> None:
    async def basket() -> list[str]:
        seen: list[str] = []
        async for message in mailbox(Item):
            seen.append(f"{message.number} {message.value.name}")
            if message.value.price == 0:
                return seen
        raise AssertionError

    world.worker()
    await world.start(world.workflow(basket), id="x")
    for number in range(3):
        await tell(world, "x", Item(f"item {number}", 5))
    await world.until_state("x", "suspended")
    await tell(world, "x", Item("last", 0))
    assert await world.result("x") == ["1 item 0", "2 item 1", "3 item 2", "4 last"]


@virtual
async def test_what_is_sent_before_the_code_asks_waits_for_it(world: World) -> None:
    async def late() -> int:
        await hf.sleep(60)
        return await receive(int)

    world.worker()
    await world.start(world.workflow(late), id="x")
    await tell(world, "x", 7)
    assert await world.result("x") == 7


@virtual
async def test_messages_are_received_with_yield_from(world: World) -> None:
    def sum_up() -> Any:
        box = mailbox(int)
        first = yield from box.next()
        second = yield from receive(int)
        return first.value + second

    world.worker()
    await world.start(world.workflow(sum_up), id="x")
    await tell(world, "x", 3)
    await tell(world, "x", 4)
    assert await world.result("x") == 7


@virtual
async def test_a_question_is_answered(world: World) -> None:
    async def basket() -> int:
        count = 0
        async for message in mailbox(Item):
            if message.value.price < 0:
                message.refuse("a price is not negative")
            else:
                count += 1
                message.answer(count)
            if message.value.name == "last":
                break
        return count

    world.worker()
    await world.start(world.workflow(basket), id="x")
    first = await ask(world, "x", Item("tea", 3))
    bad = await ask(world, "x", Item("milk", -1))
    assert await world.result(first) == 1
    with pytest.raises(MessageRefused, match="a price is not negative"):
        await world.result(bad)
    await tell(world, "x", Item("sugar", 1))
    last = await ask(world, "x", Item("last", 1))
    assert await world.result(last) == 3
    assert await world.result("x") == 3


@virtual
async def test_what_is_received_is_answered_with_none(world: World) -> None:
    async def one() -> int:
        found = await receive(int)
        await hf.sleep(100)
        return found

    world.worker()
    await world.start(world.workflow(one), id="x")
    answer = await ask(world, "x", 5)
    assert await world.result(answer) is None
    assert (await world.promise("x")).state == "pending"
    assert await world.result("x") == 5


@virtual
async def test_a_question_that_is_received_last_is_answered_too(world: World) -> None:
    async def one() -> int:
        return await receive(int)

    world.worker()
    await world.start(world.workflow(one), id="x")
    answer = await ask(world, "x", 5)
    assert await world.result(answer) is None
    assert await world.result("x") == 5


@virtual
async def test_a_message_is_answered_once(world: World) -> None:
    async def twice() -> str:
        message = await mailbox(int).next()
        message.answer(1)
        try:
            message.answer(2)
        except AlreadyAnswered:
            return "refused"
        return "answered twice"

    world.worker()
    await world.start(world.workflow(twice), id="x")
    answer = await ask(world, "x", 0)
    assert await world.result(answer) == 1
    assert await world.result("x") == "refused"


@virtual
async def test_a_timeout_loses_no_message(world: World) -> None:
    async def patient() -> list[Any]:
        seen: list[Any] = []
        try:
            seen.append(await receive(int, timeout=5))
        except runtime.TimedOut:
            seen.append("late")
        try:
            async with hf.timeout(5):
                seen.append(await receive(int))
        except runtime.TimedOut:
            seen.append("late again")
        seen.append(await receive(int))
        seen.append(await receive(int, timeout=5))
        return seen

    world.worker()
    await world.start(world.workflow(patient), id="x")

    async def is_waiting_alone() -> bool:
        return (await world.task("x")).state == "suspended" and world.loop.millis() > began + 11_000

    began = world.loop.millis()
    await world.until(is_waiting_alone)
    await tell(world, "x", 1)
    await tell(world, "x", 2)
    assert await world.result("x") == ["late", "late again", 1, 2]


@virtual
async def test_the_loser_of_a_race_takes_no_message(world: World) -> None:
    async def racer() -> list[Any]:
        winner = await runtime.race(receive(int), hf.sleep(5), cancel_losers=True)
        selected = await runtime.select({"message": receive(int), "timer": hf.sleep(5)})
        rest = [await receive(int), await receive(int)]
        return [winner, selected.tag, *rest]

    world.worker()
    await world.start(world.workflow(racer), id="x")
    began = world.loop.millis()
    await world.until(lambda: world.loop.millis() > began + 11_000)
    await tell(world, "x", 1)
    await tell(world, "x", 2)
    assert await world.result("x") == [None, "timer", 1, 2]


@virtual
async def test_what_a_gather_has_taken_goes_back_when_it_times_out(world: World) -> None:
    async def pair() -> list[int]:
        try:
            async with hf.timeout(5):
                await runtime.gather(receive(int), receive(int))
        except runtime.TimedOut:
            pass
        return [await receive(int), await receive(int)]

    world.worker()
    await world.start(world.workflow(pair), id="x")
    await tell(world, "x", 1)
    began = world.loop.millis()
    await world.until(lambda: world.loop.millis() > began + 6_000)
    await tell(world, "x", 2)
    assert await world.result("x") == [1, 2]


@virtual
async def test_of_several_receivers_each_message_goes_to_one(world: World) -> None:
    async def one(name: str) -> list[str]:
        return [f"{name}{await receive(int)}" for _ in range(3)]

    async def several() -> list[list[str]]:
        return await runtime.gather([one("a"), one("b")])

    world.worker()
    await world.start(world.workflow(several), id="x")
    for number in range(6):
        await tell(world, "x", number)
    first, second = await world.result("x")
    assert sorted(int(each[1:]) for each in first + second) == list(range(6))
    assert [each[1:] for each in first] == sorted(each[1:] for each in first)


@virtual
async def test_a_cancelled_execution_may_still_receive(world: World) -> None:
    async def stubborn() -> list[Any]:
        try:
            await receive(int)
        except runtime.Cancelled:
            return ["cancelled", await receive(int)]
        raise AssertionError

    world.worker()
    await world.start(world.workflow(stubborn), id="x")
    await world.until_state("x", "suspended")
    for data in ask_to_cancel("x", "x"):
        await world.ask(data)
    await world.until(lambda: "x:0~cancel" in world.store.promises)
    await world.until_state("x", "suspended")
    await tell(world, "x", 9)
    assert await world.result("x") == ["cancelled", 9]


@virtual
async def test_every_replay_sees_the_same_messages_at_the_same_points(world: World) -> None:
    ticks: list[int] = []

    async def tick(number: int) -> int:
        ticks.append(number)
        return number

    async def mixed() -> list[Any]:
        seen: list[Any] = []

        async def count() -> None:
            for number in range(3):
                await hf.sleep(10)
                seen.append(f"step {await hf.run(tick, number)}")

        other = runtime.spawn(count)
        async for message in mailbox(int):
            seen.append(message.value)
            if message.value == 6:
                break
        await other
        return seen

    world.workflow(mixed)
    await world.start("mixed", id="x")
    for number in range(7):
        process = world.worker()
        await tell(world, "x", number)
        await world.until_state("x", "suspended")
        before = world.loop.millis()
        await world.until(lambda before=before: world.loop.millis() > before + 4_000)
        await process.die()
    world.worker()
    seen = await world.result("x")
    assert [each for each in seen if isinstance(each, int)] == list(range(7))
    assert [each for each in seen if isinstance(each, str)] == ["step 0", "step 1", "step 2"]
    assert sorted(ticks) == [0, 1, 2]


@virtual
async def test_a_backlog_comes_by_pages(world: World) -> None:
    async def count() -> int:
        total = 0
        async for message in mailbox(int):
            total += message.value
            if message.value == 1000:
                return total
        raise AssertionError

    await world.start(world.workflow(count), id="x")
    for _ in range(600):
        await tell(world, "x", 1)
    await tell(world, "x", 1000)
    process = world.worker()
    assert await world.result("x") == 1600
    assert len([each for each in process.wire.kinds() if each == "task.fence"]) <= 4


@virtual
async def test_the_next_message_is_asked_for_only_while_somebody_receives(world: World) -> None:
    async def once() -> int:
        found = await receive(int)
        await hf.sleep(50)
        return found

    world.worker()
    await world.start(world.workflow(once), id="x")
    await tell(world, "x", 1)
    assert await world.result("x") == 1
    assert "x:in.2" not in world.store.promises


@virtual
async def test_a_message_of_another_type_is_set_aside_and_the_execution_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def one() -> str:
        return (await receive(Item)).name

    process = world.worker()
    await world.start(world.workflow(one), id="x")
    await tell(world, "x", "no item")
    asked = await ask(world, "x", {"name": 5})
    with pytest.raises(UndecodablePayload, match="Expected str, got int"):
        await world.result(asked)
    await process.die()
    world.worker()
    await tell(world, "x", Item("tea", 1))
    assert await world.result("x") == "tea"
    aside = await world.promise("x:in.1.aside")
    assert isinstance(world.payloads.decode_error(aside.value, KnownErrors()), UndecodablePayload)
    told = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "set aside"]
    assert len(told) == 2
    assert "x:in.1 was set aside" in told[0]


@virtual
async def test_a_choice_of_types_is_told_apart_by_the_class_that_was_sent(world: World) -> None:
    async def choose() -> list[str]:
        seen: list[str] = []
        async for message in mailbox(Item | Coupon | int):
            seen.append(type(message.value).__name__)
            if len(seen) == 4:
                return seen
        raise AssertionError

    world.worker()
    await world.start(world.workflow(choose), id="x")
    await tell(world, "x", Coupon("A"))
    await tell(world, "x", Item("tea", 1))
    await tell(world, "x", {"type": "Coupon", "code": "B"})
    await tell(world, "x", {"code": "which?"})
    await tell(world, "x", 3)
    assert await world.result("x") == ["Coupon", "Item", "Coupon", "int"]
    assert "x:in.4.aside" in world.store.promises


@virtual
async def test_a_choice_may_name_values_and_what_json_has_as_text(world: World) -> None:
    async def choose() -> list[Any]:
        seen: list[Any] = []
        async for message in mailbox(Item | date | Literal["stop"]):
            if message.value == "stop":
                return seen
            seen.append(type(message.value).__name__)
        raise AssertionError

    world.worker()
    await world.start(world.workflow(choose), id="x")
    for message in (
        Item("tea", 1),
        {"name": "milk", "price": 2},
        date(2026, 11, 18),
        "2026-11-18",
        "go",
        "stop",
    ):
        await tell(world, "x", message)
    assert await world.result("x") == ["Item", "Item", "date", "date"]
    error = world.store.promises["x:in.5.aside"].value.data
    assert error is not None
    assert "Expected Item or date or Literal" in b64decode(error).decode()


@virtual
async def test_what_somebody_else_has_written_under_a_number_is_set_aside(world: World) -> None:
    from holdfast.protocol import limits
    from holdfast.protocol.requests import PromiseCreate

    async def one() -> int:
        return await receive(int)

    await world.start(world.workflow(one), id="x")
    await world.ask(PromiseCreate("x:in.1", limits.instant_ms_max))
    await world.ask(PromiseSettle("x:in.1", "rejected"))
    await tell(world, "x", 4)
    world.worker()
    assert await world.result("x") == 4


@virtual
async def test_messages_that_nobody_read_are_counted_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def one() -> int:
        found = await receive(int)
        await hf.sleep(10)
        return found

    caplog.set_level(logging.WARNING)
    world.worker()
    await world.start(world.workflow(one), id="x")
    for number in range(3):
        await tell(world, "x", number)
    assert await world.result("x") == 0
    [told] = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "unread"]
    assert "2 message(s)" in told
