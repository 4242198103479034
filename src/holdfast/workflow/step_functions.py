"""Steps: functions that a workflow performs outside its own code, once, and whose results are recorded.

`@step` declares one of our own, with its options; `run` performs any other function; `transact` performs one
in a transaction of the user's database.

1. Called in the code of a workflow, a declared step is a recorded step. Called anywhere else (in a script, a
   test, another step, a task) it is the plain function.
2. A step is recorded under its function's name, or under `name`, also when it is a method. The object of the
   method is not recorded: after a crash the step is performed with the object that the workflow has then.
3. Options that are given at the call replace those of the declaration, one by one.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from types import FunctionType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from msgspec.structs import replace

from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.errors import BadRetry, BadStepOption
from holdfast.payloads.signature import signature_of
from holdfast.runtime import Future
from holdfast.runtime.slot import current_fiber, slot
from holdfast.steps.retry import Retry, check_for_step
from holdfast.steps.step_run import MODES, Mode
from holdfast.workflow.not_awaited import expect_await
from holdfast.workflow.operations import StepOperation, StepOptions

P = ParamSpec("P")
Rest = ParamSpec("Rest")
R = TypeVar("R")
T = TypeVar("T")

_option_names = ("retry", "timeout", "name", "mode")
_no_options: Final = StepOptions()


class StepFunction(Generic[P, R, T]):
    """What `@step` makes of a function that gives a `T`; `R` is what the plain call returns.

    `plain` is the function itself, for a type checker too: outside a workflow `charge(...)` and
    `charge.plain(...)` are the same call.
    """

    __name__: str

    def __init__(self, function: Callable[P, R], options: StepOptions) -> None:
        update_wrapper(cast(Any, self), function)
        self.plain = function
        self.options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if slot.scheduler is None:
            return cast(Future[T], self.plain(*args, **kwargs))
        return _issue(self.plain, args, kwargs, self.options)

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(
        self: "StepFunction[Concatenate[Any, Rest], R, T]", instance: object, owner: type[Any] | None = None
    ) -> "StepFunction[Rest, R, T]": ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """As a method: the step of that object."""
        if instance is None:
            return self
        bound: Callable[..., Any] = cast(Any, self.plain).__get__(instance, owner)
        return StepFunction[..., Any, Any](bound, self.options)

    def with_options(
        self,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        name: str | None = None,
        mode: Mode | None = None,
    ) -> "StepFunction[P, R, T]":
        """The same step with other options: `await charge.with_options(timeout="5s")(card, cents)`."""
        given = {"retry": retry, "timeout": timeout, "name": name, "mode": mode}
        return StepFunction(self.plain, _changed(self.plain, self.options, given))

    def __repr__(self) -> str:
        return f"<step {self.options.name or self.plain.__name__}>"


class StepDecorator(Protocol):
    """`@step(...)`, waiting for the function."""

    @overload  # the first that fits is meant
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> StepFunction[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> StepFunction[P, T, T]: ...


@overload  # the first that fits is meant
def step(  # pyright: ignore[reportOverlappingOverload]
    function: Callable[P, Coroutine[Any, Any, T]], /
) -> StepFunction[P, Coroutine[Any, Any, T], T]: ...
@overload
def step(function: Callable[P, T], /) -> StepFunction[P, T, T]: ...
@overload
def step(
    *,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    name: str | None = None,
    mode: Mode | None = None,
) -> StepDecorator: ...
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    name: str | None = None,
    mode: Mode | None = None,
) -> Any:
    """Declare a step: in a workflow `await` it like a function, and its result is recorded.

    `retry`: when a failure is tried again. `timeout`: how long one attempt may take. `name`: what it is
    recorded under, the function's own if not given. `mode`: "thread", "async" or "process"; chosen by the
    function otherwise.

    Crash: a step that was recorded is not repeated; one that was under way is performed again. Cancellation:
    its signal is set. Outside a workflow the call is that of the plain function, without any option.

    >>> @step(retry=Retry(attempts=5), timeout="30s")
    ... def charge(card: str, cents: int) -> str: ...
    >>> receipt = await charge(card, cents)
    """
    given = {"retry": retry, "timeout": timeout, "name": name, "mode": mode}

    def declare(function: Any) -> StepFunction[..., Any, Any]:
        if isinstance(function, StepFunction):
            raise BadStepOption(f"{function!r} is already a step")
        if isinstance(function, staticmethod | classmethod) or not callable(function):
            kind = type(cast(Any, function)).__name__
            raise BadStepOption(f"A step is a function, not a {kind}: write @step below @{kind}")
        return StepFunction(function, _changed(function, _no_options, given))

    return declare if function is None else declare(function)


# With an option the arguments are not checked: a ParamSpec leaves no room for keywords of our own.
@overload
def run(function: Callable[..., Awaitable[T]], /, *args: Any, retry: Retry, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, retry: Retry, **kwargs: Any) -> Future[T]: ...
@overload
def run(
    function: Callable[..., Awaitable[T]], /, *args: Any, timeout: Duration, **kwargs: Any
) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, timeout: Duration, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[..., Awaitable[T]], /, *args: Any, name: str, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, name: str, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[..., Awaitable[T]], /, *args: Any, mode: Mode, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[..., T], /, *args: Any, mode: Mode, **kwargs: Any) -> Future[T]: ...
@overload
def run(function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
@overload
def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
def run(function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Perform a function as a step, and record its result. Use it for functions of a library; declare your
    own steps with `@step`.

    Options beside the function's own arguments: `retry` (a `Retry`), `timeout` (of one attempt), `name`, and
    `mode` ("thread", "async" or "process"; chosen by the function otherwise).

    Crash: a step that was recorded is not repeated; one that was under way is performed again. Cancellation:
    its signal is set. Its error, once retries are used up, is raised where the result is awaited.

    >>> receipt = await run(charge, card, total, retry=Retry(attempts=5))
    """
    if not kwargs and type(function) is FunctionType and function.__name__ != "<lambda>":
        return _issue(function, args, kwargs, _no_options)  # nothing to look for, as nearly always
    function, options = _with_options(function, kwargs)
    return _issue(function, args, kwargs, options)


@overload
def transact(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    on: Any,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Future[T]: ...
@overload
def transact(
    function: Callable[..., T],
    /,
    *args: Any,
    on: Any,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Future[T]: ...
def transact(function: Any, /, *args: Any, on: Any, **kwargs: Any) -> Future[Any]:
    """Perform a step in one transaction of your own database, together with the record that it happened:
    exactly once.

    The function gets the open connection or session first, then its arguments. It must not commit. `on` says
    where to connect: a `pathlib.Path` of a SQLite file, a pool of psycopg or asyncpg, an engine or a
    sessionmaker of SQLAlchemy, a function that connects, or the name under which the app provides one of
    these. An asynchronous database needs an `async def`, a synchronous one a plain `def`. The options are
    those of `run`, without `mode`.

    Crash: either the function's writes and the record are there, and it is not repeated; or neither is, and
    it is performed again. If it raises, the transaction is rolled back and `retry` decides.

    >>> await hf.transact(credit, "ada", 5, on=engine)
    """
    if on is None:
        raise BadStepOption("on= names the database of a transactional step, and is None")
    function, options = _with_options(function, kwargs)
    if options.mode == "process":
        raise BadStepOption("A transactional step cannot run in a child process: the connection is here")
    return _issue(function, args, kwargs, options, on)


def _with_options(function: Any, kwargs: dict[str, Any]) -> tuple[Callable[..., Any], StepOptions]:
    """The plain function, and the options that were declared or are among the keywords: they leave these."""
    given: dict[str, Any] = {}
    options = _no_options
    if isinstance(function, StepFunction):
        declared = cast(StepFunction[..., Any, Any], function)
        function, options = declared.plain, declared.options
    if kwargs:
        own = _own_words(function)
        given = {key: kwargs.pop(key) for key in _option_names if key in kwargs and key not in own}
    return function, _changed(function, options, given)


def _issue(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: StepOptions,
    database: Any = None,
) -> Future[Any]:
    scheduler = slot.scheduler
    fiber = current_fiber() if scheduler is None or scheduler.running is None else scheduler.running
    step = StepOperation(function, args, kwargs, options, signature_of(function), fiber.signal(), database)
    return fiber.scheduler.issue(step)


def _own_words(function: Callable[..., Any]) -> frozenset[str]:
    """The keywords that are the function's own, and not options of the step."""
    own = signature_of(function).keywords
    # A partial or an object has no name, so one can only be meant for the step.
    return own if hasattr(function, "__name__") else own - {"name"}


def _changed(function: Callable[..., Any], options: StepOptions, given: dict[str, Any]) -> StepOptions:
    """The options with those of `given` that are not None. Nothing here keeps a function: it may be a
    closure.
    """
    if not given and (options.name is not None or getattr(function, "__name__", "<lambda>") != "<lambda>"):
        return options
    retry, timeout, name, mode = (given.get(each) for each in _option_names)
    if not (name is None or (isinstance(name, str) and name)):
        raise BadStepOption(f"name must be a string, not {name!r}")
    if mode is not None and mode not in MODES:
        raise BadStepOption(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    if (name or options.name) is None and getattr(function, "__name__", "<lambda>") == "<lambda>":
        raise TypeError(f"The step {function!r} has no name to be recorded under. Use a def, or pass name=.")
    if not given:
        return options
    if retry is not None and not isinstance(retry, Retry):
        raise BadRetry(f"retry must be a Retry, not {retry!r}")
    if retry is not None:
        check_for_step(retry)
    changes = {
        "name": name,
        "retry": retry,
        "timeout_s": None if timeout is None else duration_s(timeout),
        "mode": mode,
    }
    return replace(options, **{key: value for key, value in changes.items() if value is not None})


expect_await(run, transact, calls_of=(StepFunction,))
