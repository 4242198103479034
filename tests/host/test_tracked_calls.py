"""Calls under way on the loop of a session: nobody who waits cancels them, and closing waits for them."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.host.errors import ClosedTooSoon
from holdfast.host.tracked_calls import SentCall, SentRequest, TrackedCalls


class Node:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard = 0

    async def work(self) -> None:
        await asyncio.sleep(0)
        await self.answer
        self.heard += 1


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_call_may_be_awaited_by_several_and_again() -> None:
    node, calls = Node(), TrackedCalls()
    call = calls.begin("the message", node.work())

    async def wait() -> str:
        await call
        return "heard"

    waiting = [asyncio.ensure_future(wait()) for _ in range(2)]
    await settle()
    node.answer.set_result(None)
    assert await asyncio.gather(*waiting) == ["heard", "heard"]
    await call
    assert node.heard == 1


async def test_who_stops_waiting_does_not_cancel_the_call() -> None:
    node, calls = Node(), TrackedCalls()
    call = calls.begin("the message", node.work())

    async def wait() -> None:
        await call

    waiting = asyncio.ensure_future(wait())
    await settle()
    waiting.cancel()
    await settle()
    node.answer.set_result(None)
    await call
    assert node.heard == 1


async def test_its_error_is_raised_where_it_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    node, calls = Node(), TrackedCalls()
    call = calls.begin("the message", node.work())
    asyncio.get_running_loop().call_soon(node.answer.set_exception, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await call
    with pytest.raises(ValueError, match="no"):
        await call
    await settle()
    assert caplog.records == []


async def test_an_error_that_nobody_awaits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    node, calls = Node(), TrackedCalls()
    calls.begin("the message", node.work())
    node.answer.set_exception(ValueError("no"))
    with caplog.at_level(logging.ERROR):
        await settle()
    [record] = caplog.records
    assert record.getMessage() == "the message failed, and its result was never awaited: no"


async def fail_at_once() -> None:
    raise ValueError("at once")


async def test_what_fails_at_once_is_logged_only_if_nobody_awaits_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = TrackedCalls()
    with caplog.at_level(logging.ERROR):
        with pytest.raises(ValueError, match="at once"):
            await calls.begin("the message", fail_at_once())
        await settle()
        assert caplog.records == []
        calls.begin("the message", fail_at_once())
        await settle()
    [record] = caplog.records
    assert "at once" in record.getMessage()


async def test_closing_waits_for_what_is_under_way() -> None:
    node, calls = Node(), TrackedCalls()
    calls.begin("the message", node.work())
    closing = asyncio.ensure_future(calls.finish(within_s=600.0))
    await settle()
    assert not closing.done()
    node.answer.set_result(None)
    await closing
    assert node.heard == 1


async def test_closing_calls_off_what_takes_too_long_and_whoever_waits_is_told() -> None:
    node, calls = Node(), TrackedCalls()
    call = calls.begin("the message", node.work())

    async def wait() -> None:
        await call

    waiting = asyncio.ensure_future(wait())
    await settle()
    await calls.finish(within_s=0.0)
    with pytest.raises(ClosedTooSoon, match="before the message was answered"):
        await waiting
    assert node.answer.cancelled()


async def test_nothing_is_left_of_what_has_ended() -> None:
    calls = TrackedCalls()

    async def nothing() -> None:
        pass

    await calls.begin("the message", nothing())
    node = Node()
    call = calls.begin("the message", node.work())
    node.answer.set_result(None)
    await call
    await settle()
    await calls.finish(within_s=0.0)


def sent(answer: "asyncio.Future[str]", calls: TrackedCalls) -> SentCall[str]:
    """What was asked of a node in this process: "no" is a refusal, and "busy" is asked again."""

    async def ask_again() -> None:
        await asyncio.sleep(0)

    def read(answered: str) -> Coroutine[Any, Any, None] | None:
        if answered == "no":
            raise ValueError("no")
        return ask_again() if answered == "busy" else None

    call = SentCall("the message", SentRequest(answer, read))
    calls.hold(call)
    return call


@pytest.mark.parametrize("answered", ["yes", "busy"])
async def test_what_was_sent_may_be_awaited_by_several_and_again(answered: str) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    call = sent(answer, TrackedCalls())

    async def wait() -> str:
        await call
        return "heard"

    waiting = [asyncio.ensure_future(wait()) for _ in range(3)]
    await settle()
    waiting[2].cancel()
    await settle()
    assert not answer.done()  # who stops waiting does not cancel it
    answer.set_result(answered)
    assert await asyncio.gather(*waiting[:2]) == ["heard", "heard"]
    await call


async def test_a_refusal_of_what_was_sent_is_raised_where_it_is_awaited_and_logged_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    calls = TrackedCalls()
    call = sent(answer, calls)
    asyncio.get_running_loop().call_soon(answer.set_result, "no")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await call
    await settle()
    assert caplog.records == []
    sent(answer, calls)
    with caplog.at_level(logging.ERROR):
        await settle()
    [record] = caplog.records
    assert record.getMessage() == "the message failed, and its result was never awaited: no"


async def test_closing_waits_for_what_was_sent_and_calls_it_off_when_it_takes_too_long() -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    calls = TrackedCalls()
    call = sent(answer, calls)
    closing = asyncio.ensure_future(calls.finish(within_s=600.0))
    await settle()
    assert not closing.done()
    answer.set_result("yes")
    await closing
    await call

    late = sent(asyncio.get_running_loop().create_future(), calls)
    await calls.finish(within_s=0.0)
    with pytest.raises(ClosedTooSoon, match="before the message was answered"):
        await late


async def test_what_the_node_does_not_have_yet_is_not_overtaken() -> None:
    node, calls = Node(), TrackedCalls()
    sent(asyncio.get_running_loop().create_future(), calls)
    seen = [calls.has_unsent]

    async def send_later() -> None:
        calls.note_sent()
        await node.answer

    message = calls.begin("the message", send_later())
    seen.append(calls.has_unsent)
    await settle()
    seen.append(calls.has_unsent)
    start = calls.begin("the start", node.work())
    await settle()
    seen.append(calls.has_unsent)  # of the start nobody knows before it is over
    node.answer.set_result(None)
    await message
    await start
    await settle()
    seen.append(calls.has_unsent)
    assert seen == [False, True, False, True, False]


async def test_whoever_would_wait_for_himself_is_told_and_what_was_not_sent_is_withdrawn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, calls = Node(), TrackedCalls()
    begun = calls.begin("the message", node.work())
    await settle()

    def check() -> None:
        raise RuntimeError("commit first")

    calls.check = check
    withdrawn = calls.begin("the message", node.work())
    for call in (withdrawn, withdrawn, begun):
        with pytest.raises(RuntimeError, match="commit first"):
            await call
    calls.check = None
    node.answer.set_result(None)
    await begun
    with pytest.raises(RuntimeError, match="commit first"):
        await withdrawn
    await settle()
    assert node.heard == 1
    assert caplog.records == []
