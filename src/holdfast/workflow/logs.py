"""What a worker logs about executions and their steps.

1. Each failure is logged once, by whoever decides what follows it; a replay logs nothing.
2. WARNING: it will be tried again. ERROR: it will not be.
3. The message alone says which execution, which step and why: a script that configures no logging shows
   nothing else. The same is beside it as fields (`event`, `execution`, `workflow`, `step`, `promise`,
   `attempt`, `code`, `worker`), for whoever filters.
4. Ids, names and texts are those of users: what a terminal would obey is shown as its code, in the traceback
   too.
"""

import logging
from typing import Any, Final, Literal

from holdfast.payloads import error_values
from holdfast.protocol.failures import Failure, message_chars_max, traceback_chars_max
from holdfast.protocol.records import Millis
from holdfast.protocol.text import printable
from holdfast.runtime import Report, Trouble

log: Final = logging.getLogger("holdfast.worker")

said_chars_max: Final = 500

Event = Literal[
    "step failed",
    "failed",
    "halted",
    "given back",
    "lost",
    "taken over",
    "moved",
    "report",
    "refused",
    "set aside",
    "unread",
]


def tell(
    level: int, event: Event, message: str, error: BaseException | None = None, /, **fields: Any
) -> None:
    """Log a message with its fields; of an error the traceback too."""
    if not log.isEnabledFor(level):
        return
    shown = {
        name: printable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    shown["event"] = event
    file, line, function, _ = log.findCaller(stacklevel=2)
    told = None if error is None else (type(error), error, error_values.traceback_of(error))
    record = log.makeRecord(log.name, level, file, line, printable(message), (), told, function, shown)
    if error is not None:
        text = error_values.traceback_text(error).rstrip("\n")
        record.exc_text = "\n".join(map(printable, text.split("\n")))
    log.handle(record)


def said(error: BaseException) -> str:
    """The class of an error and the first line of what it says."""
    text = error_values.text_of(error).strip()
    first, more, _ = text.partition("\n")
    if more or len(first) > said_chars_max:
        first = f"{first[:said_chars_max]} ..."
    name = type(error).__name__
    return f"{name}: {first}" if first else name


def storable(text: str, bytes_max: int) -> str:
    """Text as the protocol takes it: without NUL and half characters, cut to a length in bytes."""
    raw = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace")
    return raw[:bytes_max].decode("utf-8", "ignore")


def code_of(error: BaseException) -> str:
    """What failures are grouped by: the code of an error that has one, else the name of its class."""
    code = error_values.code_of(error)
    return type(error).__name__ if code is None else code


def failure_of(attempt: int, at: Millis, error: Exception) -> Failure:
    """What is kept of a failed attempt: the first of what it says, and the last lines of its traceback."""
    bytes_max = 4 * message_chars_max
    message = storable(error_values.text_of(error)[:message_chars_max], bytes_max)
    trace = error_values.traceback_text(error)
    if len(trace) > traceback_chars_max:
        trace = f"...\n{trace[-traceback_chars_max:].partition(chr(10))[2]}"
    return Failure(
        attempt, at, error_values.failure_code(error), message, storable(trace, 4 * traceback_chars_max)
    )


def tell_step_failed(
    execution: str,
    workflow: str,
    worker: str,
    step: str,
    promise_id: str,
    attempt: int,
    error: Exception,
    delay_s: float | None,
) -> None:
    """`delay_s`: after which it is tried again; None if it is not."""
    what = f"step {step} of {workflow} {execution} failed in attempt {attempt}"
    follows = "will not be tried again" if delay_s is None else f"will be tried again in {delay_s:.3g} s"
    tell(
        logging.ERROR if delay_s is None else logging.WARNING,
        "step failed",
        f"{what} and {follows}: {said(error)}",
        error,
        execution=execution,
        workflow=workflow,
        worker=worker,
        step=step,
        promise=promise_id,
        attempt=attempt,
        code=code_of(error),
    )


def tell_report(execution: str, report: Report) -> None:
    """What the fibers of an execution did that a person should see. It changes no outcome."""
    level = logging.ERROR if report.trouble is Trouble.WOULD_NOT_CLOSE else logging.WARNING
    cause = "" if report.error is None else f": {said(report.error)}"
    where = f" at {report.where}" if report.where else ""
    message = f"{execution}: {report.trouble.value}: {report.fiber}{cause}{where}"
    code = None if report.error is None else code_of(report.error)
    tell(level, "report", message, report.error, execution=execution, code=code)
