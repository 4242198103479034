"""Messages reach whoever is connected; what nobody can take waits, bounded."""

import asyncio

import pytest

from holdfast.node import message_router
from holdfast.node.message_router import MessageRouter, WorkerMailbox
from holdfast.protocol import limits
from holdfast.protocol.messages import Execute, Message, Unblock
from holdfast.protocol.records import NOTHING, Promise, TaskRef, Value


def execute(task_id: str, address: str = "poll://any@g", version: int = 0) -> Execute:
    return Execute(address, TaskRef(task_id, version), "A", woken=False)


def unblock(promise_id: str, address: str, data: str | None = None) -> Unblock:
    value = Value(None, data)
    return Unblock(address, Promise(promise_id, "resolved", NOTHING, value, {}, 9, 1, 2), "A")


def ids(messages: list[Message]) -> list[str]:
    return [message.task.id if isinstance(message, Execute) else message.promise.id for message in messages]


@pytest.fixture
async def router() -> MessageRouter:
    return MessageRouter()


async def test_a_message_for_any_member_goes_to_the_one_with_the_least_to_read(router: MessageRouter) -> None:
    first, second = router.connect("g", "a"), router.connect("g", "b")
    router.deliver([execute(str(number)) for number in range(6)])
    assert (len(first), len(second)) == (3, 3)


async def test_any_with_a_name_prefers_that_member_and_takes_another_when_it_is_away(
    router: MessageRouter,
) -> None:
    first, second = router.connect("g", "a"), router.connect("g", "b")
    router.deliver([execute("1", "poll://any@g/b")])
    assert ids(second.take()) == ["1"]
    second.close()
    router.deliver([execute("2", "poll://any@g/b")])
    assert ids(first.take()) == ["2"]


async def test_a_message_for_one_member_waits_for_that_member(router: MessageRouter) -> None:
    other = router.connect("g", "a")
    router.deliver([unblock("p", "poll://uni@g/b")])
    assert not other.take()
    assert ids(router.connect("g", "b").take()) == ["p"]


async def test_what_nobody_can_take_is_handed_over_as_soon_as_a_worker_connects(
    router: MessageRouter,
) -> None:
    router.deliver([execute("1"), execute("2")])
    assert ids(router.connect("g", "a").take()) == ["1", "2"]
    assert not router.waiting


async def test_a_newer_message_replaces_the_one_that_still_waits(router: MessageRouter) -> None:
    router.deliver([execute("t", version=0), execute("t", version=1)])
    [message] = router.connect("g", "a").take()
    assert isinstance(message, Execute)
    assert message.task.version == 1


async def test_an_older_message_does_not_replace_the_one_that_still_waits(router: MessageRouter) -> None:
    mailbox = router.connect("g", "a", capacity=1)
    router.deliver([execute("t", version=0), execute("t", version=1)])
    mailbox.close()
    [message] = router.connect("g", "b").take()
    assert isinstance(message, Execute)
    assert message.task.version == 1


async def test_groups_do_not_mix(router: MessageRouter) -> None:
    mailbox = router.connect("G", "a")
    router.deliver([execute("1", "poll://any@g")])
    assert not mailbox.take()


async def test_a_full_mailbox_gets_more_when_it_has_been_read(router: MessageRouter) -> None:
    mailbox = router.connect("g", "a", capacity=2)
    router.deliver([execute(str(number)) for number in range(5)])
    assert ids(mailbox.take()) == ["0", "1"]
    assert ids(mailbox.take()) == ["2", "3"]
    assert ids(mailbox.take()) == ["4"]


async def test_what_a_worker_did_not_read_goes_to_another(router: MessageRouter) -> None:
    first = router.connect("g", "a")
    router.deliver([execute("1")])
    first.close()
    assert ids(router.connect("g", "b").take()) == ["1"]


async def test_a_reader_that_waits_is_woken(router: MessageRouter) -> None:
    mailbox = router.connect("g", "a")
    reading = asyncio.ensure_future(mailbox.receive())
    await asyncio.sleep(0)
    assert not reading.done()
    router.deliver([execute("1")])
    assert ids(await reading) == ["1"]


async def test_closing_a_mailbox_ends_its_reader(router: MessageRouter) -> None:
    mailbox = router.connect("g", "a")
    reading = asyncio.ensure_future(mailbox.receive())
    await asyncio.sleep(0)
    mailbox.close()
    assert await reading == []
    mailbox.close()
    assert router.mailbox_count == 0


async def test_the_waiting_room_is_bounded_and_drops_the_oldest(
    router: MessageRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_router, "waiting_max", 3)
    router.deliver([execute(str(number)) for number in range(5)])
    assert ids(router.waiting) == ["2", "3", "4"]
    assert router.dropped_count == 2


async def test_what_nobody_reads_does_not_push_out_what_somebody_is_about_to(
    router: MessageRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_router, "waiting_max", 4)
    router.deliver([execute(str(number), "poll://any@nobody") for number in range(6)])
    router.deliver([execute("a"), execute("b")])
    assert ids(router.waiting) == ["4", "5", "a", "b"]
    router.deliver([execute("c")])
    assert ids(router.waiting) == ["5", "a", "b", "c"], "whoever has waited longest makes room"


async def test_many_lines_for_callers_who_are_gone_do_not_keep_a_new_message_out(
    router: MessageRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_router, "waiting_max", 10)
    router.deliver([unblock(f"p{n}", f"poll://uni@g/gone{n}") for n in range(30)])
    router.deliver([unblock("mine", "poll://uni@g/here")])
    assert ids(router.connect("g", "here").take()) == ["mine"]
    assert ids(router.waiting) == [f"p{n}" for n in range(21, 30)]
    assert router.recipient_count == 9, "a line that nothing waits in is deleted"


async def test_the_waiting_room_is_bounded_by_bytes_too(
    router: MessageRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "messages_bytes_max", 5_000)
    router.deliver([unblock(f"p{n}", f"poll://uni@g/w{n}", "x" * 1_000) for n in range(9)])
    assert ids(router.waiting) == ["p6", "p7", "p8"]
    assert (router.dropped_count, router.waiting_bytes <= 5_000) == (6, True)
    for n in range(6, 9):
        router.connect("g", f"w{n}").take()
    assert (router.waiting, router.held_bytes) == ([], 0)


async def test_mailboxes_hold_no_more_bytes_than_all_of_them_may_and_lose_nothing(
    router: MessageRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "messages_bytes_max", 4_000)
    idle, busy = router.connect("g", "idle"), router.connect("g", "busy")
    router.deliver([unblock(f"i{n}", "poll://uni@g/idle", "x" * 1_000) for n in range(3)])
    router.deliver([unblock(f"b{n}", "poll://uni@g/busy", "x" * 1_000) for n in range(2)])
    assert router.mailbox_bytes < 2 * 4_000
    assert ids(busy.take() + busy.take()) == ["b0", "b1"], "one that does not read keeps nobody waiting"
    assert ids(idle.take() + idle.take()) == ["i0", "i1", "i2"]
    assert router.held_bytes == 0


async def test_while_paused_everything_waits(router: MessageRouter) -> None:
    mailbox: WorkerMailbox = router.connect("g", "a")
    router.pause()
    router.deliver([execute("1")])
    assert not mailbox.take()
    router.resume()
    assert ids(mailbox.take()) == ["1"]


async def test_pushed_messages_wait_until_somebody_can_push(router: MessageRouter) -> None:
    pushed: list[Message] = []
    router.deliver([execute("1", "http://worker.test/run")])
    router.set_push(pushed.append)
    router.deliver([execute("2", "https://worker.test/run")])
    assert ids(pushed) == ["1", "2"]


@pytest.mark.parametrize("paused", [False, True])
async def test_a_message_that_cannot_be_delivered_does_not_hinder_the_others(
    router: MessageRouter, paused: bool
) -> None:
    if paused:
        router.pause()
    router.deliver([execute("1"), execute("lost", "nonsense"), execute("2")])
    router.resume()
    assert ids(router.connect("g", "a").take()) == ["1", "2"]
