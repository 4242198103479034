"""What is answered: the data of every kind of reply, and the reply around it.

Fields that may be absent are left out, never null. `Reply.data` of a refusal is one sentence.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.protocol.events import Event
from holdfast.protocol.executions import ExecutionStatus, ExecutionView
from holdfast.protocol.jobs import QueueRecord, QueueView
from holdfast.protocol.locks import Lock
from holdfast.protocol.records import Millis, Promise, Schedule, TaskRef, TaskView
from holdfast.protocol.streams import Streams


class ReplyData(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The data of one successful reply."""


class Empty(ReplyData, frozen=True):
    pass


EMPTY: Final = Empty()


class PromiseReply(ReplyData, frozen=True):
    promise: Promise


class PromisesReply(ReplyData, frozen=True):
    promises: list[Promise]
    cursor: str | None = None


class TaskReply(ReplyData, frozen=True):
    task: TaskView


class TasksReply(ReplyData, frozen=True):
    tasks: list[TaskView]
    cursor: str | None = None


class TaskCreateReply(ReplyData, frozen=True):
    """Dialect B answers with the promise alone when there was a task already."""

    promise: Promise
    task: TaskView | None = None
    preload: list[Promise] | None = None
    cursor: str | None = None


class Invoked(ReplyData, frozen=True):
    invoked: Promise
    awaited: Promise | None = None


class AcquireReply(ReplyData, frozen=True):
    """The union of both dialects: `task, promise, preload` and `kind, data`.

    `cursor`: there are more promises to preload than fit, after this id. So in other preloads. `lapsed`, in a
    claim: who held the task last and let its lease lapse.
    """

    task: TaskView
    promise: Promise
    preload: list[Promise]
    kind: Literal["invoke", "resume"]
    data: Invoked
    cursor: str | None = None
    lapsed: str | None = None


class ClaimReply(ReplyData, frozen=True):
    """`next_at`: claim again then: a rate limit holds jobs back, or there were more than fit into an answer.
    `limited`: jobs wait for others to end."""

    tasks: list[AcquireReply]
    next_at: int | None = None
    limited: bool = False


class PreloadReply(ReplyData, frozen=True):
    preload: list[Promise]
    cursor: str | None = None


class FenceReply(ReplyData, frozen=True):
    action: "Envelope"
    preload: list[Promise]


class HeartbeatReply(ReplyData, frozen=True):
    lost: list[TaskRef] | None = None
    woken: list[TaskRef] | None = None


class ScheduleReply(ReplyData, frozen=True):
    schedule: Schedule


class SchedulesReply(ReplyData, frozen=True):
    schedules: list[Schedule]
    cursor: str | None = None


class BackfillReply(ReplyData, frozen=True):
    """The ids of the runs that were created; `next_at` is where to go on, if there may be more."""

    ids: list[str]
    next_at: Millis | None = None


class QueueReply(ReplyData, frozen=True):
    queue: QueueView


class QueuesReply(ReplyData, frozen=True):
    queues: list[QueueView]
    cursor: str | None = None


class StreamAppendReply(ReplyData, frozen=True):
    """The element, and the promise of its answer if one was asked for."""

    promise: Promise
    number: int
    answer: Promise | None = None


class StreamReply(ReplyData, frozen=True):
    """Elements from `number` on, and how many there are. After the last one of an execution that is `over`
    none will follow. `stream.next` may end with a promise that is pending: the next element."""

    promises: list[Promise]
    number: int
    count: int
    over: bool


class StreamsReply(ReplyData, frozen=True):
    """How many elements each stream has. `read`: so many of `in` were read by the execution."""

    streams: dict[str, int]
    read: int
    over: bool


class LockReply(ReplyData, frozen=True):
    lock: Lock


class LocksReply(ReplyData, frozen=True):
    locks: list[Lock]
    cursor: str | None = None


class EventReply(ReplyData, frozen=True):
    event: Event


class EventsReply(ReplyData, frozen=True):
    """Newest first. `count`: so many events of this name were sent."""

    events: list[Event]
    count: int


class ExecutionReply(ReplyData, frozen=True):
    execution: ExecutionView


class ExecutionsReply(ReplyData, frozen=True):
    executions: list[ExecutionView]
    cursor: str | None = None


class CountsReply(ReplyData, frozen=True):
    """`more`: of these statuses there are more than were counted, or may be."""

    counts: dict[ExecutionStatus, int]
    more: list[ExecutionStatus] = []


class TimeoutEntry(Struct, frozen=True):
    id: str
    timeout: int


class TaskTimeout(Struct, frozen=True):
    id: str
    type: Literal[0, 1]
    timeout: int


class CallbackView(Struct, frozen=True):
    awaiter: str
    awaited: str


class ListenerView(Struct, frozen=True):
    id: str
    address: str


class MessageView(Struct, frozen=True):
    address: str
    message: Any


class SnapReply(ReplyData, frozen=True):
    promises: list[Promise]
    promise_timeouts: list[TimeoutEntry]
    callbacks: list[CallbackView]
    listeners: list[ListenerView]
    tasks: list[TaskView]
    task_timeouts: list[TaskTimeout]
    schedules: list[Schedule]
    messages: list[MessageView]
    queues: list[QueueRecord] | None = None
    streams: list[Streams] | None = None


class ReplyHead(Struct, frozen=True, rename="camel", omit_defaults=True):
    corr_id: str
    status: int
    version: str
    code: str | None = None  # of a refusal


class Envelope(Struct, frozen=True):
    """A reply in the shape of the wire."""

    kind: str
    head: ReplyHead
    data: ReplyData | list[Any] | str


class Reply(Struct, frozen=True):
    """What the engine answers: a status, and data or (from 400 on) a sentence and the code of the refusal."""

    status: int
    data: ReplyData | list[Any] | str
    code: str | None = None
