"""What becomes of other executions of a key when one more is sent to its queue.

`wait`: nothing; the limits of the queue say how many go on at once. `reject`: the new one is refused while
another is open. `replace`: what has not begun is cancelled, and what has is asked to cancel itself, so that
it may clean up. The new one waits for its place like any other.
"""

from holdfast.engine.queue_lines import has_entered, line_name
from holdfast.engine.transitions import settle
from holdfast.engine.view import is_live, is_open, promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.address import claim_group
from holdfast.protocol.cancelling import cancel_creation, origin_of
from holdfast.protocol.errors import KeyBusy
from holdfast.protocol.ids import is_covered
from holdfast.protocol.records import NOTHING, Millis, Promise


def make_place(
    entries: dict[str, str], target: str | None, scope: str | None, ws: WorkingSet, now: Millis
) -> None:
    """See to it that an execution may be sent to its queue; raises KeyBusy if it may not."""
    spec = tags.place_of(entries) if entries and tags.QUEUE in entries else None
    if spec is None or spec.key is None or spec.overlap == "wait" or target is None:
        return
    named = ws.lines.placed(line_name(claim_group(target) or "", spec.key))
    others = [task for name in named if (task := ws.task(name)) is not None and is_open(task, now)]
    if not others:
        return
    shown = next((task.id for task in others if scope is None or is_covered(task.id, scope)), None)
    if spec.overlap == "reject" or len(named) > limits.replaced_max:
        raise KeyBusy(spec.key, shown)
    if scope is not None and not all(is_covered(task.id, scope) for task in others):
        raise KeyBusy(spec.key, None)
    for task in others:
        if has_entered(task):
            ask_to_cancel(promise_of(task, ws), ws, now)
        else:
            settle(promise_of(task, ws), "rejected_canceled", NOTHING, now, None, ws, now)


def ask_to_cancel(promise: Promise, ws: WorkingSet, now: Millis) -> None:
    """The promise beside it that asks is resolved, which wakes it."""
    wanted = cancel_creation(promise.id, origin_of(promise), promise.timeout_at)
    asked = ws.promise(wanted.id)
    if asked is None:
        asked = Promise(wanted.id, "pending", wanted.param, NOTHING, wanted.tags, wanted.timeout_at, now)
        ws.put_promise(asked)
    if is_live(asked, now):
        ws.awaiters(asked.id)  # they must be known before one is added
        ws.add_callback(asked.id, promise.id)
        settle(asked, "resolved", NOTHING, now, None, ws, now)
