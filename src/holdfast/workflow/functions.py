"""What a workflow calls: durable steps (step_functions.py), timers, promises, other workflows, and values
that are remembered.

All of these work with `await` and with `yield from`. Each takes the next id of the execution, so the same
code always gives the same operation the same id.
"""

import logging
import random as _random
import uuid as _uuid
from collections.abc import Coroutine, Generator, Sequence
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from holdfast import runtime
from holdfast.payloads.durations import Duration, duration_s, pause_s
from holdfast.payloads.errors import BadId
from holdfast.payloads.signature import signature_of
from holdfast.payloads.user_tags import check_user_tags
from holdfast.protocol.requests import PromiseSettle, SettleAction
from holdfast.runtime import Durable, Future, Operation, Timeout
from holdfast.runtime.operation import Waitable
from holdfast.runtime.slot import current as current_scheduler, slot
from holdfast.steps.attempt import current_attempt
from holdfast.steps.info import ExecutionInfo, of_step
from holdfast.workflow.cancellation import ask_to_cancel
from holdfast.workflow.errors import BadDatabase
from holdfast.workflow.execution import Execution
from holdfast.workflow.messages import execution, named_id
from holdfast.workflow.operations import Action, Await, Call, Note, Sleep
from holdfast.workflow.registry import Callee, WorkflowDefinition, check_workflow
from holdfast.workflow.step_functions import run as run, step as step

P = ParamSpec("P")
T = TypeVar("T")


def timeout(duration: Duration) -> Timeout:
    """`async with hf.timeout("30s"):` raises `TimedOut` if the block still waits after that time.

    The timer is durable: after a crash the block has the time that is left.
    """
    return runtime.timeout(duration_s(duration))


def within(duration: Duration, work: Waitable[T]) -> Operation[T]:
    """`await hf.within("5s", work)`: its result, or `TimedOut`."""
    return runtime.within(duration_s(duration), work)


def sleep(duration: Duration) -> Future[None]:
    """A durable timer. Waiting holds no thread and no lease, for a second or for a month.

    A negative duration (`deadline - await hf.now()`, when that has passed) returns at once.
    """
    return current_scheduler().issue(Sleep(pause_s(duration)))


def promise(
    returns: type[T] | None = None,
    *,
    name: str | None = None,
    timeout: Duration | None = None,
    **tags: str,
) -> Durable[T]:
    """A promise that somebody outside settles, by its id: a person, a webhook, another program.

    The future's `id` is what to hand out; `tags` are yours, to search for it. With a `name` the id is known
    beforehand (`order-17:approval`), and the promise may be settled before the code comes here. Past the
    timeout, awaiting it raises `TimedOut`.
    """
    limit = None if timeout is None else duration_s(timeout)
    fixed_id = None if name is None else named_id(execution().id, name)
    wanted = Any if returns is None else returns
    return current_scheduler().issue(Await(limit, check_user_tags(tags), wanted, name, fixed_id))


@overload
def call(
    workflow: WorkflowDefinition[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Future[T]: ...
@overload
def call(
    workflow: WorkflowDefinition[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Future[T]: ...
@overload
def call(task: Callee[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
@overload
def call(workflow: str, /, *args: Any, **kwargs: Any) -> Future[Any]: ...
def call(workflow: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Run another workflow, on any worker of its group, and await its result; or a task, by its queue.

    Crash: it runs once, whoever of the two dies. The error of a workflow is raised here; a task gives its
    `TaskResult`, ok or not. To run it right here, as part of this one, call it like a function instead.
    """
    return current_scheduler().issue(_call(workflow, args, kwargs, waits=True))


@overload
def start(workflow: WorkflowDefinition[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(task: Callee[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(workflow: str, /, *args: Any, **kwargs: Any) -> Future[str]: ...
def start(workflow: Any, /, *args: Any, **kwargs: Any) -> Future[str]:
    """Start another workflow, or send a task, and go on; the result is its id. It outlives this one."""
    return current_scheduler().issue(_call(workflow, args, kwargs, waits=False))


def _call(
    workflow: "WorkflowDefinition[..., Any] | Callee[..., Any] | str",
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    waits: bool,
) -> Call:
    if isinstance(workflow, Callee):
        return workflow.as_call(args, kwargs, waits=waits)
    if isinstance(workflow, str):
        return Call(workflow, 0, args, kwargs, Any, group=None, timeout_s=None, waits=waits)
    check_workflow(workflow)
    if workflow.id is not None:
        raise BadId(
            f"with_options(id={workflow.id!r}) is for a start from outside: {workflow.name} is called by a "
            "workflow, and its id is made of that one's"
        )
    if workflow.connection is not None:
        raise BadDatabase(
            f"{workflow.name} is called by a workflow, which has no transaction on a connection"
        )
    return Call(
        workflow.name,
        workflow.version,
        args,
        kwargs,
        signature_of(workflow.function).returns,
        group=workflow.group,
        timeout_s=workflow.timeout_s,
        waits=waits,
        tags=workflow.tags,
        function=workflow.function,
        placement=workflow.placement,
    )


def cancel(promise_id: str, *, now: bool = True) -> Future[None]:
    """Settle a promise, or end another execution, as cancelled.

    `now=False` asks an execution to cancel itself, as `Handle.cancel` does: its code sees `Cancelled` and may
    clean up first.
    """

    def effects(_: str) -> Sequence[Action]:
        if now:
            return [SettleAction(PromiseSettle(promise_id, "rejected_canceled"))]
        return ask_to_cancel(promise_id, promise_id.partition(":")[0])

    return current_scheduler().issue(Note("cancel", lambda: None, args=(promise_id,), effects=effects))


def now() -> Future[datetime]:
    """The time, remembered: a replay sees the same."""
    world = execution()
    return current_scheduler().issue(
        Note("now", lambda: datetime.fromtimestamp(world.worker_context.now() / 1000, UTC), datetime)
    )


def random() -> Future[float]:
    """A number from 0 to 1, remembered."""
    return current_scheduler().issue(Note("random", _random.random, float))


def uuid() -> Future[_uuid.UUID]:
    """A random UUID, remembered."""
    return current_scheduler().issue(Note("uuid", _uuid.uuid4, _uuid.UUID))


def patched(name: str) -> Operation[bool]:
    """Shall this execution take a changed path? True for new ones, False for those recorded before.

    >>> if await patched("ask-for-tax"):
    ...     tax = await run(compute_tax, order)
    """
    return Operation(_patched, name)


def _patched(name: str) -> Generator[Any, Any, bool]:
    if execution().is_patched(name) is False:
        return False
    future: Future[bool] = current_scheduler().issue(Note(f"patch {name}", lambda: True, bool))
    return (yield from future)


def current() -> ExecutionInfo:
    """The execution that asks: from the workflow, or from inside one of its steps.

    >>> async def pay(order):
    ...     ledger.write(order, token=current().token)  # which refuses a token older than one it has seen
    """
    info = of_step.get(None) if slot.scheduler is None else None
    if info is None:
        return execution().info
    attempt = info.attempt if info.step is None else current_attempt()  # a task has its own
    return info if info.attempt == attempt else replace(info, attempt=attempt)


class _ReplayFilter(logging.Filter):
    """Drops what was logged before: a replay repeats the code, not the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            world = current_scheduler().world
        except RuntimeError:
            return True
        if isinstance(world, Execution):
            record.execution = world.id
            return not world.is_replaying
        return True


logger = logging.getLogger("holdfast.workflow")
logger.addFilter(_ReplayFilter())
