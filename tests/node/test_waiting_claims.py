"""A claim that waits at the node is carried out in the commit that offers a task, and never twice."""

import asyncio
from collections.abc import Callable
from typing import Any

import holdfast as hf
from holdfast.engine import Rules
from holdfast.node import Node
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.messages import Execute
from holdfast.protocol.replies import ClaimReply, Reply
from holdfast.protocol.requests import (
    PromiseRegisterCallback,
    QueuePause,
    RegisterAction,
    Request,
    TaskClaim,
    TaskSuspend,
)
from holdfast.store.interface import Load, Result, Save, Work
from holdfast.store.memory import MemoryStore
from tests.host.test_waiting_slots import double, order_of, until
from tests.node.test_group_commit import GatedStore, finished, opened, settle_down
from tests.requests import ask, create, get, settle


class Idle:
    """A worker with so many slots, of which each grant takes one for good."""

    def __init__(self, pid: str = "w", slots: int = 10, groups: tuple[str, ...] = ("g",)) -> None:
        self.pid = pid
        self.groups = groups
        self.slots = slots
        self.asked = 0
        self.is_under_way = False
        self.granted: list[tuple[str, int]] = []
        self.unknown = 0
        self.is_back = False

    def claim(self) -> Request | None:
        assert not self.is_under_way, "its claim was not answered yet"
        if not self.slots:
            return None
        self.asked += 1
        self.is_under_way = True
        return ask(TaskClaim([*self.groups], self.slots, self.pid, 60_000))

    def begin(self) -> bool:
        return not self.is_back

    def answered(self, reply: Reply | None) -> None:
        self.is_under_way = False
        if reply is None:
            self.unknown += 1
            return
        assert isinstance(reply.data, ClaimReply)
        tasks = [claim.task for claim in reply.data.tasks]
        assert all(task.pid == self.pid for task in tasks)
        self.slots -= len(tasks)
        self.granted += [(task.id, task.version) for task in tasks]

    def returned(self) -> None:
        self.is_under_way = False


def work(task_id: str, group: str = "g") -> Request:
    return create(task_id, target=f"poll://any@{group}")


def invitations(node: Node) -> list[str]:
    return [message.task.id for message in node.router.waiting if isinstance(message, Execute)]


async def test_a_task_is_claimed_in_the_commit_that_creates_it() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle()
        node.leave_claim(worker)
        await node.request([work("a")])
        assert node.stats.commits == 1
        assert worker.granted == [("a", 1)]
        assert invitations(node) == [], "nobody else is asked to take it"


async def test_a_task_is_claimed_in_the_commit_that_wakes_it() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle()
        node.leave_claim(worker)
        await node.request([create("awaited"), work("a")])
        wait = RegisterAction("promise.register_callback", PromiseRegisterCallback("awaited", "a"))
        await node.request([ask(TaskSuspend("a", 1, [wait]))])
        before = node.stats.commits
        await node.request([settle("awaited", "done")])
        assert node.stats.commits == before + 1
        assert worker.granted == [("a", 1), ("a", 2)]


async def test_a_task_is_claimed_in_the_sweep_that_offers_it() -> None:
    now = 1_000
    async with Node(MemoryStore(), clock=lambda: now, rules=Rules(retry_ms=5_000)) as node:
        await node.request([work("a")])
        worker = Idle()
        node.leave_claim(worker)
        before = node.stats.commits
        now += 5_000
        node.want_sweep()
        await until(lambda: bool(worker.granted))
        assert worker.granted == [("a", 1)]
        assert node.stats.commits == before


async def test_a_worker_is_granted_no_more_than_it_has_slots_for_and_the_rest_is_offered() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle(slots=2)
        node.leave_claim(worker)
        await node.request([work(name) for name in "abcde"])
        assert [name for name, _ in worker.granted] == ["a", "b"]
        assert {"c", "d", "e"} <= {*invitations(node)}
        await node.request([work("f")])
        assert len(worker.granted) == 2


async def test_a_bulk_of_tasks_wakes_others_though_a_worker_was_granted_the_first_of_them() -> None:
    """Only the first tasks of a bulk are offered by messages."""
    task, payloads = hf.App("memory:").task(double), Payloads(None)
    numbers = range(100, 200)  # their ids are in the order in which they are granted
    bulk = [ask(order_of(task, number, payloads).creation) for number in numbers]
    async with Node(MemoryStore()) as node:
        worker = Idle(slots=80, groups=("queue.default",))
        node.leave_claim(worker)
        await node.request(bulk)
        assert len(worker.granted) == 80
        assert invitations(node), "20 wait, and other workers may have slots"


async def test_no_task_is_granted_to_two_workers_and_they_take_turns() -> None:
    async with Node(MemoryStore()) as node:
        first, second = Idle("first"), Idle("second")
        node.leave_claim(first)
        node.leave_claim(second)
        for name in "abcd":
            await node.request([work(name)])
        assert [name for name, _ in first.granted] == ["a", "c"]
        assert [name for name, _ in second.granted] == ["b", "d"]


async def test_what_is_too_much_for_one_worker_goes_to_the_next_in_the_same_commit() -> None:
    async with Node(MemoryStore()) as node:
        first, second = Idle("first", slots=1), Idle("second")
        node.leave_claim(first)
        node.leave_claim(second)
        await node.request([work(name) for name in "abc"])
        assert node.stats.commits == 1
        assert [name for name, _ in [*first.granted, *second.granted]] == ["a", "b", "c"]
        assert invitations(node) == []


async def test_a_worker_is_given_the_work_of_its_own_groups_only() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle(groups=("g", "h"))
        node.leave_claim(worker)
        await node.request([work("a", "elsewhere")])
        assert worker.granted == []
        assert invitations(node) == ["a"]
        await node.request([work("b", "h")])
        assert worker.granted == [("b", 1)]


async def test_a_worker_is_not_asked_by_what_makes_no_work() -> None:
    async with Node(MemoryStore()) as node:
        await node.request([create("first")])  # behind the sweep at the start, which may make work
        worker = Idle()
        node.leave_claim(worker)
        await node.request([create("plain"), get("plain")])
        assert worker.asked == 0
        await node.request([settle("plain")])
        assert worker.asked == 1
        assert not worker.is_under_way
        assert worker.granted == []


async def test_nothing_is_granted_before_the_commit_is_durable() -> None:
    store = GatedStore()
    node = await opened(store)
    worker = Idle()
    node.leave_claim(worker)
    asked = asyncio.ensure_future(node.request([work("a")]))
    await settle_down()
    assert store.tasks["a"].state == "acquired", "the commit is under way"
    assert worker.is_under_way
    assert worker.granted == []
    store.gate.set()
    await asked
    assert worker.granted == [("a", 1)]
    await finished(node, store)


async def test_a_commit_that_fails_says_that_nobody_knows_what_was_granted() -> None:
    store = GatedStore()
    node = await opened(store)
    worker = Idle()
    node.leave_claim(worker)
    store.failure = OSError("the disk is gone")
    store.gate.set()
    [reply] = await node.request([work("a")])
    assert reply.status == 503
    assert worker.unknown == 1
    assert worker.granted == []
    await finished(node, store)


async def test_a_withdrawn_claim_is_not_carried_out_unless_it_is_under_way() -> None:
    store = GatedStore()
    node = await opened(store)
    worker = Idle()
    withdraw = node.leave_claim(worker)
    asked = asyncio.ensure_future(node.request([work("a")]))
    await settle_down()
    withdraw()
    store.gate.set()
    await asked
    assert worker.granted == [("a", 1)], "whoever withdraws is told of it"
    await node.request([work("b")])
    assert worker.granted == [("a", 1)]
    assert invitations(node) == ["b"]
    await finished(node, store)


async def test_a_claim_that_its_worker_has_taken_back_is_not_carried_out_and_others_are() -> None:
    async with Node(MemoryStore()) as node:
        first, second = Idle("first"), Idle("second")
        node.leave_claim(first)
        node.leave_claim(second)
        first.is_back = True
        await node.request([work("a")])
        assert (first.granted, second.granted) == ([], [("a", 1)])
        assert not first.is_under_way
        second.is_back = True
        await node.request([work("b")])
        assert invitations(node) == ["b"]


class RunsTwice(MemoryStore):
    """As a database that finds at the first write that others were faster: the work is begun again."""

    def run(self, work: Callable[[], Work[Result]]) -> Result:
        given_up = work()
        step = next(given_up, None)
        while step is not None and not isinstance(step, Save):
            try:
                step = given_up.send(self._perform(step))
            except StopIteration:
                break
        given_up.close()
        return super().run(work)


async def test_a_group_that_is_run_twice_grants_once() -> None:
    async with Node(RunsTwice()) as node:
        worker = Idle(slots=3)
        node.leave_claim(worker)
        await node.request([work("a"), work("b")])
        assert worker.granted == [("a", 1), ("b", 1)]


async def test_the_limits_of_a_queue_hold_and_what_they_leave_is_offered() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle(groups=("queue.q",))
        await node.request([ask(QueuePause("q", paused=True))])
        node.leave_claim(worker)
        await node.request([work("a", "queue.q")])
        assert worker.granted == []
        assert invitations(node) == ["a"]


class StepNames(MemoryStore):
    """Remembers what it was asked for: gates, and saves."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def _perform(self, step: Any) -> Any:
        if isinstance(step, Load) and step.footprint.gates:
            self.steps.append("gates " + " ".join(sorted(step.footprint.gates)))
        elif isinstance(step, Save):
            self.steps.append("save")
        return super()._perform(step)


async def test_the_queues_of_all_claims_are_locked_before_anything_is_written() -> None:
    store = StepNames()
    async with Node(store) as node:
        for pid, name in (("first", "b"), ("second", "a")):
            await node.request([ask(QueuePause(name, paused=True))])
            node.leave_claim(Idle(pid, groups=(f"queue.{name}",)))
        store.steps.clear()
        await node.request([work("x", "queue.a"), work("y", "queue.b")])
        assert store.steps[:2] == ["gates a b", "save"]
        assert [step for step in store.steps if step != "save"] == ["gates a b"]


async def test_a_worker_that_is_drained_is_not_asked() -> None:
    async with Node(MemoryStore()) as node:
        worker = Idle()
        node.leave_claim(worker)
        node.router.drained["w"] = ""
        await node.request([work("a")])
        assert worker.asked == 0
        assert invitations(node) == ["a"]
        del node.router.drained["w"]
        await node.request([work("b")])
        assert [name for name, _ in worker.granted] == ["a", "b"]


async def test_a_worker_that_fails_when_it_is_told_keeps_nobody_else_from_being_answered() -> None:
    class Broken(Idle):
        def answered(self, reply: Reply | None) -> None:
            raise RuntimeError("broken")

    async with Node(MemoryStore()) as node:
        broken, other = Broken("broken", slots=1), Idle("other")
        node.leave_claim(broken)
        node.leave_claim(other)
        replies = await node.request([work("a"), work("b")])
        assert [reply.status for reply in replies] == [200, 200]
        assert other.granted == [("b", 1)]
