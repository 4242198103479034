"""The deadline of an execution that is given time to clean up after it.

With the tag `holdfast:grace` an execution has two instants: so long before the timeout of its promise it is
asked to cancel itself, and at that timeout it is ended. Asking is what `engine/overlap.py` does for whoever
cancels it: the promise beside it that asks is resolved. Here that promise is a timer, made with the
execution, so the sweep rings it like any other.

1. It is made in the same commit as the execution, and again when the execution is retried.
2. Whoever asks before resolves it early. `asked_by_deadline` tells one from the other, forever.
3. Where something has its id already, nothing is made: the execution is ended at its timeout, as without.
"""

from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.cancelling import deadline_creation
from holdfast.protocol.records import NOTHING, Millis, Promise


def with_grace(deadline: Millis, promise: Promise) -> Millis:
    """When an execution like this one is ended, if it is to be over by then."""
    return min(deadline + (tags.grace_of(promise.tags) or 0), limits.instant_ms_max)


def set_deadline(promise: Promise, ws: WorkingSet, now: Millis) -> None:
    """The execution has begun, or begins again. Without a grace, its timeout is its deadline."""
    grace = tags.grace_of(promise.tags)
    if grace is None or promise.state != "pending":
        return
    wanted = deadline_creation(promise, grace)
    if ws.promise(wanted.id) is not None:
        return
    created_at = min(now, wanted.timeout_at)
    is_past = wanted.timeout_at <= now
    asked = Promise(
        wanted.id,
        "resolved" if is_past else "pending",
        wanted.param,
        NOTHING,
        wanted.tags,
        wanted.timeout_at,
        created_at,
        wanted.timeout_at if is_past else None,
    )
    ws.put_promise(asked)
    if not is_past:
        ws.add_callback(asked.id, promise.id)
