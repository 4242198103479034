"""How an app declares tasks, queues and schedules. `App` derives from this."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, overload

from holdfast.jobs.codes import check_code
from holdfast.jobs.errors import BadOption, TasksError
from holdfast.jobs.findings import named_options, note, read_options
from holdfast.jobs.handle import TaskHandle, TaskQueue, raise_unsent
from holdfast.jobs.options import check_priority, check_queue_name, keep_ms, time_limit_s
from holdfast.jobs.policy import rule_of
from holdfast.jobs.registry import TaskRegistry, declare_queue
from holdfast.jobs.result import TaskError, TaskResult
from holdfast.jobs.schedules import declare_recurrence
from holdfast.jobs.sending import BackgroundTask, Prepared, SendResult, send_all, send_all_async
from holdfast.jobs.task import DEFAULT_QUEUE, MODES, ExceptionCodes, Mode, TaskOptions
from holdfast.jobs.task_client import TaskApp
from holdfast.payloads.durations import Duration
from holdfast.payloads.payloads import Codec, Payloads
from holdfast.protocol.jobs import RetryRule
from holdfast.protocol.records import Overlap
from holdfast.steps.providers import Providers
from holdfast.steps.retry import Retry

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=TaskError)
W = TypeVar("W")


class TaskDecorator(Protocol):
    """`@app.task(...)`, waiting for the function."""

    @overload  # the first that fits is meant
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, TaskResult[T, E]]], /
    ) -> BackgroundTask[P, Coroutine[Any, Any, TaskResult[T, E]], T, E]: ...
    @overload
    def __call__(
        self, function: Callable[P, TaskResult[T, E]], /
    ) -> BackgroundTask[P, TaskResult[T, E], T, E]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> BackgroundTask[P, Coroutine[Any, Any, T], T, TaskError]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> BackgroundTask[P, T, T, TaskError]: ...


class Declaring:
    """What an app knows about tasks. Whoever derives from it sets `_task_app` (task_app.py)."""

    providers: Providers

    def __init__(
        self,
        codec: Codec | None,
        exception_codes: Mapping[type[BaseException], str] | None,
        default_error_code: str | None,
    ) -> None:
        self.payloads = Payloads(codec)
        self.tasks = TaskRegistry()
        self._codes = _exception_codes(exception_codes, default_error_code)
        self._task_app: TaskApp

    # --- tasks -----------------------------------------------------------------------------------------

    @overload  # the first that fits is meant
    def task(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, TaskResult[T, E]]], /
    ) -> BackgroundTask[P, Coroutine[Any, Any, TaskResult[T, E]], T, E]: ...
    @overload
    def task(
        self, function: Callable[P, TaskResult[T, E]], /
    ) -> BackgroundTask[P, TaskResult[T, E], T, E]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> BackgroundTask[P, Coroutine[Any, Any, T], T, TaskError]: ...
    @overload
    def task(self, function: Callable[P, T], /) -> BackgroundTask[P, T, T, TaskError]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry: Retry | None = None,
        priority: int | None = None,
        time_limit: Duration | None = None,
        keep: Duration | None = None,
        mode: Mode = "auto",
        exception_codes: Mapping[type[BaseException], str] | None = None,
        default_error_code: str | None = None,
    ) -> TaskDecorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **given: Any) -> Any:
        """Make a function a background task. A worker runs it once for each send.

        `queue`: where it waits. `retry`: when a failure is tried again. `priority`: higher ones first; the
        queue's own if not given. `time_limit`: how long one attempt may take; then TIME_LIMIT_EXCEEDED.
        `keep`: delete the task and its result this long after it has ended; without it, they are deleted with
        everything else (`retention` of the app or the server). `mode`: "thread", "async" or "process" (its
        own process, which can be killed); chosen by the function otherwise. `exception_codes`: under which
        codes exceptions fail it.

        >>> @app.task(queue="email", retry=Retry(delay=1, attempts=5))
        ... def send_email(to: str) -> TaskResult[str, TaskError]: ...
        """

        def register(function: Callable[..., Any]) -> Any:
            options = {**given}
            name = str(options.pop("name", None) or getattr(function, "__name__", ""))
            read = self._task_options(function, options)
            task: BackgroundTask[..., Any, Any, Any] = BackgroundTask(self._task_app, function, name, read)
            try:
                self.tasks.add(task)
            except TasksError as error:
                note(error, function)
            return task

        return register if function is None else register(function)

    def _task_options(self, function: Any, given: dict[str, Any]) -> TaskOptions:
        read = read_options("a task", given, _readers, function)
        codes, default = read.pop("exception_codes", None), read.pop("default_error_code", None)
        if "time_limit" in read:
            read["time_limit_s"] = read.pop("time_limit")
        if "keep" in read:
            read["keep_ms"] = read.pop("keep")
        return TaskOptions(**read, codes=_exception_codes(codes, default, self._codes, function))

    def task_handle(self, id: str) -> TaskHandle[Any, TaskError]:  # noqa: A002
        """The handle of a task that was sent elsewhere. Its result is typed if the task is known here."""
        return TaskHandle(self._task_app, id)

    def send_many(self, calls: Iterable[Prepared]) -> list[TaskHandle[Any, TaskError]]:
        """Send calls of any tasks together, made by `task.prepare(...)`. Raises `SendFailed` if one of them
        was not sent; its `results` has them all.
        """
        return raise_unsent(send_all(self._task_app, [*calls]))

    async def send_many_async(self, calls: Iterable[Prepared]) -> list[TaskHandle[Any, TaskError]]:
        return raise_unsent(await send_all_async(self._task_app, [*calls]))

    def try_send_many(self, calls: Iterable[Prepared]) -> list[SendResult[Any, TaskError]]:
        """As `send_many`, with an `Ok` or an `Err` for each call."""
        return send_all(self._task_app, [*calls])

    async def try_send_many_async(self, calls: Iterable[Prepared]) -> list[SendResult[Any, TaskError]]:
        return await send_all_async(self._task_app, [*calls])

    # --- queues and schedules --------------------------------------------------------------------------

    @named_options("a queue")
    def queue(
        self,
        name: str,
        *,
        priority: int = 0,
        concurrency: int | None = None,
        per_key: int | None = None,
        rate: str | None = None,
        per_key_rate: str | None = None,
        running: int | None = None,
        fair_by: Literal["limit_key"] | None = None,
        weights: dict[str, int] | None = None,
    ) -> TaskQueue:
        """Declare a queue and its limits. They hold across all workers.

        `priority`: of its tasks, unless they have their own. `concurrency`: how many run at once. `per_key`:
        the same for tasks with one `limit_key`. `rate`: how many start in any window of time, such as "10/s".
        `per_key_rate`: the same for one `limit_key`. `running`: how many executions are being worked on at
        once; `concurrency` counts an execution until it is over, also while it waits. `fair_by`: with
        "limit_key" the keys take turns. `weights`: how many turns a key gets for one of the others.

        >>> app.queue("reports", concurrency=20, fair_by="limit_key", weights={"acme": 3})
        """
        given = {**locals()}
        given.pop("self")
        limits = declare_queue(given)
        try:
            self.tasks.add_queue(limits)
        except TasksError as error:
            note(error)
        return TaskQueue(self._task_app, limits)

    @named_options("a schedule")
    def schedule(
        self,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        catch_up: int | None = None,
        good_for: Duration | None = None,
        id: str | None = None,  # noqa: A002
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[W], W]:
        """Run the task or workflow that is declared below it, by `cron` or at `every` interval.

        `overlap`: when the last run is not over, "allow" the next, "skip" it, or "replace" the last.
        `catch_up`: after downtime, run at most this many missed occurrences; 0: none. `good_for`: a run
        that has not begun after this long expires.
        """

        given = {**locals()}
        given.pop("self")

        def declare(work: W) -> W:
            try:
                recurrence = declare_recurrence(work, given)
                if recurrence is not None:
                    self.tasks.add_recurrence(recurrence)
            except TasksError as error:
                note(error, getattr(work, "function", work))
            return work

        return declare


def _exception_codes(
    codes: Mapping[type[BaseException], str] | None,
    default: str | None,
    behind: ExceptionCodes | None = None,
    function: Any = None,
) -> ExceptionCodes:
    """Each is checked by itself: those that are refused are left out."""
    known: dict[Any, Any] = {}
    for cls, code in _code_items(codes, function):
        try:
            if not (isinstance(cls, type) and issubclass(cls, BaseException)):
                raise BadOption(
                    f"exception_codes maps exception classes to codes, and {cls!r} is not an exception class"
                )
            known[cls] = check_code(code, own=True)
        except TasksError as error:
            note(error, function)
    try:
        default = None if default is None else check_code(default, own=True)
    except TasksError as error:
        note(error, function)
        default = None
    return ExceptionCodes(known, default, behind)


def _code_items(codes: Any, function: Any) -> list[tuple[Any, Any]]:
    try:
        return [*dict[Any, Any](codes or {}).items()]
    except (TypeError, ValueError):
        note(BadOption(f"exception_codes maps classes to codes, and {codes!r} does not"), function)
        return []


def _retry(retry: Any) -> RetryRule | None:
    if retry is None:
        return None
    if not isinstance(retry, Retry):
        raise BadOption(f"retry must be a Retry, not {type(retry).__name__}")
    return rule_of(retry)


def _mode(mode: Any) -> Mode:
    if mode not in MODES:
        raise BadOption(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    known: Mode = mode
    return known


def _priority(priority: Any) -> int | None:
    return None if priority is None else check_priority(priority)


def _as_it_is(value: Any) -> Any:
    return value


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "queue": check_queue_name,
    "retry": _retry,
    "priority": _priority,
    "time_limit": time_limit_s,
    "keep": keep_ms,
    "mode": _mode,
    "exception_codes": _as_it_is,
    "default_error_code": _as_it_is,
}
