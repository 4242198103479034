"""What can be asked: the data of every kind of request, checked as it is built.

A request that exists is well formed: `__post_init__` checks what types cannot say, whether the request was
decoded from the wire or built by a caller in the same process. What depends on stored state is the
engine's business. `KINDS` maps every name on the wire, aliases included, to its data.
"""

from typing import Final

from msgspec import Struct

from holdfast.protocol.dialect import Dialect
from holdfast.protocol.requests.checks import RequestData
from holdfast.protocol.requests.debug import DebugReset, DebugSnap, DebugStart, DebugStop, DebugTick
from holdfast.protocol.requests.executions import (
    ExecutionCount,
    ExecutionFilter,
    ExecutionGet,
    ExecutionSearch,
)
from holdfast.protocol.requests.promises import (
    CreateAction,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSearch,
    PromiseSettle,
    RegisterAction,
    Settle,
    SettleAction,
)
from holdfast.protocol.requests.queues import QueueGet, QueuePause, QueueSearch, QueueSet
from holdfast.protocol.requests.schedules import (
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    SchedulePause,
    ScheduleSearch,
    ScheduleTrigger,
    ScheduleUpdate,
)
from holdfast.protocol.requests.streams import (
    AppendAction,
    NextAction,
    StreamAnswer,
    StreamAppend,
    StreamList,
    StreamNext,
    StreamRead,
)
from holdfast.protocol.requests.tasks import (
    ReleaseRetry,
    TaskAcquire,
    TaskCancel,
    TaskClaim,
    TaskContinue,
    TaskCreate,
    TaskFail,
    TaskFence,
    TaskFulfill,
    TaskGet,
    TaskHalt,
    TaskHeartbeat,
    TaskRelease,
    TaskReschedule,
    TaskSearch,
    TaskSnooze,
    TaskStart,
    TaskSuspend,
)

KINDS: Final[dict[str, type[RequestData]]] = {
    "promise.get": PromiseGet,
    "promise.create": PromiseCreate,
    "promise.settle": PromiseSettle,
    "promise.register_callback": PromiseRegisterCallback,
    "promise.register": PromiseRegisterCallback,
    "promise.register_listener": PromiseRegisterListener,
    "promise.subscribe": PromiseRegisterListener,
    "promise.search": PromiseSearch,
    "task.get": TaskGet,
    "task.create": TaskCreate,
    "task.acquire": TaskAcquire,
    "task.claim": TaskClaim,
    "task.start": TaskStart,
    "task.fail": TaskFail,
    "task.cancel": TaskCancel,
    "task.snooze": TaskSnooze,
    "task.reschedule": TaskReschedule,
    "task.release": TaskRelease,
    "task.fulfill": TaskFulfill,
    "task.suspend": TaskSuspend,
    "task.fence": TaskFence,
    "task.heartbeat": TaskHeartbeat,
    "task.halt": TaskHalt,
    "task.continue": TaskContinue,
    "task.search": TaskSearch,
    "execution.get": ExecutionGet,
    "execution.search": ExecutionSearch,
    "execution.count": ExecutionCount,
    "schedule.get": ScheduleGet,
    "schedule.create": ScheduleCreate,
    "schedule.delete": ScheduleDelete,
    "schedule.search": ScheduleSearch,
    "schedule.update": ScheduleUpdate,
    "schedule.pause": SchedulePause,
    "schedule.trigger": ScheduleTrigger,
    "schedule.backfill": ScheduleBackfill,
    "stream.append": StreamAppend,
    "stream.next": StreamNext,
    "stream.read": StreamRead,
    "stream.list": StreamList,
    "queue.get": QueueGet,
    "queue.set": QueueSet,
    "queue.pause": QueuePause,
    "queue.search": QueueSearch,
    "debug.start": DebugStart,
    "debug.stop": DebugStop,
    "debug.reset": DebugReset,
    "debug.snap": DebugSnap,
    "debug.tick": DebugTick,
}


class Request(Struct, frozen=True):
    """One request on its way to the engine: what is asked, by whom, in which dialect.

    `scope` is the prefix beyond which its caller may touch nothing. It never comes from the wire.
    """

    kind: str
    corr_id: str
    version: str
    dialect: Dialect
    data: RequestData
    debug_time: int | None = None
    auth: str | None = None
    scope: str | None = None


__all__ = [
    "KINDS",
    "AppendAction",
    "CreateAction",
    "DebugReset",
    "DebugSnap",
    "DebugStart",
    "DebugStop",
    "DebugTick",
    "ExecutionCount",
    "ExecutionFilter",
    "ExecutionGet",
    "ExecutionSearch",
    "NextAction",
    "PromiseCreate",
    "PromiseGet",
    "PromiseRegisterCallback",
    "PromiseRegisterListener",
    "PromiseSearch",
    "PromiseSettle",
    "QueueGet",
    "QueuePause",
    "QueueSearch",
    "QueueSet",
    "RegisterAction",
    "ReleaseRetry",
    "Request",
    "RequestData",
    "ScheduleBackfill",
    "ScheduleCreate",
    "ScheduleDelete",
    "ScheduleGet",
    "SchedulePause",
    "ScheduleSearch",
    "ScheduleTrigger",
    "ScheduleUpdate",
    "Settle",
    "SettleAction",
    "StreamAnswer",
    "StreamAppend",
    "StreamList",
    "StreamNext",
    "StreamRead",
    "TaskAcquire",
    "TaskCancel",
    "TaskClaim",
    "TaskContinue",
    "TaskCreate",
    "TaskFail",
    "TaskFence",
    "TaskFulfill",
    "TaskGet",
    "TaskHalt",
    "TaskHeartbeat",
    "TaskRelease",
    "TaskReschedule",
    "TaskSearch",
    "TaskSnooze",
    "TaskStart",
    "TaskSuspend",
]
