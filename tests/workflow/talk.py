"""Talking to an execution of a test's world: by requests, as any client would."""

from typing import Any

from holdfast.payloads.messages import encode_message
from holdfast.protocol import limits
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply, StreamAppendReply, StreamReply
from holdfast.protocol.requests import StreamAnswer, StreamAppend, StreamRead
from tests.workflow.world import World


async def tell(world: World, execution: str, message: Any, key: str | None = None) -> Reply:
    return await world.ask(StreamAppend(execution, "in", encode_message(world.payloads, message), key))


async def ask(world: World, execution: str, message: Any, timeout_at: int = limits.instant_ms_max) -> str:
    """The id of the promise of the answer."""
    value = encode_message(world.payloads, message)
    reply = await world.ask(StreamAppend(execution, "in", value, answer=StreamAnswer(timeout_at)))
    assert isinstance(reply.data, StreamAppendReply), reply
    assert reply.data.answer is not None
    return reply.data.answer.id


async def elements(world: World, execution: str, stream: str) -> list[Promise]:
    found: list[Promise] = []
    while True:
        reply = await world.ask(StreamRead(execution, stream, after=len(found)))
        assert isinstance(reply.data, StreamReply), reply
        found += reply.data.promises
        if len(found) >= reply.data.count:
            return found


async def values(world: World, execution: str, stream: str) -> list[Any]:
    return [world.payloads.decode(each.value) for each in await elements(world, execution, stream)]
