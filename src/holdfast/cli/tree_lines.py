"""One line of `holdfast tree`: the state, what was called, how long it took, what is wrong with it."""

from collections.abc import Sequence
from typing import Any, Final, cast

from holdfast.cli.durations import format_duration
from holdfast.cli.output import brief, shown_halt
from holdfast.cli.payloads import called_function, decode_payload
from holdfast.protocol import tags
from holdfast.protocol.failures import Tried, read_failures
from holdfast.protocol.operations import Ran
from holdfast.protocol.records import Millis, Promise, TaskView, Value
from holdfast.protocol.replies import StreamsReply
from holdfast.protocol.streams import MAILBOX
from holdfast.workflow.journal import LABEL, aside_id

SIGNS: Final = {
    "pending": "…",
    "halted": "!",
    "resolved": "✓",
    "rejected": "✗",
    "rejected_canceled": "⊘",
    "rejected_timedout": "⏱",
}
error_chars_max: Final = 200


def label(
    promise: Promise,
    task: TaskView | None,
    now: Millis,
    tries: Sequence[Promise] | None = None,
    *,
    tells_worker: bool = True,
) -> str:
    ran = Ran.of(promise)
    state = _state(promise, task)
    words = [SIGNS["halted" if state == "halted" else promise.state], promise.id, role(promise)]
    if state != "resolved":
        words.append(state.removeprefix("rejected_"))
    words.append(_age_of_halt(task, now) if state == "halted" else _took(promise, ran, now))
    line = " ".join(filter(None, words))
    if attempts := _attempts(task, ran):
        line += f", {attempts} attempts"
    if worker := _worker(promise, task, ran if tells_worker else None):
        line += f" on {worker}"
    if promise.state == "pending" and tries:
        return line + tried_words(tries, now)
    if promise.state == "rejected" and (error := error_line(promise.value)):
        return f"{line}: {error}"
    if state == "halted" and (halt := shown_halt(task)):
        return f"{line}: {halt}"
    return line


def tried_words(tries: Sequence[Promise], now: Millis) -> str:
    """Of a step that is under way: how often it has failed, when it is tried again, and the last error."""
    last, tried = tries[-1], Tried.of(tries[-1])
    words = (
        ""
        if tried is None
        else f", {tried.attempts} {'attempts' if tried.attempts > 1 else 'attempt'} failed"
    )
    if last.state == "pending":
        words += f", again in {format_duration(max(0, last.timeout_at - now))}"
    failures = read_failures(decode_payload(last.param))
    if failures:
        error = f"{failures[-1].code}: {failures[-1].message}".split("\n", 1)[0]
        words += f": {brief(error, error_chars_max)}"
    return words


def stream_lines(streams: StreamsReply | None) -> list[str]:
    """How many messages it got and has read, and how much it emitted and published."""
    if streams is None:
        return []
    return [
        f"≡ {name}: {count} {'messages' if count != 1 else 'message'}, {streams.read} read"
        if name == MAILBOX
        else f"≡ {name}: {count}"
        for name, count in streams.streams.items()
    ]


def _state(promise: Promise, task: TaskView | None) -> str:
    """That of the task says more, as long as there is something to do."""
    if promise.state != "pending" or task is None or task.state == "fulfilled":
        return promise.state
    if task.job is not None and task.state != "halted":
        return task.job.status.lower()
    return "running" if task.state == "acquired" else task.state


def _age_of_halt(task: TaskView | None, now: Millis) -> str:
    halted = None if task is None else task.halted
    return "" if halted is None else f"{format_duration(max(0, now - halted.at))} ago"


def _took(promise: Promise, ran: Ran | None, now: Millis) -> str:
    if ran is not None:
        return format_duration(ran.took_ms)
    took = (promise.settled_at or now) - promise.created_at
    # What is created and settled in one write (a note, a mark) took no time that anybody could know.
    return "" if promise.settled_at is not None and took == 0 else format_duration(took)


def _attempts(task: TaskView | None, ran: Ran | None) -> int:
    """How many, where there is more to say than that there was one."""
    count = ran.attempts if ran is not None else len(task.job.attempts) if task and task.job else 0
    return count if count > 1 else 0


def _worker(promise: Promise, task: TaskView | None, ran: Ran | None) -> str | None:
    if ran is not None:
        return ran.worker
    if task is None:
        return None
    return task.pid if task.job is None else task.job.claimed_by


def error_line(value: Value) -> str | None:
    """The first line of an error, stored as every SDK stores it; None where it is not readable."""
    found: Any = decode_payload(value)
    if isinstance(found, dict):
        fields = cast(dict[str, Any], found)
        name = fields.get("code") if "exception" in fields or "data" in fields else fields.get("name")
        message = fields.get("message")
        text = ": ".join(part for part in (name, message) if isinstance(part, str) and part)
    elif isinstance(found, str) and found != value.data:  # without base64 it is something encrypted
        text = found
    else:
        return None
    return brief(text.split("\n", 1)[0], error_chars_max) or None


def role(promise: Promise) -> str:
    """What kind of call made it, and of which function."""
    if label := (promise.param.headers or {}).get(LABEL):
        return f"({label})"
    if promise.id.endswith(aside_id("")):
        return "(message set aside)"
    func = called_function(promise.param)
    if tags.is_timer(promise.tags):
        return "(sleep)"
    if tags.TARGET in promise.tags:
        root = promise.tags.get(tags.PARENT, promise.id) == promise.id
        return f"({'' if root else 'rpc '}{func or promise.tags[tags.TARGET]})"
    if promise.tags.get(tags.SCOPE) == "local":
        return f"(run {func})" if func else "(run)"
    return "(promise)"
