"""Durable execution for Python: functions that survive the death of the process that runs them.

    import holdfast as hf

    app = hf.App()

    @hf.step(retry=hf.Retry(attempts=5))
    async def charge(card: str, cents: int) -> Receipt: ...

    @app.workflow
    async def checkout(order: Order) -> Receipt:
        return await charge(order.card, order.total)

Every name here is loaded when it is first used, so the import itself costs next to nothing. Errors that are
rarely caught by name are in `hf.errors`, which has them all; the codes of background tasks are in `hf.codes`.
"""

import importlib

TYPE_CHECKING = False  # type checkers take it for true; the module that has it takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from holdfast import codes as codes, errors as errors
    from holdfast.app import (
        App as App,
        Handle as Handle,
        Workflow as Workflow,
    )
    from holdfast.host.errors import (
        AlreadySettled as AlreadySettled,
        WouldBlock as WouldBlock,
    )
    from holdfast.jobs.handle import (
        TaskHandle as TaskHandle,
        gather_results as gather_results,
        gather_results_async as gather_results_async,
    )
    from holdfast.jobs.info import (
        TaskInfo as TaskInfo,
        TaskStatus as TaskStatus,
    )
    from holdfast.jobs.result import TaskError as TaskError, TaskResult as TaskResult
    from holdfast.jobs.send_request import (
        SendError as SendError,
    )
    from holdfast.jobs.sending import (
        BackgroundTask as BackgroundTask,
    )
    from holdfast.payloads.durations import (
        Duration as Duration,
    )
    from holdfast.payloads.errors import (
        RemoteError as RemoteError,
    )
    from holdfast.payloads.payloads import (
        Codec as Codec,
    )
    from holdfast.protocol.errors import (
        HoldfastError as HoldfastError,
    )
    from holdfast.runtime import (
        Cancelled as Cancelled,
        Channel as Channel,
        Durable as Durable,
        Err as Err,
        Fiber as Fiber,
        Future as Future,
        Ok as Ok,
        Operation as Operation,
        Queue as Queue,
        Scope as Scope,
        Semaphore as Semaphore,
        Signal as Signal,
        TimedOut as TimedOut,
        all_settled as all_settled,
        any_of as any_of,
        as_completed as as_completed,
        gather as gather,
        map_over as map_over,
        race as race,
        scope as scope,
        select as select,
        shield as shield,
        spawn as spawn,
        step_signal as step_signal,
    )
    from holdfast.steps.info import (
        ExecutionInfo as ExecutionInfo,
    )
    from holdfast.steps.providers import (
        Depends as Depends,
        provided as provided,
    )
    from holdfast.steps.retry import (
        GiveUp as GiveUp,
        Retry as Retry,
        RetryAfter as RetryAfter,
        Snooze as Snooze,
    )
    from holdfast.workflow.emitting import (
        emit as emit,
        publish as publish,
    )
    from holdfast.workflow.errors import (
        IdTaken as IdTaken,
    )
    from holdfast.workflow.functions import (
        call as call,
        cancel as cancel,
        current as current,
        logger as logger,
        now as now,
        patched as patched,
        promise as promise,
        random as random,
        sleep as sleep,
        start as start,
        timeout as timeout,
        uuid as uuid,
        within as within,
    )
    from holdfast.workflow.guard import unguarded as unguarded
    from holdfast.workflow.messages import (
        Message as Message,
        ask as ask,
        attach as attach,
        mailbox as mailbox,
        receive as receive,
        tell as tell,
    )
    from holdfast.workflow.step_functions import (
        StepFunction as StepFunction,
        run as run,
        step as step,
        transact as transact,
    )

__version__ = "0.1.0"  # as in pyproject.toml: to ask for the metadata would take 20 ms

_homes = {
    "holdfast.app": ("App Handle Workflow"),
    "holdfast.host.errors": ("AlreadySettled WouldBlock"),
    "holdfast.jobs.handle": ("TaskHandle gather_results gather_results_async"),
    "holdfast.jobs.info": ("TaskInfo TaskStatus"),
    "holdfast.jobs.result": ("TaskError TaskResult"),
    "holdfast.jobs.send_request": ("SendError"),
    "holdfast.jobs.sending": ("BackgroundTask"),
    "holdfast.payloads.durations": ("Duration"),
    "holdfast.payloads.errors": ("RemoteError"),
    "holdfast.payloads.payloads": ("Codec"),
    "holdfast.protocol.errors": ("HoldfastError"),
    "holdfast.runtime": (
        "Cancelled Channel Durable Err Fiber Future Ok Operation Queue "
        "Scope Semaphore Signal TimedOut all_settled any_of as_completed gather "
        "map_over race scope select shield spawn step_signal"
    ),
    "holdfast.steps.info": ("ExecutionInfo"),
    "holdfast.steps.providers": ("Depends provided"),
    "holdfast.steps.retry": ("GiveUp Retry RetryAfter Snooze"),
    "holdfast.workflow.emitting": ("emit publish"),
    "holdfast.workflow.errors": ("IdTaken"),
    "holdfast.workflow.functions": (
        "call cancel current logger now patched promise random sleep start timeout uuid within"
    ),
    "holdfast.workflow.guard": ("unguarded"),
    "holdfast.workflow.messages": ("Message ask attach mailbox receive tell"),
    "holdfast.workflow.step_functions": ("StepFunction run step transact"),
}
_modules = ("codes", "errors")
_home_of = {name: module for module, names in _homes.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    if name in _modules:
        return importlib.import_module(f"holdfast.{name}")
    if name not in _home_of:
        raise AttributeError(f"holdfast has no {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_home_of[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*_home_of, *_modules, "__version__"])
