"""Which requests are sent again when it is unknown whether they were carried out (`protocol/repeatable.py`).

What never left this process may always be sent again, and so may what the node refused with 429, or with 503
because it was stopping: then nothing was changed. A page of a proxy (502, 503, 504) tells nothing: some
send it after they have passed the request on.
"""

from collections.abc import Sequence

from holdfast.protocol.errors import AnswerTooLarge, Refusal, Stopping, StoreUnavailable
from holdfast.protocol.repeatable import may_be_repeated
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request


def is_repeatable(requests: Sequence[Request]) -> bool:
    """All of them: requests that were issued together are repeated together or not at all."""
    return all(may_be_repeated(request) for request in requests)


def is_turned_away(reply: Reply) -> bool:
    """The node had no room or was on its way out, and says that it changed nothing."""
    return reply.status == 429 or _is(reply, Stopping)


def is_undecided(reply: Reply) -> bool:
    """The store failed, and the node does not know whether the commit took place."""
    return _is(reply, StoreUnavailable)


def is_left_out(reply: Reply) -> bool:
    """It was carried out, and there was no room for the answer behind those of other requests."""
    return _is(reply, AnswerTooLarge)


def _is(reply: Reply, refusal: type[Refusal]) -> bool:
    return reply.code == refusal.code
