"""`emit` and `publish`: what an execution shows while it runs, from its own code, its steps and its tasks.

1. In the code of a workflow each is a recorded operation, and the append is part of the same commit: a replay
   appends nothing.
2. In a step or a background task the appends are fenced by the claim and sent in the order of the calls
   (steps/emitter.py). A step that is performed again appends again, and its elements say so.
3. In a task that a workflow has called, the stream is that of the calling execution.
"""

from collections.abc import Generator, Sequence
from typing import Any, Literal, Protocol

from holdfast.payloads.messages import encode_message
from holdfast.protocol.requests import AppendAction, StreamAppend
from holdfast.runtime.slot import current as current_scheduler, slot
from holdfast.steps import child
from holdfast.steps.emitter import Emitted
from holdfast.steps.here import emitter_of, info_here, step_here
from holdfast.workflow.conversation import key_of
from holdfast.workflow.errors import NotRunning
from holdfast.workflow.messages import execution, named_stream
from holdfast.workflow.operations import Action, Note


class Emission(Protocol):
    """To be awaited, or used with `yield from`. It takes effect in any case."""

    def __await__(self) -> Generator[Any, Any, None]: ...
    def __iter__(self) -> Generator[Any, Any, None]: ...


def emit(name: str, value: Any) -> Emission:
    """Append a value to a stream of this execution, which anybody can read: `await hf.emit("tokens", chunk)`.

    In the code of a workflow it is appended once, whatever crashes. In a step or a task it is durable before
    the result is; a step that is performed again appends again, under another attempt. In a plain function
    call it without `await`. Raises `StepCalledOff` when the claim is lost.
    """
    return _append("emit", "out", name, value)


def publish(name: str, value: Any) -> Emission:
    """Set a value that anybody can look at, now and when the execution is over. The last one counts.

    Crash, steps and tasks: as `emit`.

    >>> await publish("stage", "packed")
    """
    return _append("publish", "value", name, value)


def _append(verb: str, kind: Literal["out", "value"], name: str, value: Any) -> Emission:
    stream = named_stream(kind, name)
    if slot.scheduler is not None:
        return _append_in_workflow(verb, stream, value)
    step, info = step_here(), info_here()
    emitter = None if step is None else emitter_of(step)
    if emitter is not None and info is not None:
        return emitter.put(stream, value, info.attempt)
    if child.is_child():
        child.emit(stream, value)
        return Emitted(None)
    raise NotRunning(f"{verb}({name!r}) was called outside of a workflow, a step and a task")


def _append_in_workflow(verb: str, stream: str, value: Any) -> Emission:
    found = execution()
    found.emits_to(stream)
    encoded = encode_message(found.worker_context.payloads, value)

    def effects(promise_id: str) -> Sequence[Action]:
        return [AppendAction(StreamAppend(found.id, stream, encoded, key_of(promise_id)))]

    note = Note(f"{verb} {stream}", lambda: None, args=(encoded.data,), effects=effects)
    return current_scheduler().issue(note)
