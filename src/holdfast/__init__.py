"""Durable execution for Python: functions that survive the death of the process that runs them.

    import holdfast as hf

    app = hf.App()

    @hf.step(retry=hf.Retry(attempts=5))
    async def charge(card: str, cents: int) -> Receipt: ...

    @app.workflow
    async def checkout(order: Order) -> Receipt:
        return await charge(order.card, order.total)

Every name here is loaded when it is first used, so the import itself costs next to nothing. Errors that are
rarely caught by name are in `hf.errors`, which has them all; the codes of background tasks are in `hf.codes`;
classes that a program only annotates with are in `hf.types`.
"""

import importlib
import sys

TYPE_CHECKING = False  # type checkers take it for true; the module that has it takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from holdfast import codes as codes, errors as errors, types as types
    from holdfast.app import (
        App as App,
    )
    from holdfast.jobs.handle import gather_results as gather_results
    from holdfast.jobs.info import TaskStatus as TaskStatus
    from holdfast.jobs.result import TaskError as TaskError, TaskResult as TaskResult
    from holdfast.protocol.errors import HoldfastError as HoldfastError
    from holdfast.runtime import (
        Cancelled as Cancelled,
        Channel as Channel,
        Fiber as Fiber,
        Queue as Queue,
        Semaphore as Semaphore,
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
    from holdfast.steps.providers import (
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
    from holdfast.workflow.entity_class import (
        Entity as Entity,
        read as read,
    )
    from holdfast.workflow.events import (
        event as event,
        send_event as send_event,
    )
    from holdfast.workflow.functions import (
        call as call,
        cancel as cancel,
        continue_as_new as continue_as_new,
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
    from holdfast.workflow.locks import (
        lock as lock,
        permits as permits,
    )
    from holdfast.workflow.messages import (
        ask as ask,
        attach as attach,
        mailbox as mailbox,
        receive as receive,
        tell as tell,
    )
    from holdfast.workflow.remote import (
        remote as remote,
    )
    from holdfast.workflow.reporting import progress as progress
    from holdfast.workflow.step_functions import (
        run as run,
        step as step,
        transact as transact,
    )
    from holdfast.workflow.tagging import tag as tag

__version__ = "0.1.0"  # as in pyproject.toml: to ask for the metadata would take 20 ms

_names_by_module = {
    "holdfast.app": ("App"),
    "holdfast.jobs.handle": ("gather_results"),
    "holdfast.jobs.info": ("TaskStatus"),
    "holdfast.jobs.result": ("TaskError TaskResult"),
    "holdfast.protocol.errors": ("HoldfastError"),
    "holdfast.runtime": (
        "Cancelled Channel Fiber Queue Semaphore TimedOut all_settled any_of as_completed"
        " gather map_over race scope select shield spawn step_signal"
    ),
    "holdfast.steps.providers": ("provided"),
    "holdfast.steps.retry": ("GiveUp Retry RetryAfter Snooze"),
    "holdfast.workflow.emitting": ("emit publish"),
    "holdfast.workflow.entity_class": ("Entity read"),
    "holdfast.workflow.events": ("event send_event"),
    "holdfast.workflow.functions": (
        "call cancel continue_as_new current logger now patched promise random sleep start timeout"
        " uuid within"
    ),
    "holdfast.workflow.guard": ("unguarded"),
    "holdfast.workflow.locks": ("lock permits"),
    "holdfast.workflow.messages": ("ask attach mailbox receive tell"),
    "holdfast.workflow.remote": ("remote"),
    "holdfast.workflow.reporting": ("progress"),
    "holdfast.workflow.step_functions": ("run step transact"),
    "holdfast.workflow.tagging": ("tag"),
}
_modules = ("codes", "errors", "types")
_module_of = {name: module for module, names in _names_by_module.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    if name in _modules:
        return importlib.import_module(f"holdfast.{name}")
    if name == "__all__":
        return [*_module_of, *_modules]
    if name not in _module_of:
        raise AttributeError(f"holdfast has no {name!r}{_elsewhere(name)}")
    # On Python 3.11 the determinism guard looks at the first calls of a workflow; an import is thousands.
    profile = sys.getprofile()
    sys.setprofile(None)
    try:
        found = globals()[name] = getattr(importlib.import_module(_module_of[name]), name)
    finally:
        sys.setprofile(profile)
    return found


def _elsewhere(name: str) -> str:
    for module in _modules:
        if name in importlib.import_module(f"holdfast.{module}").__all__:
            return f": it is in holdfast.{module}"
    return ""


def __dir__() -> list[str]:
    return sorted([*_module_of, *_modules, "__version__"])
