"""Sentences about code that does not do what was recorded: both sides, the fiber, the file and the line."""

from collections.abc import Callable, Mapping
from inspect import unwrap
from reprlib import Repr
from typing import Any, Final

from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Promise
from holdfast.runtime import Scheduler
from holdfast.runtime.driver import Origin
from holdfast.workflow.operations import DurableOperation

named_max: Final = 5
arguments_max: Final = 160
_short: Final = Repr()
_short.maxstring = _short.maxother = 60


def arguments_in_words(operation: DurableOperation, record: Promise, payloads: Payloads) -> str:
    """What it was given then, where that is kept, and what it is given now."""
    if payloads.is_coded:  # what nobody shall read in the store is not for the log either
        return "was recorded with other arguments than it is given now"
    try:
        then = operation.recorded_arguments(record, payloads)
        if isinstance(then, tuple):
            then = _shown(*then)
        now = _shown(*operation.arguments)
    except Exception as error:  # a value that cannot be shown must not become the fault
        return f"was recorded with other arguments than it is given now ({type(error).__name__})"
    was = "was recorded with other arguments" if then is None else f"was recorded with {then}"
    return f"{was}; now it is given {now}"


def _shown(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    given = [_short.repr(value) for value in args]
    given += [f"{name}={_short.repr(value)}" for name, value in kwargs.items()]
    text = ", ".join(given)
    return f"({text if len(text) <= arguments_max else text[:arguments_max] + '...'})"


def now_in_words(
    scheduler: Scheduler,
    asked: Mapping[str, DurableOperation],
    last: tuple[str, str, Origin] | None,
    work: Callable[..., Any],
) -> str:
    """Where the code is. `asked`: what it waits for; `last`: the operation that was compared last."""
    if not scheduler.done or scheduler.deadlock is not None:
        return _wait_in_words(scheduler, asked)
    return _end_in_words(scheduler, None if last is None else "{} ({!r}, {})".format(*last), work)


def _end_in_words(scheduler: Scheduler, last: str | None, work: Callable[..., Any]) -> str:
    """Where the code ended: where it raised; else which operation was its last; else which code it is."""
    failure = scheduler.failure()
    if failure is not None:
        return f"now the code ends before it with {failure}"
    if last is not None:
        return f"now the code ends before it, after {last}"
    code = getattr(unwrap(work), "__code__", None)
    where = "" if code is None else f' (File "{code.co_filename}", line {code.co_firstlineno})'
    return f"now the code ends and has asked for nothing{where}"


def _wait_in_words(scheduler: Scheduler, asked: Mapping[str, DurableOperation]) -> str:
    waits = [f"{key} ({operation.label!r})" for key, operation in asked.items()]
    places = [str(place) for place in scheduler.places()]
    return (
        f"now the code waits for {', '.join(waits[:named_max]) or 'nothing'}"
        f" ({'; '.join(places[:named_max]) or 'nowhere'})"
    )
