"""Where and when something that is started or sent over `/v1` begins: read from the body of a request."""

from collections.abc import Sequence
from typing import Final, get_args

from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.jobs import KeyOverlap, check_queue
from holdfast.protocol.records import Millis
from holdfast.server.errors import BadManagementRequest
from holdfast.server.management.call import Call

default_group: Final = "default"


def span(call: Call, name: str) -> int | None:
    """A number of seconds, in milliseconds."""
    found: float | None = call.field(name, float | int)  # type: ignore[arg-type]
    if found is not None and not 0 <= found <= limits.instant_ms_max / 1000:
        raise BadManagementRequest(f"{name} must be a number of seconds, not {found!r}")
    return None if found is None else round(found * 1000)


def check_choice(call: Call, name: str, choices: Sequence[str]) -> str | None:
    found: str | None = call.field(name, str)
    if found is not None and found not in choices:
        raise BadManagementRequest(f"{name} must be one of {', '.join(choices)}")
    return found


def begins_at(call: Call, now: Millis) -> dict[str, str]:
    """The tag that says when it may begin, if that is not now."""
    delay_ms, at = span(call, "delay"), call.field("at", int)
    if delay_ms is not None and at is not None:
        raise BadManagementRequest("delay and at both say when it starts: give one of them")
    if delay_ms is not None:
        at = now + delay_ms
    return {} if at is None else {tags.DELAY: str(min(at, limits.instant_ms_max - 1))}


def place_of(call: Call) -> dict[str, str]:
    """The tags that say which workers are offered an execution, or where in a queue it waits for them."""
    queue, group = call.field("queue", str), call.field("group", str)
    key, overlap = call.field("limitKey", str), check_choice(call, "overlap", get_args(KeyOverlap))
    priority = call.field("priority", int, 0)
    found = {tags.PRIORITY: str(priority)} if priority else {}
    if queue is None:
        if key is not None or overlap is not None:
            raise BadManagementRequest("limitKey and overlap need a queue: give queue, too")
        return found | {tags.TARGET: target_of(group or default_group)}
    if group is not None:
        raise BadManagementRequest("queue and group both say who runs it: give one of them")
    check_queue(queue)
    return found | tags.queued(queue, key, overlap or "wait")  # type: ignore[arg-type]  # one of the choices
