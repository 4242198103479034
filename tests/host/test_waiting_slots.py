"""A worker with free slots leaves its claim at the node of its process: what that costs, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from queue import SimpleQueue

import pytest
from msgspec import Struct

import holdfast as hf
from holdfast.client.embedded import EmbeddedClient
from holdfast.host.host import Host
from holdfast.host.slots import SlotGroup
from holdfast.jobs.options import SendOptions
from holdfast.jobs.runner import JobRunner
from holdfast.jobs.send_request import SendRequest, make_orders
from holdfast.jobs.task import AnyTask
from holdfast.node import Node
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, StreamAppend, TaskClaim, TaskSuspend
from holdfast.protocol.streams import MAILBOX
from holdfast.steps.runner import StepRunner
from holdfast.store.interface import Result, Work
from tests.node.test_group_commit import GatedStore, opened, settle_down
from tests.requests import ask

patience_s = 60.0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(patience_s):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def double(number: int) -> int:
    return 2 * number


class Requests:
    """What a node was asked for."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.before = node.stats.commits, node.stats.committed_requests

    def counted(self) -> tuple[int, int]:
        """Commits and requests since then."""
        stats = self._node.stats
        return stats.commits - self.before[0], stats.committed_requests - self.before[1]


async def test_a_background_task_is_two_commits_from_the_send_to_its_result() -> None:
    app = hf.App("memory:")
    task = app.task(double)
    async with app:
        await (await task.send_async(1))
        asked = Requests(app.session.node)
        assert (await (await task.send_async(2))).ok_value == 4
        assert asked.counted() == (2, 3), "create; listen and fulfil"


async def test_a_call_of_an_entity_is_two_commits() -> None:
    app = hf.App("memory:")

    @app.entity
    class Account(hf.Entity):
        balance: int = 0

        async def deposit(self, cents: int) -> int:
            self.balance += cents
            return self.balance

    async with app:
        node = app.session.node
        for name in "ab":
            await app.entity(Account, name).deposit(1)
        await until(lambda: app.session.is_idle)
        asked = Requests(node)
        assert await app.entity(Account, "a").deposit(1) == 2
        commits, _ = asked.counted()
        assert commits == 2


async def test_what_a_task_runs_in_is_not_the_context_of_its_sender() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")
    app = hf.App("memory:")

    @app.task
    async def look() -> str:
        return variable.get()

    async with app:
        variable.set("of the sender")
        assert (await (await look.send_async())).ok_value == "nothing"


def test_a_waiting_claim_takes_every_free_slot_once() -> None:
    slots = SlotGroup(["queue.default"], 3)
    slots.may_have_work = False
    slots.running = 1
    intent = slots.waiting_intent("w", 1_000, ())
    assert intent is not None
    assert (intent.claim.count, slots.free) == (2, 0)
    assert slots.waiting_intent("w", 1_000, ()) is None
    slots.hand_back(intent)
    assert slots.free == 2
    assert slots.waiting_intent("w", 1_000, ()) is intent, "nothing has changed"


def test_a_waiting_claim_names_only_what_is_in_memory_now() -> None:
    slots = SlotGroup(["g"], 3, kind="workflows")
    slots.may_have_work = False
    for known in (["large"], [], ["other"]):
        intent = slots.waiting_intent("w", 1_000, known)
        assert intent is not None
        assert intent.claim.known == known
        slots.hand_back(intent)


def test_a_slot_group_that_will_claim_anyway_leaves_no_claim() -> None:
    slots = SlotGroup(["queue.default"], 3)
    assert slots.may_have_work
    assert slots.waiting_intent("w", 1_000, ()) is None


class Place:
    """A worker beside a node whose disk answers when the test says so."""

    def __init__(self, node: Node, store: GatedStore) -> None:
        self.store = store
        self.node = node
        self.app = hf.App("memory:")
        self.task = self.app.task(double)
        self._payloads = Payloads(None)
        self.host = Host(EmbeddedClient(node), pid="w", lease_s=600, now=node.now)
        runner = JobRunner(self._payloads, self.app.tasks, StepRunner(), pid="w")
        self.host.listen_in("queue.default")
        self.slots = SlotGroup(["queue.default"], 2)
        self.host.serve(self.slots, runner)

    def request(self, number: int) -> Request:
        return ask(order_of(self.task, number, self._payloads).creation)

    def send(self, number: int) -> "asyncio.Future[list[Reply]]":
        return asyncio.ensure_future(self.node.request([self.request(number)]))

    async def close(self) -> None:
        await self.host.stop()
        await self.host.end_streams()
        await self.node.stop()


def order_of(task: AnyTask, number: int, payloads: Payloads) -> SendRequest:
    [order] = make_orders(
        task,
        SendOptions(),
        [((number,), {})],
        sent_at=0,
        queue_priority=None,
        payloads=payloads,
        fresh=lambda: str(number),
    )
    assert isinstance(order, SendRequest)
    return order


async def place_at_rest(store: GatedStore) -> Place:
    """The worker has found that there is nothing to do."""
    node = await opened(store)
    store.gate.set()
    place = Place(node, store)
    await until(lambda: not (place.slots.may_have_work or place.slots.asked_to_start))
    store.gate.clear()
    return place


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    found = await place_at_rest(GatedStore())
    yield found
    await found.close()


async def until_settled(store: GatedStore, count: int) -> None:
    await until(lambda: sum(promise.state != "pending" for promise in store.promises.values()) == count)


async def test_what_is_granted_to_a_worker_that_stops_is_given_back(place: Place) -> None:
    sending = place.send(1)
    await settle_down()
    [task] = place.store.tasks.values()
    assert task.state == "acquired", "the commit that grants it is under way"
    stopping = asyncio.ensure_future(place.host.stop())
    await settle_down()
    place.store.gate.set()
    async with asyncio.timeout(patience_s):
        await sending
        await stopping
    [task] = place.store.tasks.values()
    assert (task.state, task.pid) == ("pending", None)


async def test_what_a_commit_of_unknown_fate_granted_is_found_and_run(place: Place) -> None:
    place.store.failure = OSError("the disk did not answer")
    sending = place.send(1)
    await settle_down()
    place.store.gate.set()
    await sending
    await until_settled(place.store, 1)
    await until(lambda: place.slots.free == 2)


async def test_no_more_is_granted_than_there_are_slots_while_a_claim_is_under_way(place: Place) -> None:
    sending = [place.send(number) for number in range(5)]
    await settle_down()
    held = [task for task in place.store.tasks.values() if task.state == "acquired"]
    assert len(held) == 2
    assert place.slots.free == 0
    place.slots.may_have_work = True
    assert place.slots.claim_intents("w", 1_000) == [], "its slots are taken until the node has answered"
    place.store.gate.set()
    await asyncio.gather(*sending)
    await until_settled(place.store, 5)


class LockedStore(GatedStore):
    """Takes several groups, of which one waits for what somebody else has locked."""

    parallel_groups = 3

    def __init__(self) -> None:
        super().__init__()
        self.is_next_locked = False
        self.unlocked = asyncio.Event()

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        if self.is_next_locked:
            self.is_next_locked = False
            await self.unlocked.wait()
        return await super().transact(work)


class Locked(Struct):
    """A worker whose slots are promised to a commit that waits for a lock: that of the first send."""

    place: Place
    store: LockedStore
    sending: "asyncio.Future[list[Reply]]"

    async def unlock(self) -> None:
        self.store.unlocked.set()
        await self.sending


@pytest.fixture
async def locked() -> AsyncIterator[Locked]:
    store = LockedStore()
    place = await place_at_rest(store)
    store.gate.set()
    store.is_next_locked = True
    sending = place.send(1)
    await settle_down()
    assert place.slots.free == 0
    assert not sending.done()
    yield Locked(place, store, sending)
    await place.close()


async def test_a_commit_that_waits_for_a_lock_keeps_no_worker_from_other_work(locked: Locked) -> None:
    await locked.place.send(2)
    await until_settled(locked.store, 1)
    assert not locked.sending.done()
    await locked.unlock()
    await until_settled(locked.store, 2)
    await until(lambda: locked.place.slots.free == 2)


async def test_a_claim_that_was_taken_back_from_a_commit_that_fails_is_handed_back_once(
    locked: Locked,
) -> None:
    await locked.place.send(2)
    await until_settled(locked.store, 1)
    locked.store.failure = OSError("the disk did not answer")
    await locked.unlock()
    await settle_down()
    await until(lambda: locked.place.slots.free == 2)


async def test_a_worker_that_stops_does_not_wait_for_a_commit_that_waits_for_a_lock(locked: Locked) -> None:
    async with asyncio.timeout(patience_s):
        await locked.place.host.stop()
    assert not locked.sending.done()
    await locked.unlock()
    [task] = locked.store.tasks.values()
    assert (task.state, task.pid) == ("pending", None), "nobody would run it"


async def test_a_worker_that_drains_leaves_no_claim_and_goes_on_afterwards(place: Place) -> None:
    place.store.gate.set()
    place.host.drain(on=True)
    await place.send(1)
    await settle_down()
    [task] = place.store.tasks.values()
    assert task.state == "pending"
    place.host.drain(on=False)
    await until_settled(place.store, 1)


async def test_large_executions_that_are_in_memory_are_claimed_without_what_they_recorded() -> None:
    claims: list[TaskClaim] = []
    app = hf.App("memory:")

    @app.workflow
    async def long() -> int:
        for number in range(150):
            await hf.run(double, number)
        return len(await hf.receive(str))

    async with app:
        node = app.session.node
        handle = app.start(long, id="long")
        await handle.started()
        await until(lambda: bool(app.session._workflows.known_now))  # type: ignore[union-attr]
        take = node._claims.take  # pyright: ignore[reportPrivateUsage]

        def noted() -> object:
            taken = take()
            claims.extend(claim.request.data for claim in taken if isinstance(claim.request.data, TaskClaim))
            return taken

        node._claims.take = noted  # type: ignore[assignment, method-assign]  # pyright: ignore[reportPrivateUsage]
        await app.tell("long", "four")
        assert await handle == 4
    assert ["long"] in [claim.known for claim in claims]


async def test_what_is_woken_in_the_commit_that_suspends_it_is_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = hf.App("memory:")

    @app.workflow
    async def listening() -> int:
        return len(await hf.receive(str)) + len(await hf.receive(str))

    async with app:
        node, conversations = app.session.node, app.session.conversations
        submit = node.submit
        together = 0

        def submit_and_wake(requests: Sequence[Request]) -> "asyncio.Future[list[Reply]]":
            nonlocal together
            replies = submit(requests)
            if any(isinstance(request.data, TaskSuspend) for request in requests) and together < 2:
                together += 1
                message = conversations.encode(f"{together}")
                submit([ask(StreamAppend("x", MAILBOX, message, f"key-{together}"))])
            return replies

        node.submit = submit_and_wake  # type: ignore[method-assign]
        async with asyncio.timeout(patience_s):
            assert await app.start(listening, id="x") == 2
        await until(lambda: app.session.is_idle)
        assert together == 2
        assert app.session._workflows.warm_count == 0  # type: ignore[union-attr]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


async def test_an_execution_that_is_lost_while_it_is_suspended_is_not_kept() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def listening() -> int:
        return len(await hf.receive(str))

    async with app:
        node, workflows = app.session.node, app.session._workflows  # pyright: ignore[reportPrivateUsage]
        assert workflows is not None
        submit = node.submit
        lost = 0

        def submit_and_lose(requests: Sequence[Request]) -> "asyncio.Future[list[Reply]]":
            nonlocal lost
            if any(isinstance(request.data, TaskSuspend) for request in requests):
                for run in [*workflows._driving.values()]:  # pyright: ignore[reportPrivateUsage]
                    lost += 1
                    workflows.lose(run, "a test says so", is_stopping=False)
            return submit(requests)

        node.submit = submit_and_lose  # type: ignore[method-assign]
        handle = app.start(listening, id="x")
        await handle.started()
        await until(lambda: lost == 1 and app.session.is_idle)
        assert workflows.warm_count == 0
        node.submit = submit  # type: ignore[method-assign]
        await app.tell("x", "four")
        assert await handle == 4


def test_an_execution_that_one_commit_suspends_and_wakes_is_driven_on_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim is answered before the suspension: nobody may take that for a lease that is over."""
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    asked: SimpleQueue[str] = SimpleQueue()

    @app.workflow
    async def approve() -> str:
        approval = hf.promise(bool)
        await hf.run(asked.put, approval.id)
        return "approved" if await approval else "refused"

    with caplog.at_level("INFO", "holdfast"), app:
        for _ in range(20):
            handle = app.start(approve)
            app.resolve(asked.get(timeout=patience_s), True)
            assert handle.result(patience_s) == "approved"
    assert [each.getMessage() for each in caplog.records if "no longer driven" in each.getMessage()] == []
