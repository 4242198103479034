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
_process: Final = os.urandom(8).hex()
_counter: Final = itertools.count(1)


def ask(data: RequestData) -> Request:
    """A request with a correlation id that no other request has, so that repeating it is recognisable."""
    return Request(_kind_of[type(data)], f"{_process}-{next(_counter)}", CURRENT_VERSION, "A", data)


def expect(reply: Reply, shape: type[Data]) -> Data:
    """The data of a successful reply; `Refused` when it is none."""
    if isinstance(reply.data, shape) and reply.status < 400:
        return reply.data
    if isinstance(reply.data, str):
        raise Refused(reply.status, reply.data)
    raise BadReply(f"The reply is a {type(reply.data).__name__} where {shape.__name__} was expected")
