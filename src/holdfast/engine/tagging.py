"""execution.tag: an execution changes its own tags while it runs, by which people find it.

1. Only whoever holds it may, inside `task.fence`; so a replay, and a worker that has lost it, change nothing.
2. The tags that the protocol reads never change: where it runs, whose record it is.
3. The same tags again are the same tags: however often it is sent, it happens once.
"""

from msgspec.structs import replace

from holdfast.engine.view import promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.errors import InvalidField
from holdfast.protocol.records import Task
from holdfast.protocol.requests import ExecutionTag


def change_tags(data: ExecutionTag, task: Task, ws: WorkingSet) -> None:
    promise = promise_of(task, ws)
    entries = {name: text for name, text in promise.tags.items() if data.tags.get(name, text) is not None}
    entries |= {name: text for name, text in data.tags.items() if text is not None}
    if len(entries) > limits.entry_count_max:
        raise InvalidField(
            f"{task.id!r} would have {len(entries)} tags; the limit is {limits.entry_count_max}"
        )
    if entries != promise.tags:
        ws.put_again(replace(promise, tags=entries))
