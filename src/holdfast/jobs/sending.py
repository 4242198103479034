"""Sending: from a call in the user's code to a handle, or an error that says why not.

1. Arguments are checked and encoded, and `sent_at` is read, at the call and on the caller's thread.
2. What was not sent raises `SendFailed`: an error that nobody looks at would lose the task. The `try_` forms
   give `Ok(handle)` or `Err(SendError)` instead, and raise nothing because of the node, the store or the way
   to them. A mistake in the code that calls (a bad option, blocking the event loop) raises in both.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.jobs.codes import SendCode
from holdfast.jobs.errors import BadOption, SendFailed
from holdfast.jobs.handle import TaskHandle, adopt, raise_unsent
from holdfast.jobs.options import PLAIN, OnConflict, SendOptions, WithOptions, refine
from holdfast.jobs.outcome import read_result
from holdfast.jobs.result import Err, NotDone, Ok, TaskError, TaskResult
from holdfast.jobs.send_request import SendError, SendRequest, job_tags, make_orders
from holdfast.jobs.task import TaskDefinition, TaskOptions
from holdfast.jobs.task_client import Sent, TaskApp
from holdfast.payloads.durations import Duration
from holdfast.payloads.errors import WorkerError
from holdfast.protocol import tags
from holdfast.steps.middleware import Entered
from holdfast.steps.retry import Retry
from holdfast.workflow.operations import CallOperation, JobCall
from holdfast.workflow.registry import Callee

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
E = TypeVar("E", bound=TaskError)

# Mistakes in how the app is set up, which no second attempt mends: the URL names no store or no server, the
# file is not ours or newer than we are, a driver is missing, a token or a certificate cannot be used.
hopeless_codes: Final = frozenset(
    ("HF2001", "HF2003", "HF2004", "HF2007", "HF2009", "HF4007", "HF4009", "HF4010")
)

SendResult = Ok[TaskHandle[T, E]] | Err[SendError]
Arguments = Sequence[Any] | Mapping[str, Any]


class Prepared(Struct, frozen=True):
    """A call of a task, checked and ready to leave with others: see `app.send_many`."""

    order: SendRequest | SendError
    connection: Any = None


class Sending(Callee[P, TaskResult[T, E]], Generic[P, T, E]):
    """A task and the options under which it is sent."""

    def __init__(self, task_app: TaskApp, task: TaskDefinition[P, Any, T, E], options: SendOptions) -> None:
        self._task_app = task_app
        self._task = task
        self._options = options

    def send(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T, E]:
        """Queue a call. In a script it is durable when this returns; in asyncio use `send_async`.

        Raises `SendFailed`, which says why, and whether sending again may help; `try_send` gives that as a
        value. Crash: once sent, some worker runs it; once it runs, its retry policy decides what a crash
        means. Sending again under the same `id` changes nothing.
        """
        return raise_unsent(send_all(self._task_app, [self._prepare(args, kwargs)]))[0]

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T, E]:
        return raise_unsent(await send_all_async(self._task_app, [self._prepare(args, kwargs)]))[0]

    def try_send(self, *args: P.args, **kwargs: P.kwargs) -> SendResult[T, E]:
        """As `send`, but what was not sent is an `Err`. If you ignore it, the task is lost."""
        return self._one(send_all(self._task_app, [self._prepare(args, kwargs)]))

    async def try_send_async(self, *args: P.args, **kwargs: P.kwargs) -> SendResult[T, E]:
        return self._one(await send_all_async(self._task_app, [self._prepare(args, kwargs)]))

    def schedule(self, delay: Duration, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T, E]:
        """Queue a call that starts no earlier than after `delay`. Raises `SendFailed`."""
        return self._refined({"delay": delay}).send(*args, **kwargs)

    async def schedule_async(self, delay: Duration, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[T, E]:
        return await self._refined({"delay": delay}).send_async(*args, **kwargs)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared:
        """A call to be sent with others: `app.send_many([a.prepare(1), b.prepare("x")])`."""
        return self._prepare(args, kwargs)

    def send_many(self, calls: Iterable[Arguments]) -> list[TaskHandle[T, E]]:
        """Queue many calls in as few round trips as they fit in, mostly one: each a tuple of arguments, or a
        dict of named ones. Raises `SendFailed` if one of them was not sent; its `results` has them all.
        """
        return raise_unsent(send_all(self._task_app, self._prepare_all(map(_arguments, calls))))

    async def send_many_async(self, calls: Iterable[Arguments]) -> list[TaskHandle[T, E]]:
        return raise_unsent(await send_all_async(self._task_app, self._prepare_all(map(_arguments, calls))))

    def try_send_many(self, calls: Iterable[Arguments]) -> list[SendResult[T, E]]:
        """As `send_many`, with an `Ok` or an `Err` for each call."""
        return send_all(self._task_app, self._prepare_all(map(_arguments, calls)))

    async def try_send_many_async(self, calls: Iterable[Arguments]) -> list[SendResult[T, E]]:
        return await send_all_async(self._task_app, self._prepare_all(map(_arguments, calls)))

    def with_options(
        self,
        *,
        id: str | None = None,  # noqa: A002
        queue: str | None = None,
        priority: int | None = None,
        good_until: datetime | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        timeout: Duration | None = None,
        key: str | None = None,
        on_conflict: OnConflict | None = None,
        debounce: Duration | None = None,
        limit_key: str | None = None,
        retry: Retry | None = None,
        time_limit: Duration | None = None,
        tags: Mapping[str, str] | None = None,
        connection: Any = None,
    ) -> "ConfiguredTask[P, T, E]":
        """The same task with other options.

        `good_until`: it must start before this instant (with a time zone). `delay`, `at`: start no earlier
        than after this time, or at this instant. `priority`: higher ones first. `timeout`: how long it may
        take in all. `key`: at most one open task has it; `on_conflict` says whether another send returns that
        task (`existing`), replaces it (`replace`) or is refused (`reject`). `debounce`: start this long after
        the most recent send with the same key. `limit_key`: the key for the queue's limits per key. `retry`
        and `time_limit`: instead of the task's own. `tags`: to find it by; those of several `with_options`
        add up. `connection`: send inside the transaction that is open on it.
        """
        given = {**locals()}
        given.pop("self")
        return self._refined(given)

    @property
    def callee_name(self) -> str:
        return self._task.name

    def as_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, waits: bool) -> CallOperation:
        """As a workflow calls it."""
        options, task = self._options, self._task
        for name in ("id", "key", "connection"):
            if getattr(options, name) is not None:
                raise BadOption(f"{name}= cannot be used where a workflow calls a task: leave it out")
        supplied = self._task_app.providers.supplied_to(task.function, task.mode)
        self._task_app.payloads.encode_call(task.name, args, kwargs, 1, task.signature, supplied)
        entries = job_tags(task, options, None, self._task_app.tasks.priority_of(options.queue or task.queue))
        if options.at_ms is not None:
            entries[tags.DELAY] = str(options.at_ms)

        def read(promise: Any, payloads: Any, known: Any) -> Any:
            return read_result(promise, task.returns, task.error_type, payloads, known)

        timeout_s = None if options.timeout_ms is None else options.timeout_ms / 1000
        delay_s = None if options.delay_ms is None else options.delay_ms / 1000
        return JobCall(
            task.name,
            args,
            kwargs,
            entries=entries,
            delay_s=delay_s,
            timeout_s=timeout_s,
            waits=waits,
            read_result=read,
        )

    def _one(self, sent: list[SendResult[T, E]]) -> SendResult[T, E]:
        return sent[0]

    def _refined(self, given: dict[str, Any]) -> "ConfiguredTask[P, T, E]":
        return ConfiguredTask(self._task_app, self._task, refine(self._options, given))

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        return self._prepare_all([(args, kwargs)])[0]

    def _prepare_all(self, calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Prepared]:
        task, options = self._task, self._options
        if options.queue is not None:
            self._task_app.tasks.note_use(options.queue)
        reading = self._task_app.read_clock()
        orders = make_orders(
            task,
            options,
            calls,
            sent_at=reading.now,
            queue_priority=self._task_app.tasks.priority_of(options.queue or task.queue),
            payloads=self._task_app.payloads,
            fresh=self._task_app.fresh,
            providers=self._task_app.providers,
            hooks=self._task_app.tasks.hooks,
        )
        if reading.ticks is not None:
            orders = [
                replace(each, guess=reading) if isinstance(each, SendRequest) else each for each in orders
            ]
        return [Prepared(order, options.connection) for order in orders]


class ConfiguredTask(Sending[P, T, E], WithOptions):
    """A task under other options than its own."""


_elsewhere: Final = {
    "delay": "send(...)",
    "apply_async": "with_options(...).send(...)",
    "s": "hf.call(task, ...) in a workflow",
}


class BackgroundTask(TaskDefinition[P, R, T, E], Sending[P, T, E]):
    """What `@app.task` makes of a function. A call runs it right here; after a send, a worker runs it."""

    def __init__(self, task_app: TaskApp, function: Any, name: str, options: TaskOptions) -> None:
        TaskDefinition.__init__(self, function, name, options)  # pyright: ignore[reportUnknownMemberType]
        Sending.__init__(self, task_app, self, PLAIN)  # pyright: ignore[reportUnknownMemberType]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """A name of another library is answered with ours."""
            instead = _elsewhere.get(name)
            hint = f". Use {instead}" if instead else ""
            raise AttributeError(f"A background task has no {name!r}{hint}", name=name, obj=self)


def send_all(task_app: TaskApp, prepared: Sequence[Prepared]) -> list[Any]:
    """Send what can be sent, together; the answers are in the order of the calls."""
    orders, connection = _together(prepared)
    try:
        if connection is not None:
            sent = task_app.send_inside(connection, orders)
        else:
            sent = task_app.block(_send(task_app, orders)) if orders else []
    except (RuntimeError, BadOption):
        raise
    except Exception as error:
        sent = [_unsent(order, error) for order in orders]
    return _answers(task_app, prepared, sent)


async def send_all_async(task_app: TaskApp, prepared: Sequence[Prepared]) -> list[Any]:
    orders, connection = _together(prepared)
    try:
        if connection is not None:
            sent = await task_app.send_inside_async(connection, orders)
        else:
            sent = await task_app.bridge(_send(task_app, orders)) if orders else []
    except (RuntimeError, BadOption):
        raise
    except Exception as error:
        sent = [_unsent(order, error) for order in orders]
    return _answers(task_app, prepared, sent)


async def _send(task_app: TaskApp, orders: Sequence[SendRequest]) -> list[Sent]:
    return await task_app.task_client.send(orders)


def _together(prepared: Sequence[Prepared]) -> tuple[list[SendRequest], Any]:
    connections = {id(each.connection) for each in prepared}
    if len(connections) > 1:
        raise BadOption("Calls that are sent together must all use the same connection, or none")
    orders = [each.order for each in prepared if isinstance(each.order, SendRequest)]
    return orders, prepared[0].connection if prepared else None


def _answers(task_app: TaskApp, prepared: Sequence[Prepared], sent: Sequence[Sent]) -> list[Any]:
    left = iter(sent)
    answers = [
        NotDone(each.order) if isinstance(each.order, SendError) else adopt(task_app, next(left), each.order)
        for each in prepared
    ]
    for each, answered in zip(prepared, answers, strict=True):
        if isinstance(each.order, SendRequest) and each.order.entered is not None:
            _tell_around(each.order.entered, answered)
    return answers


def _tell_around(entered: Entered, answered: Any) -> None:
    """What became of a send. Middlewares see that, and cannot change it."""
    try:
        [handle] = raise_unsent([answered])
    except SendFailed as failed:
        with suppress(SendFailed):
            entered.raised(failed)
    else:
        entered.returned(handle)


def _unsent(order: SendRequest, error: Exception) -> Sent:
    what = f"{type(error).__name__}: {error}"
    is_hopeless = isinstance(error, WorkerError) or getattr(error, "code", "") in hopeless_codes
    return NotDone(SendError(SendCode.ENQUEUE_FAILED, what, order.creation.id, retryable=not is_hopeless))


def _arguments(call: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(call, tuple):
        return call, {}
    if isinstance(call, Mapping):
        return (), dict(call)
    if isinstance(call, str | bytes):
        raise BadOption(f"A call is a tuple or a dict of arguments, not a string: ({call!r},)")
    return tuple(call), {}
