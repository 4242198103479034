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
from typing import Any, NoReturn, ParamSpec, TypeVar, cast, overload

from holdfast import runtime
from holdfast.payloads.durations import Duration, duration_s, pause_s
from holdfast.payloads.errors import BadId
from holdfast.payloads.signature import signature_of
from holdfast.payloads.user_tags import check_user_tags
from holdfast.protocol.requests import CancelAction, ExecutionCancel
from holdfast.runtime import Durable, Future, Operation, Timeout
from holdfast.runtime.operation import Waitable
from holdfast.runtime.slot import current as current_scheduler, slot
from holdfast.steps.here import info_here
from holdfast.steps.info import ExecutionInfo
from holdfast.steps.middleware import Kind, telling
from holdfast.workflow.errors import BadDatabase, BadStartOption, EntityContinues, NotRunning
from holdfast.workflow.execution import Execution
from holdfast.workflow.generations import ContinueAsNew
from holdfast.workflow.messages import execution, named_id
from holdfast.workflow.named_calls import NamedCall
from holdfast.workflow.not_awaited import expect_await
from holdfast.workflow.operations import Action, Await, CallOperation, Note, Sleep
from holdfast.workflow.registry import Callee, WorkflowDefinition, check_workflow
from holdfast.workflow.step_functions import run as run, step as step

P = ParamSpec("P")
T = TypeVar("T")


def timeout(duration: Duration) -> Timeout:
    """`async with hf.timeout("30s"):` raises `TimedOut` if the block still waits after that time.

    The timer is durable. Crash: after a replay the block has the time that is left.

    >>> async with hf.timeout("30s"):
    ...     receipt = await charge(card, cents)
    """
    return runtime.timeout(duration_s(duration))


def within(duration: Duration, work: Waitable[T]) -> Operation[T]:
    """`await hf.within("5s", work)`: its result, or `TimedOut`. Otherwise as `timeout`."""
    return runtime.within(duration_s(duration), work)


def sleep(duration: Duration) -> Future[None]:
    """A durable timer. Waiting holds no thread and no lease, for a second or for a month.

    A negative duration (`deadline - await hf.now()`, when that has passed) returns at once. Crash: the
    timer keeps running, and the execution is woken at the same instant. Cancellation: the wait raises
    `Cancelled`.

    >>> await hf.sleep("30d")
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

    The future's `id` is what to hand out; `tags` are yours, to search for it. With a `name` the id is
    known beforehand (`order-17:approval`), and the promise may be settled before the code gets here.
    After the timeout, awaiting it raises `TimedOut`. Crash: the promise stays, and a replay awaits the
    same one. Cancellation: the wait raises `Cancelled`.

    >>> approved = await hf.promise(bool, name="approval", timeout="2d")
    >>> app.resolve("order-17", True, name="approval")  # outside of the workflow
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

    The error of a workflow is raised here; a task gives its `TaskResult`, ok or not. To run a workflow
    as part of this execution, call it like a function instead. Crash: the callee runs once, whichever of
    the two dies. Cancellation: the callee is asked to cancel itself too.

    >>> receipt = await hf.call(charge_card, card, cents)
    """
    return _issue_call(workflow, args, kwargs, waits=True)


@overload
def start(workflow: WorkflowDefinition[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(task: Callee[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(workflow: str, /, *args: Any, **kwargs: Any) -> Future[str]: ...
def start(workflow: Any, /, *args: Any, **kwargs: Any) -> Future[str]:
    """Start another workflow, or send a task, without waiting for its result. You get its id.

    It may outlive this execution. Crash: it is started once, however often this code is replayed.

    >>> invoice_id = await hf.start(send_invoice, order)
    """
    return _issue_call(workflow, args, kwargs, waits=False)


def _issue_call(workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, waits: bool) -> Future[Any]:
    kind: Kind = "start" if isinstance(workflow, str | WorkflowDefinition) else "send"
    name = str(getattr(cast(Any, workflow), "callee_name", cast(Any, workflow)))
    entered = execution().leaving(kind, name, args, kwargs)
    if entered is not None:
        args, kwargs = entered.invocation.args, entered.invocation.kwargs
    with telling(entered):
        call = _call(cast(Any, workflow), args, kwargs, waits=waits)
        if entered is not None:
            call.headers = entered.invocation.headers
        future: Durable[Any] = current_scheduler().issue(call)
    if entered is not None:
        entered.invocation.id = future.id
        entered.returned(future.id)
    return future


def _call(
    workflow: "WorkflowDefinition[..., Any] | Callee[..., Any] | str",
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    waits: bool,
) -> CallOperation:
    if isinstance(workflow, Callee):
        return workflow.as_call(args, kwargs, waits=waits)
    if isinstance(workflow, str):
        return CallOperation(workflow, 0, args, kwargs, Any, group=None, timeout_s=None, waits=waits)
    check_workflow(workflow)
    if workflow.id is None and workflow.on_existing != "return":
        raise BadStartOption(f"on_existing is for an id that you choose: give {workflow.name} one")
    if workflow.id is not None and workflow.id == execution().id:
        raise BadId(f"with_options(id={workflow.id!r}) is the id of the execution that calls it")
    if workflow.on_existing not in ("return", "reject"):
        raise BadStartOption(
            f"{workflow.name} is called by a workflow: on_existing is 'return' or 'reject' there, "
            f"not {workflow.on_existing!r}"
        )
    if workflow.connection is not None:
        raise BadDatabase(
            f"{workflow.name} is called by a workflow, which has no transaction on a connection"
        )
    given = (workflow.name, workflow.version, args, kwargs, signature_of(workflow.function).returns)
    options: dict[str, Any] = {
        "group": workflow.group,
        "timeout_s": workflow.timeout_s,
        "waits": waits,
        "tags": workflow.tags,
        "function": workflow.function,
        "placement": workflow.placement,
    }
    if workflow.id is None:
        return CallOperation(*given, **options)
    return NamedCall(workflow.id, *given, is_new=workflow.on_existing == "reject", **options)


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this generation of the execution, and continue under the same id with these arguments and empty
    records.

    The promise stays pending and callers keep waiting; messages that were not received stay in the mailbox,
    published values and emitted streams stay. Call it from the workflow itself, not from a fiber that it has
    spawned.

    Crash: before the commit the end of the old generation is repeated, after it the new one runs.

    >>> async def meter(total: int = 0) -> None:
    ...     total += await hf.receive(int)
    ...     hf.continue_as_new(total)
    """
    found, scheduler = execution(), current_scheduler()
    if scheduler.running is not scheduler.root:
        raise NotRunning("continue_as_new was called by a fiber that the workflow has spawned, not by itself")
    bound, context = found.bound, found.worker_context
    if found.is_entity:
        raise EntityContinues(f"A method of {found.id} called continue_as_new")
    if bound.workflow is None:
        raise NotRunning("continue_as_new was called outside of a workflow")
    function, version = bound.workflow.function, bound.workflow.version
    param = context.payloads.encode_call(
        bound.name, args, kwargs, version, signature_of(function), context.provided.names(function)
    )
    raise ContinueAsNew(param)


def cancel(promise_id: str, *, now: bool = True) -> Future[None]:
    """Cancel a promise, or another execution together with everything it called.

    `now=False` asks an execution to cancel itself, as `Handle.cancel` does: its code sees `Cancelled`
    and may clean up first. Crash: it is recorded, and done once.

    >>> await hf.cancel(invoice_id, now=False)
    """

    def effects(_: str) -> Sequence[Action]:
        return [CancelAction(ExecutionCancel(promise_id, now))]

    return current_scheduler().issue(Note("cancel", lambda: None, args=(promise_id,), effects=effects))


def now() -> Future[datetime]:
    """The current time, in UTC. It is recorded, so a replay gets the same value.

    >>> deadline = await hf.now() + timedelta(days=3)
    """
    world = execution()
    return current_scheduler().issue(
        Note("now", lambda: datetime.fromtimestamp(world.worker_context.now() / 1000, UTC), datetime)
    )


def random() -> Future[float]:
    """A random number from 0 to 1. It is recorded, so a replay gets the same value.

    >>> if await hf.random() < 0.1: ...
    """
    return current_scheduler().issue(Note("random", _random.random, float))


def uuid() -> Future[_uuid.UUID]:
    """A random UUID. It is recorded, so a replay gets the same value.

    >>> order_id = await hf.uuid()
    """
    return current_scheduler().issue(Note("uuid", _uuid.uuid4, _uuid.UUID))


def patched(name: str) -> Operation[bool]:
    """Whether this execution takes a changed path: True for new ones, False for those already past it.

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
    info = info_here() if slot.scheduler is None else None
    return execution().info if info is None else info


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

expect_await(call, sleep, within)
