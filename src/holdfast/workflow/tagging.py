"""`hf.tag`: an execution changes its own tags, by which it is found."""

from collections.abc import Sequence

from holdfast.payloads.user_tags import check_user_tags
from holdfast.protocol.requests import ExecutionTag, TagAction
from holdfast.runtime.slot import current as current_scheduler, slot
from holdfast.workflow.emitting import Emission
from holdfast.workflow.errors import NotRunning
from holdfast.workflow.messages import execution
from holdfast.workflow.operations import Action, Note


def tag(**tags: str | None) -> Emission:
    """Change tags of this execution: `await hf.tag(stage="packed", owner=None)` sets one and removes another.

    They are seen by `handle.info()` and found by `app.find(tags={"stage": "packed"})`. It happens once,
    whatever crashes: it is recorded, and a worker that has lost the execution changes nothing. For the code
    of a workflow; a step has nothing to record it with.

    >>> await tag(stage="packed")
    """
    if slot.scheduler is None:
        raise NotRunning("tag() was called outside of the code of a workflow")
    check_user_tags({name: text or "" for name, text in tags.items()})

    execution_id = execution().id

    def effects(_: str) -> Sequence[Action]:
        return [TagAction(ExecutionTag(execution_id, dict(tags)))] if tags else []

    return current_scheduler().issue(Note("tag", lambda: None, args=(tags,), effects=effects))
