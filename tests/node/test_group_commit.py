"""Requests that arrive while a commit is on its way form the next group; nobody is answered early."""

import asyncio
from collections.abc import Callable
from sqlite3 import OperationalError
from typing import Any

import pytest

from holdfast.engine import Rules, dispatch
from holdfast.node import Node, node as limits, queue
from holdfast.protocol import limits as protocol_limits
from holdfast.protocol.messages import Execute
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import PromiseGet
from holdfast.store.interface import Load, Result, Save, Work
from holdfast.store.memory import MemoryStore
from tests.requests import ask, create, get, heartbeat, listen, promise_of, settle


class GatedStore(MemoryStore):
    """A store whose disk answers when the test says so, and which remembers the groups it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.groups: list[int] = []
        self.loads = 0
        self.saves = 0
        self.failure: Exception | None = None

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        result = self.run(work)
        replies = getattr(result, "replies", [])
        if replies:
            self.groups.append(len(replies))
        await self.gate.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return result

    def _perform(self, step: Any) -> Any:
        self.loads += isinstance(step, Load)
        self.saves += isinstance(step, Save)
        return super()._perform(step)


async def settle_down() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def opened(store: GatedStore) -> Node:
    store.gate.set()
    node = Node(store)
    await node.start()
    await settle_down()
    store.gate.clear()
    return node


async def finished(node: Node, store: GatedStore) -> None:
    store.gate.set()
    await node.stop()


async def test_nobody_is_answered_before_the_commit_is_durable() -> None:
    store = GatedStore()
    node = await opened(store)
    asked = asyncio.ensure_future(node.request([create("a")]))
    await settle_down()
    assert "a" in store.promises, "the commit is under way"
    assert not asked.done(), "and its caller still waits for the disk"
    store.gate.set()
    [reply] = await asked
    assert promise_of(reply).id == "a"
    await finished(node, store)


async def test_what_arrives_during_a_commit_forms_one_group() -> None:
    store = GatedStore()
    node = await opened(store)
    first = asyncio.ensure_future(node.request([create("first")]))
    await settle_down()
    others = [asyncio.ensure_future(node.request([create(f"p{index}")])) for index in range(50)]
    await settle_down()
    store.gate.set()
    await asyncio.gather(first, *others)
    assert store.groups == [1, 50]
    await finished(node, store)


async def test_callers_ready_in_the_same_turn_share_a_commit() -> None:
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    await asyncio.gather(*(node.request([create(f"p{index}")]) for index in range(64)))
    assert store.groups == [64]
    await finished(node, store)


async def test_a_group_is_loaded_once_and_saved_once() -> None:
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    before = (store.loads, store.saves)
    await asyncio.gather(*(node.request([create(f"p{index}")]) for index in range(64)))
    assert (store.loads - before[0], store.saves - before[1]) == (1, 1)
    await finished(node, store)


async def test_requests_of_one_array_are_applied_in_order_in_one_commit() -> None:
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    created, settled, seen = await node.request([create("a"), settle("a", "x"), get("a")])
    assert promise_of(created).state == "pending"
    assert promise_of(settled).state == promise_of(seen).state == "resolved"
    assert store.groups == [3]
    await finished(node, store)


async def test_a_refused_request_does_not_harm_its_group() -> None:
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    missing, created = await node.request([settle("nobody"), create("a")])
    assert (missing.status, created.status) == (404, 200)
    await finished(node, store)


async def test_a_group_has_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "group_requests_max", 10)
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    await asyncio.gather(*(node.request([create(f"p{index}")]) for index in range(25)))
    assert store.groups == [10, 10, 5]
    await finished(node, store)


async def refusal(asked: asyncio.Future[list[Reply]]) -> Reply:
    """The answer, which comes at once: if the request were accepted, it would wait for the gate."""
    await settle_down()
    assert asked.done()
    [reply] = asked.result()
    return reply


async def test_past_the_queue_bound_a_request_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "queue_requests_max", 3)
    store = GatedStore()
    node = await opened(store)
    accepted = [asyncio.ensure_future(node.request([create(f"p{index}")])) for index in range(3)]
    await asyncio.sleep(0)
    refused = await refusal(node.submit([create("late")]))
    assert refused.status == 429
    assert "HF1901" in str(refused.data)
    store.gate.set()
    assert [reply.status for [reply] in await asyncio.gather(*accepted)] == [200, 200, 200]
    assert "late" not in store.promises
    await finished(node, store)


async def test_past_the_bound_of_bytes_a_request_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol_limits, "queue_bytes_max", 12_000)
    store = GatedStore()
    node = await opened(store)
    accepted = [
        asyncio.ensure_future(node.request([create(f"p{index}", data="x" * 4_000)])) for index in range(2)
    ]
    await asyncio.sleep(0)
    asked = node.submit([create("late", data="x" * 4_000)])
    listed = node.submit([heartbeat("p", *[("t", 1)] * 20)])
    refused = await refusal(asked)
    assert (refused.status, "bytes of requests" in str(refused.data)) == (429, True)
    assert (await refusal(listed)).status == 429, "a long list takes up room, too"
    small = asyncio.ensure_future(node.request([create("small")]))
    store.gate.set()
    assert [reply.status for [reply] in await asyncio.gather(*accepted, small)] == [200, 200, 200]
    assert [reply.status for reply in await node.request([create("late", data="x" * 20_000)])] == [200]
    await finished(node, store)


async def test_a_node_that_holds_too_many_messages_takes_no_request_until_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol_limits, "node_bytes_max", 20_000)
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    await node.request([create("p"), listen("p", "poll://uni@g/w")])
    await node.request([settle("p", "x" * 18_000)])
    assert node.router.held_bytes > 18_000
    store.gate.clear()
    first = asyncio.ensure_future(node.request([create("first")]))
    await asyncio.sleep(0)
    [refused] = await node.request([create("second", data="x" * 2_000)])
    assert (refused.status, "requests and messages" in str(refused.data)) == (429, True)
    node.connect("g", "w").take()
    again = asyncio.ensure_future(node.request([create("second", data="x" * 2_000)]))
    await asyncio.sleep(0)
    store.gate.set()
    assert [reply.status for [reply] in await asyncio.gather(first, again)] == [200, 200]
    await finished(node, store)


async def test_stop_answers_everything_that_was_accepted_and_refuses_the_rest() -> None:
    store = GatedStore()
    node = await opened(store)
    accepted = asyncio.ensure_future(node.request([create("a")]))
    await settle_down()
    queued = asyncio.ensure_future(node.request([create("b")]))
    await settle_down()
    stopping = asyncio.ensure_future(node.stop())
    await settle_down()
    assert not stopping.done()
    [late] = await node.request([create("c")])
    assert (late.status, "HF1902" in str(late.data)) == (503, True)
    store.gate.set()
    await stopping
    assert [reply.status for [reply] in (await accepted, await queued)] == [200, 200]


async def test_when_the_store_fails_the_callers_are_told_and_the_node_lives_on() -> None:
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    store.failure = OSError("disk full")
    [failed] = await node.request([create("a")])
    assert failed.status == 503
    assert "HF1904" in str(failed.data)
    assert "disk full" not in str(failed.data), "inner details stay in the log"
    [fine] = await node.request([create("b")])
    assert fine.status == 200
    await finished(node, store)


class FullDisk(MemoryStore):
    said: str | None = None

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        if self.said is not None:
            raise OperationalError(self.said)
        return self.run(work)


async def test_a_disk_that_is_full_is_named_and_its_lines_of_code_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FullDisk()
    node = Node(store)
    await node.start()
    store.said = "database or disk is full"
    for promise_id in ("a", "b", "c"):
        [failed] = await node.request([create(promise_id)])
        assert "The store failed: database or disk is full." in str(failed.data)
    store.said = None
    [created] = await node.request([create("a")])
    assert created.status == 200
    store.said = "disk I/O error"
    await node.request([create("b")])
    store.said = None
    told = [each for each in caplog.records if "a commit failed" in each.getMessage()]
    assert len(told) >= 4
    assert [each for each in told if each.exc_info] == [
        told[0],
        next(each for each in told if "disk I/O error" in each.getMessage()),
    ]
    await node.stop()


async def test_a_defect_in_one_request_is_undone_and_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(request: Any, data: Any, ws: Any, now: int) -> Any:
        ws.put_promise(ws.promise("a"))
        raise ZeroDivisionError

    handlers: dict[Any, Any] = dispatch.HANDLERS
    monkeypatch.setitem(handlers, PromiseGet, broken)
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    created, failed, other = await node.request([create("a"), ask(PromiseGet("a")), create("b")])
    assert (created.status, failed.status, other.status) == (200, 500, 200)
    assert "HF1903" in str(failed.data)
    assert set(store.promises) == {"a", "b"}
    await finished(node, store)


async def test_a_caller_that_goes_away_takes_nobody_down() -> None:
    store = GatedStore()
    node = await opened(store)
    gone = asyncio.ensure_future(node.request([create("a")]))
    stays = asyncio.ensure_future(node.request([create("b")]))
    await settle_down()
    gone.cancel()
    await settle_down()
    store.gate.set()
    [reply] = await stays
    assert reply.status == 200
    assert "a" in store.promises, "what was accepted is carried out"
    await finished(node, store)


async def test_no_message_leaves_before_the_commit_is_durable() -> None:
    store = GatedStore()
    node = await opened(store)
    mailbox = node.connect("g", "me")
    asked = asyncio.ensure_future(node.request([create("a", target="poll://any@g")]))
    await settle_down()
    assert "a" in store.promises, "the commit is under way"
    assert mailbox.take() == [], "and nobody is called to work that may yet be lost"
    store.gate.set()
    await asked
    assert len(await asyncio.wait_for(mailbox.receive(), 60)) == 1
    await finished(node, store)


async def test_what_a_commit_of_unknown_outcome_has_made_due_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "store_rest_ms", 1)
    store = GatedStore()
    store.gate.set()
    async with Node(store, rules=Rules(retry_ms=20)) as node:
        await settle_down()
        mailbox = node.connect("g", "me")
        store.failure = OSError("the disk has it, and nobody heard so")
        [reply] = await node.request([create("a", target="poll://any@g")])
        assert reply.status == 503
        assert "a" in store.promises
        [message] = await asyncio.wait_for(mailbox.receive(), 60)
        assert isinstance(message, Execute)
        assert message.task.id == "a"


async def test_a_node_whose_messages_cannot_be_delivered_goes_on_and_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(messages: Any) -> None:
        raise ValueError("no such address")

    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    monkeypatch.setattr(node.router, "deliver", fail)
    for name in ("a", "b"):
        [reply] = await node.request([create(name, target="poll://any@g")])
        assert reply.status == 200
    async with asyncio.timeout(60):
        await finished(node, store)
