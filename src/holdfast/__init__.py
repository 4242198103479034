"""Durable execution for Python: functions that survive the death of the process that runs them.

    import holdfast as hf

    app = hf.App()

    @app.workflow
    async def checkout(order: Order) -> Receipt:
        return await hf.run(charge, order.card, order.total)

Every name here is loaded when it is first used, so the import itself costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.app import App as App, Handle as Handle
    from holdfast.client.errors import (
        ClientClosed as ClientClosed,
        ClientError as ClientError,
        Refused as Refused,
    )
    from holdfast.protocol.errors import HoldfastError as HoldfastError
    from holdfast.runtime import (
        Cancelled as Cancelled,
        Channel as Channel,
        Deadlock as Deadlock,
        Durable as Durable,
        Failed as Failed,
        Future as Future,
        Local as Local,
        NotAwaited as NotAwaited,
        NotInFiber as NotInFiber,
        Ok as Ok,
        Operation as Operation,
        Queue as Queue,
        Scope as Scope,
        Selected as Selected,
        Semaphore as Semaphore,
        Signal as Signal,
        Task as Task,
        TaskInterrupted as TaskInterrupted,
        TimedOut as TimedOut,
        Timeout as Timeout,
        all_settled as all_settled,
        any_of as any_of,
        as_completed as as_completed,
        current_task as current_task,
        gather as gather,
        map_over as map_over,
        named as named,
        operation as operation,
        race as race,
        scope as scope,
        scoped as scoped,
        select as select,
        shield as shield,
        spawn as spawn,
        step_signal as step_signal,
    )
    from holdfast.tasks.codes import (
        ContractCode as ContractCode,
        OperationalCode as OperationalCode,
        OutcomeCode as OutcomeCode,
        RetrievalCode as RetrievalCode,
        SendCode as SendCode,
    )
    from holdfast.tasks.errors import (
        BadCode as BadCode,
        BadOption as BadOption,
        BadPolicy as BadPolicy,
        CannotCancel as CannotCancel,
        CannotRerun as CannotRerun,
        DuplicateTask as DuplicateTask,
        NoSuchOutcome as NoSuchOutcome,
        TaskNotFound as TaskNotFound,
        UnknownTask as UnknownTask,
    )
    from holdfast.tasks.handle import TaskHandle as TaskHandle
    from holdfast.tasks.info import AttemptInfo as AttemptInfo, TaskInfo as TaskInfo
    from holdfast.tasks.order import SendError as SendError
    from holdfast.tasks.policy import RetryPolicy as RetryPolicy
    from holdfast.tasks.result import Err as Err, TaskError as TaskError, TaskResult as TaskResult
    from holdfast.tasks.sending import BackgroundTask as BackgroundTask
    from holdfast.tasks.status import TASK_TERMINAL_STATES as TASK_TERMINAL_STATES, TaskStatus as TaskStatus
    from holdfast.tasks.steering import TaskQueue as TaskQueue
    from holdfast.unawaited import ClosedTooSoon as ClosedTooSoon
    from holdfast.worker.durations import Duration as Duration
    from holdfast.worker.errors import (
        BadArguments as BadArguments,
        BadId as BadId,
        BadTags as BadTags,
        RemoteError as RemoteError,
        StepTimedOut as StepTimedOut,
        UndecodablePayload as UndecodablePayload,
        UnencodablePayload as UnencodablePayload,
    )
    from holdfast.worker.execution_errors import (
        BadProvider as BadProvider,
        CallCanceled as CallCanceled,
        CallTimedOut as CallTimedOut,
        DuplicateWorkflow as DuplicateWorkflow,
        NotAWorkflow as NotAWorkflow,
        NotProvided as NotProvided,
        NotRecorded as NotRecorded,
        ReplayMismatch as ReplayMismatch,
        UnknownWorkflow as UnknownWorkflow,
    )
    from holdfast.worker.functions import (
        call as call,
        cancel as cancel,
        current as current,
        detach as detach,
        logger as logger,
        now as now,
        patched as patched,
        promise as promise,
        random as random,
        run as run,
        sleep as sleep,
        start as start,
        timeout as timeout,
        uuid as uuid,
        within as within,
    )
    from holdfast.worker.info import ExecutionInfo as ExecutionInfo
    from holdfast.worker.payload import Codec as Codec
    from holdfast.worker.providers import Depends as Depends, provided as provided
    from holdfast.worker.registry import Workflow as Workflow
    from holdfast.worker.retry import GiveUp as GiveUp, Retry as Retry, RetryAfter as RetryAfter
    from holdfast.worker.steps import current_attempt as current_attempt

_homes = {
    "holdfast.app": "App Handle",
    "holdfast.client.errors": "ClientError ClientClosed Refused",
    "holdfast.protocol.errors": "HoldfastError",
    "holdfast.runtime": (
        "Cancelled Channel Deadlock Durable Failed Future Local NotAwaited NotInFiber Ok Operation Queue "
        "Scope Selected Semaphore Signal Task TaskInterrupted TimedOut Timeout all_settled any_of "
        "as_completed current_task gather map_over named operation race scope scoped select shield "
        "spawn step_signal"
    ),
    "holdfast.tasks.codes": "ContractCode OperationalCode OutcomeCode RetrievalCode SendCode",
    "holdfast.tasks.errors": (
        "BadCode BadOption BadPolicy CannotCancel CannotRerun DuplicateTask NoSuchOutcome TaskNotFound "
        "UnknownTask"
    ),
    "holdfast.tasks.handle": "TaskHandle",
    "holdfast.tasks.info": "AttemptInfo TaskInfo",
    "holdfast.tasks.order": "SendError",
    "holdfast.tasks.policy": "RetryPolicy",
    "holdfast.tasks.result": "Err TaskError TaskResult",
    "holdfast.tasks.sending": "BackgroundTask",
    "holdfast.tasks.status": "TASK_TERMINAL_STATES TaskStatus",
    "holdfast.tasks.steering": "TaskQueue",
    "holdfast.unawaited": "ClosedTooSoon",
    "holdfast.worker.durations": "Duration",
    "holdfast.worker.errors": (
        "BadArguments BadId BadTags RemoteError StepTimedOut UndecodablePayload UnencodablePayload"
    ),
    "holdfast.worker.execution_errors": (
        "BadProvider CallCanceled CallTimedOut DuplicateWorkflow NotAWorkflow NotProvided NotRecorded "
        "ReplayMismatch UnknownWorkflow"
    ),
    "holdfast.worker.functions": (
        "call cancel current detach logger now patched promise random run sleep start timeout uuid within"
    ),
    "holdfast.worker.info": "ExecutionInfo",
    "holdfast.worker.payload": "Codec",
    "holdfast.worker.providers": "Depends provided",
    "holdfast.worker.registry": "Workflow",
    "holdfast.worker.retry": "GiveUp Retry RetryAfter",
    "holdfast.worker.steps": "current_attempt",
}
_home_of = {name: module for module, names in _homes.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _home_of:
        raise AttributeError(f"holdfast has no {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_home_of[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(_home_of)
