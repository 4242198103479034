"""Every error about payloads, steps and their options, side by side.

Each has a stable code (docs/errors.md), a sentence that says what happened and one that says what to do.
`retryable` is what a retry policy is told: doing the same again would fail the same way, or not.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.protocol.errors import Explained, HoldfastError
from holdfast.runtime.errors import TimedOut


class WorkerError(Explained):
    """Something went wrong between your code and the durable records."""

    code = "HF5000"
    retryable: ClassVar[bool] = False


class UnencodablePayload(WorkerError):
    """A value cannot be written as JSON. The message names the place in the value and its type."""

    code = "HF5001"
    hint = (
        "Pass data: builtins, dataclasses, attrs, msgspec or pydantic models, datetimes, enums, UUIDs, "
        "Decimals, bytes. Open files and connections inside the step."
    )


class UndecodablePayload(WorkerError):
    """A stored payload is not what the annotation promises, or is not a payload at all."""

    code = "HF5002"
    hint = "Check the annotation against what was stored, and that both sides use the same codec."


class BadArguments(WorkerError):
    """A call does not fit the signature of the function it names."""

    code = "HF5003"
    hint = "Call it with the arguments of its signature."


class StepTimedOut(WorkerError, TimedOut):
    """One attempt of a step took longer than its time limit."""

    code = "HF5004"
    hint = "Give it a longer timeout, or make it faster."
    retryable = True


class StepCalledOff(WorkerError):
    """The result of this step is no longer needed. The reason is the `__cause__`."""

    code = "HF5005"


class StepExited(WorkerError):
    """A step raised SystemExit, KeyboardInterrupt or asyncio's CancelledError. That fails the step only."""

    code = "HF5006"
    hint = "Raise an ordinary exception instead."


class StepProcessDied(WorkerError):
    """The child process that ran a step ended before it answered."""

    code = "HF5007"
    hint = "Look for the out-of-memory killer, a crash in native code, or a kill from outside."
    retryable = True


class StepNotImportable(WorkerError):
    """A step for a child process must be a function that the child can import by name."""

    code = "HF5008"
    hint = "Define it at the top level of a module."


class StepsClosed(WorkerError):
    """A step was started on a runner that was closed."""

    code = "HF5009"


class BadDuration(WorkerError, ValueError):
    """A string, number or object that is not a duration."""

    code = "HF5010"
    hint = 'Write seconds as a number, or a string such as "1h30m", "2d", "250ms".'


class BadProgress(WorkerError, ValueError):
    """`hf.progress` was given something that is not progress."""

    code = "HF5024"
    hint = "Give a number from 0 to 1 and a few small fields of plain JSON: progress(0.4, rows=17)."


class BadRetry(WorkerError, ValueError):
    """A `Retry` whose options cannot be used, together or here, or something that is not a `Retry`."""

    code = "HF5011"


class BadEvent(WorkerError, ValueError):
    """An event, or a wait for one, with a name or attributes that cannot be used."""

    code = "HF5151"
    hint = "See docs/reference/events.md."


class BadTags(WorkerError, ValueError):
    """Tags that cannot be given to an execution or a promise."""

    code = "HF5013"
    hint = "Use your own names, texts as values, and at most 48 tags."


class BadStepOption(WorkerError, ValueError):
    """An option of a step that cannot be used."""

    code = "HF5014"


class BadId(WorkerError, ValueError):
    """An id that cannot be given to an execution or a promise, or a key that a message cannot have."""

    code = "HF5015"
    hint = "Use a string without NUL: an id of 1 to 1024 bytes, a key of 1 to 256; or leave it out."


class RemoteError(HoldfastError):
    """An error of another process whose class is not known here. Its traceback there is kept as text."""

    code = "HF5012"

    def __init__(self, message: str, type_name: str = "", remote_traceback: str = "") -> None:
        super().__init__(message, type_name, remote_traceback)
        self.message = message
        self.type_name = type_name
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.type_name else self.message


class OutOfReach(WorkerError, RuntimeError):
    """A child process cannot reach the store of the app. Nothing was sent or started."""

    code = "HF5220"
    hint = 'Use a store that other processes can open, send from the workflow, or leave out mode="process".'


class StartedByImport(WorkerError, RuntimeError):
    """A child process imports the module of a step or a task, and the import starts or sends something."""

    code = "HF5221"
    hint = 'Put what the program does below `if __name__ == "__main__":`, and leave declarations above it.'


class NoStoreHere(WorkerError):
    """A setting of the store was given to an app that talks to a server, and so has no store."""

    code = "HF5210"
    hint = "Use `holdfast serve --retention` there."


class BadSetting(WorkerError, ValueError):
    """A setting of an app that cannot be used."""

    code = "HF5211"


class BadHistory(WorkerError, ValueError):
    """The file or value to be replayed is not the exported history of an execution."""

    code = "HF5214"
    hint = "`holdfast history ID -o FILE` and `handle.history()` export one."


class AnotherLoop(WorkerError, RuntimeError):
    """A test world was used where another event loop is running."""

    code = "HF5020"
    hint = (
        "Write the test as a plain `def`: app.start(...).result() waits in virtual time, and "
        "world.run(...) runs a coroutine of yours."
    )


class ForgottenWorld(WorkerError, RuntimeError):
    """A test opened an app on its default store, ./holdfast.db."""

    code = "HF5021"
    hint = (
        "Open it in virtual time, on a store in memory: `def test_it(holdfast_world): holdfast_world(app)`. "
        'If you want a real store, name it: App("sqlite:///...") or HOLDFAST_URL.'
    )


class NotAWorld(WorkerError, AttributeError):
    """The fixture holdfast_world was used as if it were a world."""

    code = "HF5022"
    hint = "Write `world = holdfast_world(app)`, then `world.elapse(...)`."


class NotRecorded(WorkerError):
    """An operation could not be written down, so it has not happened."""

    code = "HF5108"
    hint = "Pass less data, or a reference to it; if the node refused it, its message says why."


class PayloadTooLarge(UnencodablePayload, NotRecorded):
    """A value is larger than one record may be. The size is that of its JSON, after the codec."""

    code = "HF5023"
    hint = "Pass less data, or a reference to it; a codec may compress it, or keep it elsewhere."
