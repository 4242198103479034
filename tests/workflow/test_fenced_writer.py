"""What an execution writes, when the node takes it a part at a time."""

from collections.abc import Sequence

from holdfast.client import ask
from holdfast.client.embedded import EmbeddedClient
from holdfast.node import Node
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import CreateAction, PromiseCreate, Request, TaskAcquire
from holdfast.store.memory import MemoryStore
from holdfast.workflow.fenced_writer import FencedWriter

late = 2**53 - 1


class Halting(EmbeddedClient):
    """Its node takes the first two of an array, and cannot tell what became of the rest; then all is well."""

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if len(requests) <= 3:
            return await super().request(requests)
        refused = Reply(503, "The store failed. [HF1904]")
        return await super().request(requests[:2]) + [refused] * (len(requests) - 2)


async def test_what_the_node_did_not_take_is_written_again_and_what_it_took_is_not() -> None:
    async with Node(MemoryStore()) as node:
        client = Halting(node)
        target = {"resonate:target": "poll://any@group"}
        await client.request(
            [ask(PromiseCreate("wf", late, tags=target)), ask(TaskAcquire("wf", 0, "me", 60_000))]
        )
        learned: list[Promise] = []
        writer = FencedWriter(client, "wf", 1, learned.append)
        await writer.write([CreateAction(PromiseCreate(f"wf:{number}", late)) for number in range(5)])
        assert [promise.id for promise in learned] == [f"wf:{number}" for number in range(5)]
