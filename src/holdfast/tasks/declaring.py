"""How an app declares tasks, queues and schedules. `App` is one of these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.protocol.records import Overlap
from holdfast.tasks.codes import check_code
from holdfast.tasks.desk import Desk
from holdfast.tasks.errors import BadOption, TasksError
from holdfast.tasks.findings import note
from holdfast.tasks.handle import TaskHandle
from holdfast.tasks.home import Sent
from holdfast.tasks.options import check_priority, check_queue_name, millis
from holdfast.tasks.order import Order
from holdfast.tasks.policy import RetryPolicy
from holdfast.tasks.queues import QueueLimits, declare_queue
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.result import TaskError, TaskResult
from holdfast.tasks.schedules import declare_recurrence
from holdfast.tasks.sending import BackgroundTask, Prepared, SendResult, send_all, send_all_async
from holdfast.tasks.steering import TaskQueue
from holdfast.tasks.task import DEFAULT_QUEUE, MODES, ExceptionCodes, Mode, TaskOptions
from holdfast.worker.durations import Duration
from holdfast.worker.payload import Codec, Payloads

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=TaskError)
W = TypeVar("W")
Result = TypeVar("Result")


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
    """What an app knows about tasks. Whoever derives from it provides the ways to a session (home.py)."""

    def __init__(
        self,
        codec: Codec | None,
        exception_codes: Mapping[type[BaseException], str] | None,
        default_error_code: str | None,
    ) -> None:
        self.payloads = Payloads(codec)
        self.tasks = TaskRegistry()
        self._codes = _exception_codes(exception_codes, default_error_code, None)

    # --- the ways to a session, which App provides -----------------------------------------------------

    @property
    def desk(self) -> Desk:
        raise NotImplementedError

    def now(self) -> int:
        raise NotImplementedError

    def fresh(self) -> str:
        raise NotImplementedError

    def block(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        raise NotImplementedError

    def bridge(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]:
        raise NotImplementedError

    def send_inside(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        raise NotImplementedError

    async def send_inside_async(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        raise NotImplementedError

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
        retry: RetryPolicy | None = None,
        priority: int | None = None,
        time_limit: Duration | None = None,
        mode: Mode = "auto",
        exception_codes: Mapping[type[BaseException], str] | None = None,
        default_error_code: str | None = None,
    ) -> TaskDecorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **given: Any) -> Any:
        """Make a function a task: what workers run in the background, once for each send.

        `queue`: where it waits. `retry`: when a failure is tried again. `priority`: higher ones first; the
        queue's own if not given. `time_limit`: of one attempt, past which it fails as TIME_LIMIT_EXCEEDED.
        `mode`: "thread", "async" or "process" (its own process, which can be killed); chosen by the function
        otherwise. `exception_codes`: under which codes exceptions fail it.

        >>> @app.task(queue="email", retry=RetryPolicy.exponential(base=1, attempts=5))
        ... def send_email(to: str) -> TaskResult[str, TaskError]: ...
        """

        def register(function: Callable[..., Any]) -> Any:
            name = str(given.get("name") or getattr(function, "__name__", ""))
            options = TaskOptions()
            try:
                options = self._task_options(**{key: value for key, value in given.items() if key != "name"})
            except TasksError as error:
                note(error, function)
            task: BackgroundTask[..., Any, Any, Any] = BackgroundTask(self, function, name, options)
            try:
                self.tasks.add(task)
            except TasksError as error:
                note(error, function)
            return task

        return register if function is None else register(function)

    def _task_options(
        self,
        queue: str = DEFAULT_QUEUE,
        retry: Any = None,
        priority: int | None = None,
        time_limit: Duration | None = None,
        mode: Any = "auto",
        exception_codes: Mapping[type[BaseException], str] | None = None,
        default_error_code: str | None = None,
    ) -> TaskOptions:
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise BadOption(f"retry is a RetryPolicy, not {type(retry).__name__}")
        if mode not in MODES:
            raise BadOption(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        return TaskOptions(
            queue=check_queue_name(queue),
            retry=retry,
            priority=None if priority is None else check_priority(priority),
            time_limit_s=None if time_limit is None else millis("time_limit", time_limit) / 1000,
            mode=mode,
            codes=_exception_codes(exception_codes, default_error_code, self._codes),
        )

    def task_handle(self, id: str) -> TaskHandle[Any, TaskError]:  # noqa: A002
        """The handle of a task that was sent elsewhere. Its result is typed if the task is known here."""
        return TaskHandle(self, id)

    def send_many(self, calls: Iterable[Prepared]) -> list[SendResult[Any, TaskError]]:
        """Send calls of any tasks together, made by `task.prepare(...)`."""
        return send_all(self, [*calls])

    async def send_many_async(self, calls: Iterable[Prepared]) -> list[SendResult[Any, TaskError]]:
        return await send_all_async(self, [*calls])

    # --- queues and schedules --------------------------------------------------------------------------

    def queue(
        self,
        name: str,
        *,
        priority: int = 0,
        concurrency: int | None = None,
        per_key: int | None = None,
        rate: str | None = None,
        per_key_rate: str | None = None,
    ) -> TaskQueue:
        """Declare a queue: how many of its tasks run at once in the whole cluster (`concurrency`), with the
        same `limit_key` (`per_key`), and how many begin in any stretch of time (`rate="10/s"`,
        `per_key_rate`).
        """
        limits = QueueLimits(name=str(name))
        try:
            limits = declare_queue(name, priority, concurrency, per_key, rate, per_key_rate)
            self.tasks.add_queue(limits)
        except TasksError as error:
            note(error)
        return TaskQueue(self, limits)

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
        """Above `@app.task` or `@app.workflow`: run it again and again, by `cron` or `every` so often.

        `overlap`: when the last run is not over, "allow" the next, "skip" it, or "replace" the last.
        `catch_up`: make up for at most so many runs that were missed. `good_for`: a run not begun after so
        long expires.
        """

        def declare(work: W) -> W:
            try:
                self.tasks.add_recurrence(
                    declare_recurrence(
                        work,
                        cron=cron,
                        every=every,
                        timezone=timezone,
                        overlap=overlap,
                        catch_up=catch_up,
                        good_for=good_for,
                        id=id,
                        args=tuple(args),
                        kwargs=dict(kwargs or {}),
                    )
                )
            except TasksError as error:
                note(error, getattr(work, "function", work))
            return work

        return declare


def _exception_codes(
    codes: Mapping[type[BaseException], str] | None, default: str | None, behind: ExceptionCodes | None
) -> ExceptionCodes:
    known: dict[Any, Any] = dict(codes or {})
    for cls, code in known.items():
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise BadOption(f"exception_codes maps classes of exceptions to codes, and {cls!r} is none")
        check_code(code, own=True)
    if default is not None:
        check_code(default, own=True)
    return ExceptionCodes(known, default, behind)
