"""What is kept and logged of failed attempts: a little in the task's record, one line in the log.

1. Of each attempt that another one follows, the message and the end of its traceback are kept in the task's
   record, through the app's codec like everything else. That of the last one is the value of its promise.
2. Each failed attempt is logged once, when the node has taken it: WARNING if it will be tried again, ERROR if
   not. The message says which task and why; the same is beside it as fields.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.jobs.outcome import AttemptResult
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import Reply, TaskReply
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.tasks")

message_chars_max: Final = 500
trace_chars: Final = (2_000, 700, 0)  # as much of a traceback as fits, from its end


class AttemptTrouble(Struct, frozen=True):
    """What is known of a failed attempt, for a person."""

    message: str = ""
    traceback: str = ""


NO_TROUBLE: Final = AttemptTrouble()


def write_trouble(result: AttemptResult, payloads: Payloads) -> str | None:
    """The message and the end of the traceback, as the node keeps them."""
    message = (result.message or "")[:message_chars_max]
    trace = result.trace or ""
    for size in trace_chars:
        kept = AttemptTrouble(message, trace if len(trace) <= size else f"...\n{trace[len(trace) - size :]}")
        with suppress(Exception):  # a codec may have its own ideas; the attempt itself is told all the same
            data = payloads.encode({"message": kept.message, "traceback": kept.traceback}).data
            if data is not None and len(data) <= limits.job_error_bytes_max:
                return data
    return None


def read_trouble(data: str | None, payloads: Payloads) -> AttemptTrouble:
    """What was kept of an attempt."""
    if data is None:
        return NO_TROUBLE
    return _trouble(_decoded(Value(None, data), payloads))


def last_trouble(promise: Promise, payloads: Payloads) -> AttemptTrouble:
    """That of the last attempt, which is the value of its promise."""
    if promise.state != "rejected":
        return NO_TROUBLE
    stored = _decoded(promise.value, payloads)
    exception = stored.get("exception")
    trace = cast(Mapping[str, Any], exception).get("traceback") if isinstance(exception, Mapping) else None
    return _trouble({"message": stored.get("message"), "traceback": trace})


def _decoded(value: Value, payloads: Payloads) -> Mapping[str, Any]:
    with suppress(Exception):  # another codec, or somebody else's payload
        found: Any = payloads.decode(value)
        if isinstance(found, dict):
            return cast(dict[str, Any], found)
    return {}


def _trouble(found: Mapping[str, Any]) -> AttemptTrouble:
    texts = [text if isinstance(text := found.get(name), str) else "" for name in ("message", "traceback")]
    return AttemptTrouble(*texts)


def tell_failed(task_id: str, name: str, attempt: int, worker: str, end: AttemptResult, reply: Reply) -> None:
    """The node has taken a failure: what follows is in its reply."""
    job = reply.data.task.job if isinstance(reply.data, TaskReply) else None
    again_at = None if job is None or job.outcome is not None else job.next_retry_at
    follows = "will not be tried again" if again_at is None else "will be tried again"
    why = f": {end.message[:message_chars_max]}" if end.message else ""
    level = logging.ERROR if again_at is None else logging.WARNING
    if not log.isEnabledFor(level):
        return
    message = f"task {name} {task_id} failed in attempt {attempt} and {follows}: {end.code}{why}"
    fields = {
        "execution": printable(task_id),
        "task": printable(name),
        "attempt": attempt,
        "code": str(end.code),
        "worker": worker,
    }
    file, line, function, _ = log.findCaller(stacklevel=2)
    record = log.makeRecord(log.name, level, file, line, printable(message), (), None, function, fields)
    if end.trace:
        record.exc_text = "\n".join(map(printable, end.trace.rstrip().split("\n")))
    log.handle(record)
