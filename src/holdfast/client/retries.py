"""Which requests may be sent a second time when the first one's fate is unknown.

A request is repeated only where the second one changes nothing that the first one has not, *and* is answered
as the first one was. What never left this process may always be sent again, and so may what the node refused
with 429, or with 503 because it was stopping: then nothing was changed. A page of a proxy (502, 503, 504)
tells nothing: some send it after they have passed the request on.

| kind | repeated | because |
|---|---|---|
| `*.get`, `*.search`, `debug.snap` | yes | they change nothing |
| `promise.create`, `promise.settle` | yes | idempotent by id: answered with what the first left |
| `promise.register_callback`, `promise.register_listener` | yes | a set: adding twice is adding once |
| `task.acquire` | yes | the same corrId, pid and version get the same answer while the lease lasts |
| `task.fence` | yes | its action is idempotent, and the version guards it |
| `task.heartbeat`, `task.start`, `task.halt` | yes | the second finds done what it asks for |
| `schedule.create` | yes | idempotent by id |
| `task.cancel`, `queue.set`, `queue.pause` | yes | the second finds done what it asks for |
| `task.release`, `.suspend`, `.fulfill`, `.fail` | no | the second gets 409, as if the claim had been lost |
| `task.create` | no | the second gets 409 although this process holds the task |
| `task.claim` | no | the second claims other tasks |
| `task.continue`, `schedule.delete` | no | the second gets 409 or 404 |
| `debug.start`, `.stop`, `.reset`, `.tick` | no | they are steps of a test, which wants to know |
"""

from collections.abc import Sequence
from typing import Final

from holdfast.protocol.errors import Refusal, Stopping, StoreUnavailable
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

repeatable_kinds: Final = frozenset(
    {
        "promise.get",
        "promise.create",
        "promise.settle",
        "promise.register_callback",
        "promise.register",
        "promise.register_listener",
        "promise.subscribe",
        "promise.search",
        "task.get",
        "task.acquire",
        "task.fence",
        "task.heartbeat",
        "task.start",
        "task.halt",
        "task.search",
        "task.cancel",
        "queue.get",
        "queue.set",
        "queue.pause",
        "queue.search",
        "schedule.get",
        "schedule.create",
        "schedule.search",
        "debug.snap",
    }
)


def is_repeatable(requests: Sequence[Request]) -> bool:
    """All of them: requests that were issued together are repeated together or not at all."""
    return all(request.kind in repeatable_kinds for request in requests)


def is_turned_away(reply: Reply) -> bool:
    """The node had no room or was on its way out, and says that it changed nothing."""
    return reply.status == 429 or _is(reply, Stopping)


def is_undecided(reply: Reply) -> bool:
    """The store failed, and the node does not know whether the commit took place."""
    return _is(reply, StoreUnavailable)


def _is(reply: Reply, refusal: type[Refusal]) -> bool:
    sentence = reply.data
    return (
        reply.status == refusal.status
        and isinstance(sentence, str)
        and sentence.endswith(f"[{refusal.code}]")
    )
