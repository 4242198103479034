"""Refusals: every way in which a request can be answered with something other than success.

Each class has a status of the wire and a stable code. The text that reaches the caller says what
happened, what to do about it, and the code to look up in docs/errors.md.
"""

from typing import ClassVar, Final


class HoldfastError(Exception):
    """The root of every error that Holdfast raises on purpose."""

    code: ClassVar[str] = "HF0000"


class Explained(HoldfastError):
    """An error that says what happened, what to do about it, and its code."""

    hint: ClassVar[str] = ""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}. {self.hint} [{self.code}]" if self.hint else f"{self.what}. [{self.code}]"


class Refusal(Explained):
    """A request that was understood well enough to be answered, and was not carried out."""

    status: ClassVar[int] = 400


class MalformedEnvelope(Refusal):
    code = "HF1000"
    hint = "Send an object with kind, head {corrId, version} and data."


class InvalidField(Refusal):
    code = "HF1001"
    hint = "docs/reference/protocol.md lists the fields and their limits."


class UnsupportedVersion(Refusal):
    code = "HF1002"
    hint = "Supported are 2026-04-01 and every earlier date, such as 2025-01-15."


class UnknownKind(Refusal):
    code = "HF1003"
    hint = "docs/reference/protocol.md lists the kinds of requests."


class DebugDisabled(Refusal):
    code = "HF1004"
    status = 403
    hint = "Start the node with debug enabled; never in production."


class PromiseMissing(Refusal):
    code = "HF1101"
    status = 404
    hint = "Check the id, or create the promise first."

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"There is no promise {promise_id!r}")


class TaskMissing(Refusal):
    code = "HF1102"
    status = 404
    hint = "A task exists exactly when its promise was created with a resonate:target tag."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"There is no task {task_id!r}")


class ScheduleMissing(Refusal):
    code = "HF1103"
    status = 404
    hint = "Check the id, or create the schedule first."

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"There is no schedule {schedule_id!r}")


class ClaimLost(Refusal):
    """The caller does not drive this task (any more). Not to be retried: stop instead."""

    code = "HF1201"
    status = 409
    hint = "Another worker holds it, or it is over: stop working on it, do not repeat the request."


class KeyConflict(Refusal):
    code = "HF1202"
    status = 409
    hint = "Another caller used this id for something else: choose another id, or use the same key."


class TaskRunning(Refusal):
    code = "HF1203"
    status = 409
    hint = "Wait for it to end, or cancel it with force."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"The task {task_id!r} is running")


class KeyTaken(Refusal):
    code = "HF1204"
    status = 409
    hint = "Wait for it to end, cancel it, or send with another onUnique."

    def __init__(self, unique: str, holder: str | None) -> None:
        who = "a task that is not yours" if holder is None else f"the task {holder!r}"
        super().__init__(f"The unique key {unique!r} is held by {who}")


class KeyBusy(Refusal):
    code = "HF1209"
    status = 409
    hint = 'Wait for it to end, cancel it, or start with overlap="wait" or "replace".'

    def __init__(self, key: str, holder: str | None) -> None:
        who = "that is not yours" if holder is None else repr(holder)
        super().__init__(f"An execution {who} with the key {key!r} is open in this queue")


class TaskOver(Refusal):
    code = "HF1205"
    status = 409
    hint = "A task that has ended cannot be changed; send it again as a new task."


class NotAJob(Refusal):
    """The task belongs to a workflow, and this is for plain background tasks; or the other way round."""

    code = "HF1206"
    status = 409
    hint = (
        "docs/reference/protocol.md says which requests are for background tasks and which are for workflows."
    )


class QueueGated(Refusal):
    code = "HF1207"
    status = 409
    hint = "Claim its tasks with task.claim, which keeps to the queue's limits."

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"The queue {queue!r} has limits or is paused, so its tasks cannot be acquired by id"
        )


class NotWaiting(Refusal):
    """The background task is claimed, runs, or is halted."""

    code = "HF1219"
    status = 409
    hint = "Only a waiting task can be rescheduled: let it end, cancel it, or continue it."


class MustWait(Refusal):
    """The one refusal that leaves a trace: the task was claimed and is pending again."""

    code = "HF1208"
    status = 409
    hint = "It has gone back to its queue; claim again later."


class CannotAwait(Refusal):
    code = "HF1301"
    status = 422
    hint = "Create both promises first; the awaiter needs a resonate:target tag, so that it can be woken."


class NoTask(Refusal):
    code = "HF1302"
    status = 422
    hint = "It was created without a resonate:target tag; use another id, or settle it directly."

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"The promise {promise_id!r} exists and has no task")


class NoSuchExecution(Refusal):
    """Nothing that runs was ever started under this id, or it has been deleted."""

    code = "HF1401"
    status = 404
    hint = "Check the id, or start it first."

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"There is no execution {execution_id!r}")


unanswered: Final = "has ended without an answer"  # of ExecutionOver, to whoever has asked


class ExecutionOver(Refusal):
    code = "HF1402"
    status = 409
    hint = "An execution that has ended receives no messages; start another one."

    def __init__(self, execution_id: str, how: str = "is over") -> None:
        super().__init__(f"The execution {execution_id!r} {how}")


class NotAsExpected(Refusal):
    code = "HF1403"
    status = 409
    hint = "Nothing was appended. Something else runs under this id: check the id, or leave `expect` out."


class StreamFull(Refusal):
    code = "HF1404"
    status = 409
    hint = "Nothing was appended. Wait until the execution has read more, or start another one."


class TooManyStreams(Refusal):
    code = "HF1405"
    status = 409
    hint = "Use fewer names, and put the differences into the elements."


class TooManyAnswers(Refusal):
    code = "HF1406"
    status = 409
    hint = "Nothing was appended. Wait until some of the questions are answered."


class NotItsStream(Refusal):
    code = "HF1407"
    status = 409
    hint = "Append to `in`, or from inside the execution: with task.fence, under its own claim."


class StuckExecution(Refusal):
    """Never refused with: the code of why an execution was halted."""

    code = "HF1408"
    status = 409
    hint = "Look at its error and at the log of its workers; when the cause is gone, resume it."


class LimitDiffers(Refusal):
    code = "HF1501"
    status = 409
    hint = "Use the same number everywhere. You can change it when no execution holds or wants the lock."


class LockFull(Refusal):
    code = "HF1502"
    status = 409
    hint = "Nothing was changed. Wait until fewer executions wait for it."


class LockDeadlock(Refusal):
    """Executions hold locks and wait for each other. One that waits for a lock in the ring is told."""

    code = "HF1503"
    status = 409
    hint = "Nothing was changed. Take locks in the same order everywhere, or release one and try again."


class NotItsTicket(Refusal):
    code = "HF1504"
    status = 409
    hint = "A lock is released by its holder; from outside, lock.release needs a reason."


class NotALock(Refusal):
    code = "HF1505"
    status = 409
    hint = "Somebody else has used the id of this lock for a promise: choose another name."

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"The promise {promise_id!r} is not the record of a lock")


class NoSuchLock(Refusal):
    code = "HF1506"
    status = 404
    hint = "Check the name. A lock exists from its first use until it is deleted after a long idle time."

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no lock {name!r}")


class TooManyShapes(Refusal):
    code = "HF1601"
    status = 409
    hint = "Nothing was changed. Use the same attributes in every wait, and compare the others in your code."


class TooManySubscriptions(Refusal):
    code = "HF1602"
    status = 409
    hint = "Nothing was changed. Let one workflow start the others."


class AlreadyExists(Refusal):
    code = "HF1701"
    status = 409
    hint = "Nothing was started. Choose another id, or another on_existing."

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"The id {execution_id!r} is taken")


class NotFailed(Refusal):
    code = "HF1702"
    status = 409
    hint = (
        "Only an execution that failed, timed out or was cancelled can be retried; fork it or start another."
    )


class HasCaller(Refusal):
    code = "HF1703"
    status = 409
    hint = "Its caller has seen how it ended: retry the caller, which retries this one too."

    def __init__(self, execution_id: str, caller: str) -> None:
        super().__init__(f"The execution {execution_id!r} was called by {caller!r}")


class WentOn(Refusal):
    code = "HF1704"
    status = 409
    hint = "A retry would ignore that work. Fork it, or start it again from the beginning."

    def __init__(self, execution_id: str, operation: str) -> None:
        super().__init__(f"After {execution_id!r} had failed, its code did more: {operation}")


class TooManyRecords(Refusal):
    code = "HF1705"
    status = 409
    hint = "Nothing was changed. Use another id."


class BeingDeleted(Refusal):
    code = "HF1706"
    status = 409
    hint = "It ended so long ago that its records are being deleted: start it again under another id."

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"The execution {execution_id!r} is being deleted")


class HasContinued(Refusal):
    code = "HF1708"
    status = 409
    hint = "Only its latest records are left, so it cannot be retried or forked. Start another one."

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"The execution {execution_id!r} has continued as new")


class NoSuchOperation(Refusal):
    code = "HF1707"
    status = 404
    hint = "Give the name of a step, or the id of an operation, that it has recorded."

    def __init__(self, execution_id: str, before: str) -> None:
        super().__init__(f"The execution {execution_id!r} has recorded no operation {before[:80]!r}")


class Overloaded(Refusal):
    code = "HF1901"
    status = 429
    hint = "Nothing was changed. Wait a moment and send it again."


class Stopping(Refusal):
    code = "HF1902"
    status = 503
    hint = "Nothing was changed. Send it again once the node is back, or to another node."


class InternalFault(Refusal):
    code = "HF1903"
    status = 500
    hint = (
        "Nothing was changed. This is a defect of Holdfast: please report it with the log around this time."
    )


class StoreUnavailable(Refusal):
    """The store refused the commit: disk full, I/O error, database away. The outcome is unknown."""

    code = "HF1904"
    status = 503
    hint = "The outcome is unknown: read the state back, or repeat the request, which is safe."


class AnswerTooLarge(Refusal):
    """One of many: the answers in front of it have taken all the room."""

    code = "HF1905"
    status = 503
    hint = (
        "It may have been carried out. Send it again, if it may be repeated, by itself or with fewer others."
    )


class AnswerLost(Refusal):
    """The answer could not be made. What it would have told of may be done."""

    code = "HF1906"
    status = 500
    hint = (
        "It may have been carried out: read the state back. This is a defect of Holdfast: please report it "
        "with the log around this time."
    )
