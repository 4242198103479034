"""Requests as a caller writes them, and replies as it reads them."""

import itertools
import os
from typing import Final, TypeVar

from holdfast.client.errors import BadReply, Refused
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import KINDS, Request, RequestData

Data = TypeVar("Data")

# The first name of each kind is today's; the aliases of older dialects follow it.
_kind_of: Final[dict[type[RequestData], str]] = {data: kind for kind, data in reversed(KINDS.items())}
_counter: Final = itertools.count(1)


class _Process:
    """This one: a child of os.fork() has ids of its own."""

    def __init__(self) -> None:
        self.draw()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.draw)

    def draw(self) -> None:
        self.id = os.urandom(8).hex()


_process: Final = _Process()


def ask(data: RequestData) -> Request:
    """A request with a correlation id that no other request has, so that repeating it is recognisable."""
    return Request(_kind_of[type(data)], f"{_process.id}-{next(_counter)}", CURRENT_VERSION, "A", data)


def expect(reply: Reply, shape: type[Data]) -> Data:
    """The data of a successful reply; `Refused` when it is none."""
    if isinstance(reply.data, shape) and reply.status < 400:
        return reply.data
    if isinstance(reply.data, str):
        raise Refused(reply.status, reply.data, reply.code)
    raise BadReply(f"The reply is a {type(reply.data).__name__} where {shape.__name__} was expected")
