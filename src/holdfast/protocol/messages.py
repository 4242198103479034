"""What the node sends on its own: a task to execute, a promise that settled.

`key` is what makes a newer message replace an older one that still waits to be sent.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from holdfast.protocol.dialect import Dialect
from holdfast.protocol.records import Promise, TaskRef


class Execute(Struct, frozen=True):
    """Somebody shall acquire this task. In dialect B a task that was ever woken is resumed."""

    address: str
    task: TaskRef
    dialect: Dialect
    woken: bool

    @property
    def key(self) -> tuple[str, ...]:
        return ("execute", self.task.id)

    def is_older_than(self, other: "Message") -> bool:
        return isinstance(other, Execute) and self.task.version < other.task.version


class Unblock(Struct, frozen=True):
    """A promise that a listener waits for has settled."""

    address: str
    promise: Promise
    dialect: Dialect

    @property
    def key(self) -> tuple[str, ...]:
        return ("unblock", self.promise.id, self.address)

    def is_older_than(self, other: "Message") -> bool:
        return False  # a promise settles once


Message = Execute | Unblock


def newest_by_key(messages: Iterable[Message]) -> dict[tuple[str, ...], Message]:
    """What begins anew may go to others than before, so there may be several of a key."""
    newest: dict[tuple[str, ...], Message] = {}
    for message in messages:
        if not message.is_older_than(newest.setdefault(message.key, message)):
            newest[message.key] = message
    return newest


class MessageEnvelope(Struct, frozen=True):
    """A message in the shape of the wire."""

    kind: Literal["execute", "unblock", "invoke", "resume", "notify"]
    head: dict[str, str]
    data: dict[str, Any]


def to_envelope(message: Message, server_url: str | None = None) -> MessageEnvelope:
    """`server_url` tells the receiver of an execute where to call back."""
    if isinstance(message, Unblock):
        return MessageEnvelope(
            "unblock" if message.dialect == "A" else "notify", {}, {"promise": message.promise}
        )
    head = {"serverUrl": server_url} if server_url else {}
    if message.dialect == "A":
        return MessageEnvelope("execute", head, {"task": message.task})
    return MessageEnvelope("resume" if message.woken else "invoke", head, {"task": message.task})
