"""`hf.progress`: a step or a background task says how far it has come."""

from typing import Any

from holdfast.runtime.slot import slot
from holdfast.steps import child
from holdfast.steps.here import emitter_of, step_here
from holdfast.steps.progress import check_progress
from holdfast.workflow.errors import NotRunning


def progress(fraction: float | None = None, /, **fields: Any) -> None:
    """Say how far this step or background task has come, and what the next attempt should know.

    `fraction` is from 0 to 1; `fields` are plain JSON. It is shown by `handle.info()`, the command line and
    the console. Call it as often as you like: it returns at once, and about one report a second is kept.
    Crash: the next attempt finds the last report that was kept in `hf.current().progress`, up to a second
    old. Once the step has succeeded, its progress is gone. Never raises because a report could not be sent.

    >>> def load(rows):
    ...     done = progress_here.fields["rows"] if (progress_here := current().progress) else 0
    ...     for number, row in enumerate(rows[done:], done + 1):
    ...         insert(row)
    ...         progress(number / len(rows), rows=number)
    """
    if slot.scheduler is None:
        step = step_here()
        emitter = None if step is None else emitter_of(step)
        if emitter is not None:
            emitter.report(fraction, fields)
            return
        if child.is_child():
            check_progress(fraction, fields)
            child.report(fraction, fields)
            return
    where = "the code of a workflow" if slot.scheduler is not None else "code that is no step and no task"
    raise NotRunning(f"progress() was called in {where}: it is for steps and background tasks")
