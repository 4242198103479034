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
    from holdfast.app import App as App
    from holdfast.app import Handle as Handle
    from holdfast.client.errors import ClientClosed as ClientClosed
    from holdfast.client.errors import ClientError as ClientError
    from holdfast.protocol.errors import HoldfastError as HoldfastError
    from holdfast.runtime import (
        Cancelled as Cancelled,
    )
    from holdfast.runtime import (
        Channel as Channel,
    )
    from holdfast.runtime import (
        Deadlock as Deadlock,
    )
    from holdfast.runtime import (
        Durable as Durable,
    )
    from holdfast.runtime import (
        Failed as Failed,
    )
    from holdfast.runtime import (
        Future as Future,
    )
    from holdfast.runtime import (
        Local as Local,
    )
    from holdfast.runtime import (
        NotAwaited as NotAwaited,
    )
    from holdfast.runtime import (
        NotInFiber as NotInFiber,
    )
    from holdfast.runtime import (
        Ok as Ok,
    )
    from holdfast.runtime import (
        Operation as Operation,
    )
    from holdfast.runtime import (
        Queue as Queue,
    )
    from holdfast.runtime import (
        Scope as Scope,
    )
    from holdfast.runtime import (
        Selected as Selected,
    )
    from holdfast.runtime import (
        Semaphore as Semaphore,
    )
    from holdfast.runtime import (
        Signal as Signal,
    )
    from holdfast.runtime import (
        Task as Task,
    )
    from holdfast.runtime import (
        TaskInterrupted as TaskInterrupted,
    )
    from holdfast.runtime import (
        TimedOut as TimedOut,
    )
    from holdfast.runtime import (
        Timeout as Timeout,
    )
    from holdfast.runtime import (
        all_settled as all_settled,
    )
    from holdfast.runtime import (
        any_of as any_of,
    )
    from holdfast.runtime import (
        as_completed as as_completed,
    )
    from holdfast.runtime import (
        current_task as current_task,
    )
    from holdfast.runtime import (
        gather as gather,
    )
    from holdfast.runtime import (
        map_over as map_over,
    )
    from holdfast.runtime import (
        named as named,
    )
    from holdfast.runtime import (
        operation as operation,
    )
    from holdfast.runtime import (
        race as race,
    )
    from holdfast.runtime import (
        scope as scope,
    )
    from holdfast.runtime import (
        scoped as scoped,
    )
    from holdfast.runtime import (
        select as select,
    )
    from holdfast.runtime import (
        shield as shield,
    )
    from holdfast.runtime import (
        spawn as spawn,
    )
    from holdfast.runtime import (
        step_signal as step_signal,
    )
    from holdfast.session import Refused as Refused
    from holdfast.tasks.codes import (
        ContractCode as ContractCode,
    )
    from holdfast.tasks.codes import (
        OperationalCode as OperationalCode,
    )
    from holdfast.tasks.codes import (
        OutcomeCode as OutcomeCode,
    )
    from holdfast.tasks.codes import (
        RetrievalCode as RetrievalCode,
    )
    from holdfast.tasks.codes import (
        SendCode as SendCode,
    )
    from holdfast.tasks.errors import (
        BadCode as BadCode,
    )
    from holdfast.tasks.errors import (
        BadOption as BadOption,
    )
    from holdfast.tasks.errors import (
        BadPolicy as BadPolicy,
    )
    from holdfast.tasks.errors import (
        CannotCancel as CannotCancel,
    )
    from holdfast.tasks.errors import (
        CannotRerun as CannotRerun,
    )
    from holdfast.tasks.errors import (
        DuplicateTask as DuplicateTask,
    )
    from holdfast.tasks.errors import (
        NoSuchOutcome as NoSuchOutcome,
    )
    from holdfast.tasks.errors import (
        TaskNotFound as TaskNotFound,
    )
    from holdfast.tasks.errors import (
        UnknownTask as UnknownTask,
    )
    from holdfast.tasks.handle import TaskHandle as TaskHandle
    from holdfast.tasks.info import AttemptInfo as AttemptInfo
    from holdfast.tasks.info import TaskInfo as TaskInfo
    from holdfast.tasks.order import SendError as SendError
    from holdfast.tasks.policy import RetryPolicy as RetryPolicy
    from holdfast.tasks.result import Err as Err
    from holdfast.tasks.result import TaskError as TaskError
    from holdfast.tasks.result import TaskResult as TaskResult
    from holdfast.tasks.sending import BackgroundTask as BackgroundTask
    from holdfast.tasks.status import TASK_TERMINAL_STATES as TASK_TERMINAL_STATES
    from holdfast.tasks.status import TaskStatus as TaskStatus
    from holdfast.tasks.steering import TaskQueue as TaskQueue
    from holdfast.unawaited import ClosedTooSoon as ClosedTooSoon
    from holdfast.worker.durations import Duration as Duration
    from holdfast.worker.errors import (
        BadArguments as BadArguments,
    )
    from holdfast.worker.errors import (
        BadId as BadId,
    )
    from holdfast.worker.errors import (
        BadTags as BadTags,
    )
    from holdfast.worker.errors import (
        RemoteError as RemoteError,
    )
    from holdfast.worker.errors import (
        StepTimedOut as StepTimedOut,
    )
    from holdfast.worker.errors import (
        UndecodablePayload as UndecodablePayload,
    )
    from holdfast.worker.errors import (
        UnencodablePayload as UnencodablePayload,
    )
    from holdfast.worker.execution_errors import (
        BadProvider as BadProvider,
    )
    from holdfast.worker.execution_errors import (
        CallCanceled as CallCanceled,
    )
    from holdfast.worker.execution_errors import (
        CallTimedOut as CallTimedOut,
    )
    from holdfast.worker.execution_errors import (
        DuplicateWorkflow as DuplicateWorkflow,
    )
    from holdfast.worker.execution_errors import (
        NotAWorkflow as NotAWorkflow,
    )
    from holdfast.worker.execution_errors import (
        NotProvided as NotProvided,
    )
    from holdfast.worker.execution_errors import (
        NotRecorded as NotRecorded,
    )
    from holdfast.worker.execution_errors import (
        ReplayMismatch as ReplayMismatch,
    )
    from holdfast.worker.execution_errors import (
        UnknownWorkflow as UnknownWorkflow,
    )
    from holdfast.worker.functions import (
        call as call,
    )
    from holdfast.worker.functions import (
        cancel as cancel,
    )
    from holdfast.worker.functions import (
        current as current,
    )
    from holdfast.worker.functions import (
        detach as detach,
    )
    from holdfast.worker.functions import (
        logger as logger,
    )
    from holdfast.worker.functions import (
        now as now,
    )
    from holdfast.worker.functions import (
        patched as patched,
    )
    from holdfast.worker.functions import (
        promise as promise,
    )
    from holdfast.worker.functions import (
        random as random,
    )
    from holdfast.worker.functions import (
        run as run,
    )
    from holdfast.worker.functions import (
        sleep as sleep,
    )
    from holdfast.worker.functions import (
        start as start,
    )
    from holdfast.worker.functions import (
        timeout as timeout,
    )
    from holdfast.worker.functions import (
        uuid as uuid,
    )
    from holdfast.worker.functions import (
        within as within,
    )
    from holdfast.worker.info import ExecutionInfo as ExecutionInfo
    from holdfast.worker.payload import Codec as Codec
    from holdfast.worker.providers import Depends as Depends
    from holdfast.worker.providers import provided as provided
    from holdfast.worker.registry import Workflow as Workflow
    from holdfast.worker.retry import GiveUp as GiveUp
    from holdfast.worker.retry import Retry as Retry
    from holdfast.worker.retry import RetryAfter as RetryAfter
    from holdfast.worker.steps import current_attempt as current_attempt

_homes = {
    "holdfast.app": "App Handle",
    "holdfast.client.errors": "ClientError ClientClosed",
    "holdfast.protocol.errors": "HoldfastError",
    "holdfast.runtime": (
        "Cancelled Channel Deadlock Durable Failed Future Local NotAwaited NotInFiber Ok Operation Queue "
        "Scope Selected Semaphore Signal Task TaskInterrupted TimedOut Timeout all_settled any_of "
        "as_completed current_task gather map_over named operation race scope scoped select shield "
        "spawn step_signal"
    ),
    "holdfast.session": "Refused",
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
