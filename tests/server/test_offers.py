"""A backlog is offered to a worker that connects: each task once, and nothing else of it is read."""

import asyncio

from holdfast.engine import Footprint, WorkingSet
from holdfast.node import Node
from holdfast.protocol.messages import Execute
from holdfast.server.offers import Offers, page_tasks
from holdfast.store.memory import MemoryStore
from tests.requests import ask, create


class CountingStore(MemoryStore):
    """Counts the records that are loaded."""

    promises_read = 0
    tasks_read = 0

    def _load(self, ws: WorkingSet, footprint: Footprint) -> None:
        before = len(ws.promises), len(ws.tasks)
        super()._load(ws, footprint)
        self.promises_read += len(ws.promises) - before[0]
        self.tasks_read += len(ws.tasks) - before[1]


async def offered_to_one_worker(node: Node, group: str, count: int) -> list[str]:
    """What a worker that reads all it gets is offered: so many, and what comes for a while after them."""
    offers = Offers(node)
    mailbox = node.connect(group, "w", page_tasks)
    offers.worker_connected(group, mailbox.unread)
    found: list[str] = []
    while True:
        try:
            async with asyncio.timeout(60 if len(found) < count else 0.5):
                messages = await mailbox.receive()
        except TimeoutError:
            break
        found += [message.task.id for message in messages if isinstance(message, Execute)]
        offers.worker_read(group)
    mailbox.close()
    offers.stop()
    return found


async def test_each_task_of_a_backlog_is_offered_once_and_none_of_its_promises_is_read() -> None:
    count = 1_250
    names = [f"t{number:04}" for number in range(count)]
    store = CountingStore()
    async with Node(store) as node:
        await node.request([create(name, target="poll://any@g") for name in names])
        node.router.clear()
        store.promises_read = store.tasks_read = 0
        assert sorted(await offered_to_one_worker(node, "g", count)) == names
        assert store.promises_read == 0
        assert store.tasks_read <= count + page_tasks


async def test_a_backlog_of_many_priorities_is_offered_best_first() -> None:
    async with Node(MemoryStore()) as node:
        tagged = [create(f"t{number:03}", target="poll://any@g") for number in range(250)]
        for number, request in enumerate(tagged):
            request.data.tags["holdfast:priority"] = str(number % 3)  # type: ignore[attr-defined]
        await node.request([ask(request.data) for request in tagged])
        node.router.clear()
        found = await offered_to_one_worker(node, "g", 250)
        assert sorted(found) == [f"t{number:03}" for number in range(250)]
        priorities = [int(name[1:]) % 3 for name in found]
        assert priorities == sorted(priorities, reverse=True)
