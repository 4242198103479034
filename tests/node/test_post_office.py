"""Messages reach whoever is connected; what nobody can take waits, bounded."""

import asyncio

import pytest

from holdfast.node import post_office
from holdfast.node.post_office import Mailbox, PostOffice
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
async def office() -> PostOffice:
    return PostOffice()


async def test_a_message_for_any_member_goes_to_the_one_with_the_least_to_read(office: PostOffice) -> None:
    first, second = office.connect("g", "a"), office.connect("g", "b")
    office.deliver([execute(str(number)) for number in range(6)])
    assert (len(first), len(second)) == (3, 3)


async def test_any_with_a_name_prefers_that_member_and_takes_another_when_it_is_away(
    office: PostOffice,
) -> None:
    first, second = office.connect("g", "a"), office.connect("g", "b")
    office.deliver([execute("1", "poll://any@g/b")])
    assert ids(second.take()) == ["1"]
    second.close()
    office.deliver([execute("2", "poll://any@g/b")])
    assert ids(first.take()) == ["2"]


async def test_a_message_for_one_member_waits_for_that_member(office: PostOffice) -> None:
    other = office.connect("g", "a")
    office.deliver([unblock("p", "poll://uni@g/b")])
    assert not other.take()
    assert ids(office.connect("g", "b").take()) == ["p"]


async def test_what_nobody_can_take_is_handed_over_the_moment_a_worker_connects(office: PostOffice) -> None:
    office.deliver([execute("1"), execute("2")])
    assert ids(office.connect("g", "a").take()) == ["1", "2"]
    assert not office.waiting


async def test_a_newer_message_replaces_the_one_that_still_waits(office: PostOffice) -> None:
    office.deliver([execute("t", version=0), execute("t", version=1)])
    [message] = office.connect("g", "a").take()
    assert isinstance(message, Execute)
    assert message.task.version == 1


async def test_an_older_message_does_not_replace_the_one_that_still_waits(office: PostOffice) -> None:
    mailbox = office.connect("g", "a", capacity=1)
    office.deliver([execute("t", version=0), execute("t", version=1)])
    mailbox.close()
    [message] = office.connect("g", "b").take()
    assert isinstance(message, Execute)
    assert message.task.version == 1


async def test_groups_do_not_mix(office: PostOffice) -> None:
    mailbox = office.connect("G", "a")
    office.deliver([execute("1", "poll://any@g")])
    assert not mailbox.take()


async def test_a_full_mailbox_gets_more_when_it_has_been_read(office: PostOffice) -> None:
    mailbox = office.connect("g", "a", capacity=2)
    office.deliver([execute(str(number)) for number in range(5)])
    assert ids(mailbox.take()) == ["0", "1"]
    assert ids(mailbox.take()) == ["2", "3"]
    assert ids(mailbox.take()) == ["4"]


async def test_what_a_worker_did_not_read_goes_to_another(office: PostOffice) -> None:
    first = office.connect("g", "a")
    office.deliver([execute("1")])
    first.close()
    assert ids(office.connect("g", "b").take()) == ["1"]


async def test_a_reader_that_waits_is_woken(office: PostOffice) -> None:
    mailbox = office.connect("g", "a")
    reading = asyncio.ensure_future(mailbox.receive())
    await asyncio.sleep(0)
    assert not reading.done()
    office.deliver([execute("1")])
    assert ids(await reading) == ["1"]


async def test_closing_a_mailbox_ends_its_reader(office: PostOffice) -> None:
    mailbox = office.connect("g", "a")
    reading = asyncio.ensure_future(mailbox.receive())
    await asyncio.sleep(0)
    mailbox.close()
    assert await reading == []
    mailbox.close()
    assert office.mailbox_count == 0


async def test_the_waiting_room_is_bounded_and_drops_the_oldest(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_office, "waiting_max", 3)
    office.deliver([execute(str(number)) for number in range(5)])
    assert ids(office.waiting) == ["2", "3", "4"]
    assert office.dropped_count == 2


async def test_what_nobody_reads_does_not_push_out_what_somebody_is_about_to(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_office, "waiting_max", 4)
    office.deliver([execute(str(number), "poll://any@nobody") for number in range(6)])
    office.deliver([execute("a"), execute("b")])
    assert ids(office.waiting) == ["4", "5", "a", "b"]
    office.deliver([execute("c")])
    assert ids(office.waiting) == ["5", "a", "b", "c"], "whoever has waited longest makes room"


async def test_many_lines_for_callers_who_are_gone_do_not_keep_a_new_message_out(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_office, "waiting_max", 10)
    office.deliver([unblock(f"p{n}", f"poll://uni@g/gone{n}") for n in range(30)])
    office.deliver([unblock("mine", "poll://uni@g/here")])
    assert ids(office.connect("g", "here").take()) == ["mine"]
    assert ids(office.waiting) == [f"p{n}" for n in range(21, 30)]
    assert office.line_count == 9, "a line that nothing waits in is deleted"


async def test_the_waiting_room_is_bounded_by_bytes_too(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "messages_bytes_max", 5_000)
    office.deliver([unblock(f"p{n}", f"poll://uni@g/w{n}", "x" * 1_000) for n in range(9)])
    assert ids(office.waiting) == ["p6", "p7", "p8"]
    assert (office.dropped_count, office.waiting_bytes <= 5_000) == (6, True)
    for n in range(6, 9):
        office.connect("g", f"w{n}").take()
    assert (office.waiting, office.held_bytes) == ([], 0)


async def test_mailboxes_hold_no_more_bytes_than_all_of_them_may_and_lose_nothing(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "messages_bytes_max", 4_000)
    idle, busy = office.connect("g", "idle"), office.connect("g", "busy")
    office.deliver([unblock(f"i{n}", "poll://uni@g/idle", "x" * 1_000) for n in range(3)])
    office.deliver([unblock(f"b{n}", "poll://uni@g/busy", "x" * 1_000) for n in range(2)])
    assert office.mailbox_bytes < 2 * 4_000
    assert ids(busy.take() + busy.take()) == ["b0", "b1"], "one that does not read keeps nobody waiting"
    assert ids(idle.take() + idle.take()) == ["i0", "i1", "i2"]
    assert office.held_bytes == 0


async def test_while_paused_everything_waits(office: PostOffice) -> None:
    mailbox: Mailbox = office.connect("g", "a")
    office.pause()
    office.deliver([execute("1")])
    assert not mailbox.take()
    office.resume()
    assert ids(mailbox.take()) == ["1"]


async def test_pushed_messages_wait_until_somebody_can_push(office: PostOffice) -> None:
    pushed: list[Message] = []
    office.deliver([execute("1", "http://worker.test/run")])
    office.set_push(pushed.append)
    office.deliver([execute("2", "https://worker.test/run")])
    assert ids(pushed) == ["1", "2"]


@pytest.mark.parametrize("paused", [False, True])
async def test_a_message_that_cannot_be_delivered_does_not_hinder_the_others(
    office: PostOffice, paused: bool
) -> None:
    if paused:
        office.pause()
    office.deliver([execute("1"), execute("lost", "nonsense"), execute("2")])
    office.resume()
    assert ids(office.connect("g", "a").take()) == ["1", "2"]
