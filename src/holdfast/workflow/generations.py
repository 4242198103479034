"""`continue_as_new`: an execution that goes on under its id, with new arguments and fresh records.

What is left behind when a generation ends is what is left behind when a workflow returns: fibers that still
run are dropped, steps that still run are called off, what was started goes on, what was called and is not
awaited goes on too. The next generation knows nothing of it.

1. The end of a generation and the begin of the next one are one commit (`engine/restart.py`). A crash
   before it repeats the end of the old one; after it the new one runs.
2. The new arguments are encoded where `continue_as_new` is called, so what cannot be encoded is told there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Promise, Value
from holdfast.runtime import Scheduler
from holdfast.runtime.diagnosis import find_exit
from holdfast.workflow.errors import BadStartOption

if TYPE_CHECKING:
    from holdfast.workflow.registry import WorkflowDefinition

kept_generations_max: Final = 1_000_000
BEGAN: Final = "holdfast:began"  # when a generation began, by the clock of its worker: where its time starts


class BoundCall(Struct, frozen=True):
    """What an execution runs: a workflow and its arguments."""

    name: str
    work: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    workflow: "WorkflowDefinition[..., Any] | None" = None
    keep_generations: int = 0


def read_keep(given: Any) -> int | None:
    """`keep_generations`, as somebody gave it."""
    if given is None:
        return None
    if type(given) is not int or not 0 <= given <= kept_generations_max:
        raise BadStartOption(
            f"keep_generations must be a number from 0 to {kept_generations_max:,}, not {given!r}"
        )
    return given


class ContinueAsNew(BaseException):
    """Ends the code of a generation. No `except Exception` sees it."""

    def __init__(self, param: Value) -> None:
        super().__init__("The execution continues as new")
        self.param = param


def find_continuation(scheduler: Scheduler) -> ContinueAsNew | None:
    """Has the code ended in order to go on as another generation?"""
    left_by = find_exit(scheduler.root)
    return left_by if isinstance(left_by, ContinueAsNew) else None


def begun_now(param: Value, now: int) -> Value:
    return Value({**(param.headers or {}), BEGAN: str(now)}, param.data)


def began_at(root: Promise) -> int:
    """Where the time of a generation starts."""
    if generation_of(root).number == 0:
        return root.created_at
    text = (root.value.headers or {}).get(BEGAN, "")
    return int(text) if text.isdecimal() else root.created_at
