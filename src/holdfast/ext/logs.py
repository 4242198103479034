"""Fields for log records: which execution, workflow, step, task and attempt the code that logs is part of.

    handler.addFilter(LogFields())                                            # the standard library
    structlog.configure(processors=[structlog_fields, ...])                   # structlog
    loguru.logger.configure(patcher=loguru_fields)                            # loguru

A filter and not a record factory: a field that a record has already, by `extra=`, is left as it is.

In the code of a workflow there are fields too; but a replay logs again. `hf.logger` does not.
"""

import logging
from collections.abc import MutableMapping
from typing import Any

from holdfast.runtime.slot import slot
from holdfast.steps.here import info_here
from holdfast.workflow.functions import current


def fields() -> dict[str, Any]:
    """`execution`, `workflow` (or `task`), `step` and `attempt`, as far as there are any here."""
    if slot.scheduler is None and info_here() is None:
        return {}
    try:
        info = current()
    except RuntimeError:  # fibers without an execution
        return {}
    if info.step is not None:
        return {
            "execution": info.id,
            "workflow": info.workflow,
            "step": info.step,
            "attempt": info.attempt,
        }
    name = "workflow" if slot.scheduler is not None else "task"
    return {"execution": info.id, name: info.workflow, "attempt": info.attempt}


class LogFields(logging.Filter):
    """Adds the fields to every record that passes. It lets everything pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in fields().items():
            if name not in record.__dict__:
                setattr(record, name, value)
        return True


def structlog_fields(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog."""
    for name, value in fields().items():
        event.setdefault(name, value)
    return event


def loguru_fields(record: Any) -> None:
    """A patcher of loguru: the fields are in `extra`."""
    for name, value in fields().items():
        record["extra"].setdefault(name, value)
