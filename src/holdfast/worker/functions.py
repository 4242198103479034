"""What a workflow calls: durable steps, timers, promises, other workflows, and values worth remembering.

All of these work with `await` and with `yield from`. Each takes the next id of the execution, so the same
code always gives the same operation the same id.
"""

import logging
import random as _random
import uuid as _uuid
from collections.abc import Callable, Coroutine, Generator, MutableMapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, cast, overload

from msgspec.structs import replace

from holdfast import runtime
from holdfast.runtime import Durable, Future, Operation, Timeout
from holdfast.runtime.operation import Waitable
from holdfast.runtime.slot import current as current_scheduler, current_fiber, slot
from holdfast.worker.attempt import current_attempt
from holdfast.worker.durations import Duration, duration_s
from holdfast.worker.errors import BadRetry, BadStepOption
from holdfast.worker.execution import Execution
from holdfast.worker.info import ExecutionInfo, of_step
from holdfast.worker.operations import Await, Call, Note, Sleep, Step, StepOptions
from holdfast.worker.performance import MODES, Mode
from holdfast.worker.registry import Callee, Workflow, check_workflow
from holdfast.worker.retry import Retry
from holdfast.worker.signature import signature_of
from holdfast.worker.user_tags import check_user_tags

P = ParamSpec("P")
T = TypeVar("T")

_option_names = ("retry", "timeout", "name", "mode")


def _execution() -> Execution:
    return cast(Execution, current_scheduler().world)


# With an option the arguments are not checked: a ParamSpec leaves no room for keywords of our own.
@overload
def run(
    function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, retry: Retry, **kwargs: Any
) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, retry: Retry, **kwargs: Any) -> Future[T]: ...
@overload
def run(
    function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, timeout: Duration, **kwargs: Any
) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, timeout: Duration, **kwargs: Any) -> Future[T]: ...
@overload
def run(
    function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, name: str, **kwargs: Any
) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, name: str, **kwargs: Any) -> Future[T]: ...
@overload
def run(
    function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, mode: Mode, **kwargs: Any
) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, mode: Mode, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
@overload
def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
def run(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Perform a step: call a function outside the workflow, once, and remember its result.

    Options beside the function's own arguments: `retry` (a `Retry`), `timeout` (of one attempt), `name`, and
    `mode` ("thread", "async" or "process"; chosen by the function otherwise).

    Crash: a step that was recorded is not repeated; one that was under way is performed again. Cancellation:
    its signal is set. Its error, once retries are used up, is raised where the result is awaited.

    >>> receipt = await run(charge, card, total, retry=Retry(attempts=5))
    """
    given: dict[str, Any] = {}
    if kwargs:
        own = _own_words(function)
        given = {key: kwargs.pop(key) for key in _option_names if key in kwargs and key not in own}
    step = options(function, **given)
    fiber = current_fiber()
    operation = Step(step.function, args, kwargs, step.options, step.returns, fiber.signal())
    return fiber.scheduler.issue(operation)


class _Configured:
    """A function and how it is performed as a step."""

    def __init__(self, function: Callable[..., Any], options: StepOptions) -> None:
        self.function = function
        self.options = options
        self.returns = signature_of(function).returns


def _own_words(function: Callable[..., Any]) -> frozenset[str]:
    """The keywords that are the function's own, and not options of the step."""
    own = signature_of(function).keywords
    # A partial or an object has no name, so one can only be meant for the step.
    return own if hasattr(function, "__name__") else own - {"name"}


_plain: MutableMapping[Any, _Configured] = {}


def options(function: Callable[..., Any], **given: Any) -> _Configured:
    if not given and (known := _plain.get(function)) is not None:
        return known
    name, mode = given.get("name"), given.get("mode")
    if not (name is None or (isinstance(name, str) and name)):
        raise BadStepOption(f"name is a text, not {name!r}")
    if mode is not None and mode not in MODES:
        raise BadStepOption(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    if name is None and getattr(function, "__name__", "<lambda>") == "<lambda>":
        raise TypeError(f"The step {function!r} has no name to be recorded under. Use a def, or pass name=.")
    timeout, retry = given.get("timeout"), given.get("retry")
    if retry is not None and not isinstance(retry, Retry):
        raise BadRetry(f"retry is a Retry, not {retry!r} (a RetryPolicy is for tasks)")
    configured = _Configured(
        function,
        StepOptions(
            name=name,
            retry=retry,
            timeout_s=None if timeout is None else duration_s(timeout),
            mode="auto" if mode is None else mode,
        ),
    )
    if not given and len(_plain) < 10_000:
        _plain[function] = configured
    return configured


def timeout(duration: Duration) -> Timeout:
    """`async with hf.timeout("30s"):` raises `TimedOut` if the block still waits after that time.

    The timer is durable: after a crash the block has the time that is left.
    """
    return runtime.timeout(duration_s(duration))


def within(duration: Duration, work: Waitable[T]) -> Operation[T]:
    """`await hf.within("5s", work)`: its result, or `TimedOut`."""
    return runtime.within(duration_s(duration), work)


def sleep(duration: Duration) -> Future[None]:
    """A durable timer. Waiting holds no thread and no lease, for a second or for a month."""
    return current_scheduler().issue(Sleep(duration_s(duration)))


def promise(returns: type[T] | None = None, *, timeout: Duration | None = None, **tags: str) -> Durable[T]:
    """A promise that somebody outside settles, by its id: a person, a webhook, another program.

    The future's `id` is what to hand out; `tags` are yours, to search for it. Past the timeout, awaiting it
    raises `CallTimedOut`.
    """
    limit = None if timeout is None else duration_s(timeout)
    return current_scheduler().issue(Await(limit, check_user_tags(tags), Any if returns is None else returns))


@overload
def call(
    workflow: Workflow[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Future[T]: ...
@overload
def call(
    workflow: Workflow[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
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
def start(workflow: Workflow[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(task: Callee[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[str]: ...
@overload
def start(workflow: str, /, *args: Any, **kwargs: Any) -> Future[str]: ...
def start(workflow: Any, /, *args: Any, **kwargs: Any) -> Future[str]:
    """Start another workflow, or send a task, and go on; the result is its id. It outlives this one."""
    return current_scheduler().issue(_call(workflow, args, kwargs, waits=False))


detach = start


def _call(
    workflow: "Workflow[..., Any] | Callee[..., Any] | str",
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
    )


def cancel(promise_id: str, *, now: bool = True) -> Future[None]:
    """Settle a promise, or end another execution, as cancelled.

    `now=False` asks an execution to cancel itself, as `Handle.cancel` does: its code sees `Cancelled` and may
    clean up first.
    """
    return current_scheduler().issue(Note("cancel", lambda: None, cancels=promise_id, gently=not now))


def now() -> Future[datetime]:
    """The time, remembered: a replay sees the same."""
    world = _execution()
    return current_scheduler().issue(
        Note("now", lambda: datetime.fromtimestamp(world.around.now() / 1000, UTC), datetime)
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
    if _execution().is_patched(name) is False:
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
        return _execution().info
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
