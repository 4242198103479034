"""Classes of what Holdfast hands to a program, for annotations and for `match`. You do not construct them.

def show(handle: hf.types.Handle[int]) -> None: ...
"""

from holdfast.app import (
    Handle as Handle,
    Workflow as Workflow,
)
from holdfast.host.bulk import (
    BulkHandle as BulkHandle,
    BulkProgress as BulkProgress,
)
from holdfast.host.details import (
    ExecutionDetails as ExecutionDetails,
    MessageAside as MessageAside,
    OperationDetails as OperationDetails,
    WaitDetails as WaitDetails,
)
from holdfast.jobs.handle import (
    TaskHandle as TaskHandle,
)
from holdfast.jobs.info import (
    AttemptInfo as AttemptInfo,
    TaskInfo as TaskInfo,
)
from holdfast.jobs.schedule_handles import (
    ScheduleHandle as ScheduleHandle,
    ScheduleInfo as ScheduleInfo,
    SchedulePage as SchedulePage,
)
from holdfast.jobs.send_request import (
    SendError as SendError,
)
from holdfast.jobs.sending import (
    BackgroundTask as BackgroundTask,
)
from holdfast.payloads.durations import (
    Duration as Duration,
)
from holdfast.payloads.payloads import (
    Codec as Codec,
)
from holdfast.runtime import (
    Durable as Durable,
    Err as Err,
    Future as Future,
    Ok as Ok,
    Operation as Operation,
    Scope as Scope,
    Signal as Signal,
)
from holdfast.steps.info import (
    ExecutionInfo as ExecutionInfo,
    StepProgress as StepProgress,
)
from holdfast.steps.middleware import (
    Invocation as Invocation,
)
from holdfast.steps.providers import (
    Depends as Depends,
)
from holdfast.workflow.locks import (
    SharedLock as SharedLock,
)
from holdfast.workflow.messages import (
    Message as Message,
)
from holdfast.workflow.step_functions import (
    StepFunction as StepFunction,
)

__all__ = [
    "AttemptInfo",
    "BackgroundTask",
    "BulkHandle",
    "BulkProgress",
    "Codec",
    "Depends",
    "Durable",
    "Duration",
    "Err",
    "ExecutionDetails",
    "ExecutionInfo",
    "Future",
    "Handle",
    "Invocation",
    "Message",
    "MessageAside",
    "Ok",
    "Operation",
    "OperationDetails",
    "ScheduleHandle",
    "ScheduleInfo",
    "SchedulePage",
    "Scope",
    "SendError",
    "SharedLock",
    "Signal",
    "StepFunction",
    "StepProgress",
    "TaskHandle",
    "TaskInfo",
    "WaitDetails",
    "Workflow",
]
