"""Which requests may be sent a second time when the answer to the first one did not come.

A request is repeated only where the second one changes nothing that the first one has not, *and* is answered
as the first one was.

| kind | repeated | because |
|---|---|---|
| `*.get`, `*.search`, `*.count`, `debug.snap` | yes | they change nothing |
| `promise.create`, `promise.settle` | yes | idempotent by id: answered with what the first left |
| `promise.register_callback`, `promise.register_listener` | yes | a set: adding twice is adding once |
| `task.acquire` | yes | the same corrId, pid and version get the same answer while the lease lasts |
| `task.fence` | yes | its action is idempotent, and the version guards it; but for an append without a key |
| `stream.append` | with a key | the same key gets the same element; without one the second appends another |
| `stream.next`, `.read`, `.list` | yes | the promise of an element is created once; reading changes nothing |
| `task.restart` | yes | the second finds the generation begun that it asks for |
| `event.send` | with an id | under one id an event is sent once |
| `event.search`, `.subscribe`, `.unsubscribe` | yes | the second finds done what it asks for |
| `lock.get`, `.search`, `.release` | yes | a ticket is released once; the second finds it gone |
| `task.heartbeat`, `task.start`, `task.halt` | yes | the second finds done what it asks for |
| `schedule.create`, `schedule.backfill` | yes | idempotent by id: of the schedule, of each run |
| `schedule.update`, `schedule.pause` | yes | the second finds done what it asks for |
| `schedule.trigger` | no | the second makes another run |
| `task.cancel`, `queue.set`, `queue.pause` | yes | the second finds done what it asks for |
| `task.reschedule` | yes | the second finds done what it asks for, or a little later |
| `task.release`, `.suspend`, `.fulfill`, `.fail`, `.snooze` | no | the second gets 409: the claim is lost |
| `task.create` | no | the second gets 409 although this process holds the task |
| `task.claim` | no | the second claims other tasks |
| `task.continue`, `schedule.delete` | no | the second gets 409 or 404 |
| `execution.cancel`, `.retry`, `.fork` | yes | the second finds done what it asks for |
| `execution.start` | with `ikc`, or with `return` | it is answered with what the first one started |
| `debug.start`, `.stop`, `.reset`, `.tick` | no | they are steps of a test, which wants to know |
"""

from typing import Final

from holdfast.protocol.requests import (
    AppendAction,
    ContinueAction,
    EventSend,
    ExecutionStart,
    Request,
    SendAction,
    StreamAppend,
    TaskFence,
)

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
        "task.restart",
        "task.heartbeat",
        "task.start",
        "task.halt",
        "task.search",
        "task.cancel",
        "task.reschedule",
        "stream.append",
        "stream.next",
        "stream.read",
        "stream.list",
        "event.send",
        "event.search",
        "event.subscribe",
        "event.unsubscribe",
        "lock.get",
        "lock.search",
        "lock.release",
        "queue.get",
        "queue.set",
        "queue.pause",
        "queue.search",
        "execution.get",
        "execution.search",
        "execution.count",
        "execution.start",
        "execution.cancel",
        "execution.retry",
        "execution.fork",
        "schedule.get",
        "schedule.create",
        "schedule.search",
        "schedule.update",
        "schedule.pause",
        "schedule.backfill",
        "debug.snap",
    }
)


def may_be_repeated(request: Request) -> bool:
    data = request.data
    if isinstance(data, TaskFence) and isinstance(data.action, AppendAction | SendAction):
        data = data.action.data
    if isinstance(data, StreamAppend):
        return request.kind in repeatable_kinds and data.key is not None
    if isinstance(data, EventSend):
        return request.kind in repeatable_kinds and data.id is not None
    if isinstance(data, ExecutionStart):
        return data.on_existing in (None, "return") or data.action.data.ikc is not None
    if isinstance(data, TaskFence) and isinstance(data.action, ContinueAction):
        return False
    return request.kind in repeatable_kinds
