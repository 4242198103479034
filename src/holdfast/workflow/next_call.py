"""What an entity asks for when a call is done: the next message, and to be woken by it.

The code of an entity always begins by waiting for the next message. So between two calls there is no need to
run it: what it would ask for is known. Its next generation is made when there is a call for it.

1. What is asked is what the code would ask: `stream.next` under the fence, and a suspension on that element.
2. Whatever does not go as it nearly always does is left to the code: it asks again, and is told.
"""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.protocol.executions import Wait
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import FenceReply, PreloadReply, PromiseReply, Reply, StreamReply
from holdfast.protocol.requests import (
    NextAction,
    PromiseRegisterCallback,
    RegisterAction,
    StreamNext,
    TaskFence,
    TaskSuspend,
)
from holdfast.protocol.streams import MAILBOX, element_id


class NextCall(Struct, frozen=True):
    """The message of this number, and what is asked for it."""

    execution_id: str
    version: int
    generation: int | None
    number: int

    @property
    def id(self) -> str:
        return element_id(self.execution_id, MAILBOX, self.number)

    @property
    def fence(self) -> TaskFence:
        following = NextAction(StreamNext(self.execution_id, MAILBOX, self.number))
        return TaskFence(self.execution_id, self.version, following, self.generation)

    @property
    def suspension(self) -> TaskSuspend:
        register = PromiseRegisterCallback(self.id, self.execution_id)
        waits = [Wait(self.id, f"message {self.number}")]
        actions = [RegisterAction("promise.register_callback", register)]
        return TaskSuspend(self.execution_id, self.version, actions, True, waits, self.generation)


def records_in(replies: Iterable[Reply]) -> list[Promise]:
    """What they tell: messages, and what a suspension that was refused says has happened."""
    found: list[Promise] = []
    for reply in replies:
        data = reply.data.action.data if isinstance(reply.data, FenceReply) else reply.data
        if isinstance(data, StreamReply):
            found += data.promises
        elif isinstance(data, PreloadReply):
            found += data.preload
        elif isinstance(data, PromiseReply):
            found.append(data.promise)
    return found
