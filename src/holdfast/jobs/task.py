"""A task: a function that workers run in the background, and everything that was declared about it.

Calling it runs the function here and now, without a queue. Sending it is sending.py's business.

1. A failure always has a code. For a raised exception it is that of the nearest class among the task's
   `exception_codes`, then among the app's; then the task's default code, then the app's, then
   UNHANDLED_EXCEPTION.
2. What a function takes and gives is read from its annotations once; `TaskResult[T, E]` and plain `T` both
   mean a result of T.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, get_args, get_origin

from msgspec import Struct

from holdfast.jobs.codes import OperationalCode
from holdfast.jobs.result import TaskError, TaskResult
from holdfast.payloads.signature import Signature, signature_of
from holdfast.protocol.jobs import RetryRule
from holdfast.steps.middleware import Middlewares

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
E = TypeVar("E", bound=TaskError)

Mode = Literal["auto", "thread", "async", "process"]
MODES: Final = ("auto", "thread", "async", "process")
DEFAULT_QUEUE: Final = "default"


class ExceptionCodes(Struct, frozen=True):
    """Codes for exceptions, by class; `behind` is asked for what is not found here."""

    by_class: Mapping[type[BaseException], str]
    default: str | None = None
    behind: "ExceptionCodes | None" = None

    def of(self, error: BaseException) -> str:
        found = self._find(type(error)) or self._find_default()
        return found or OperationalCode.UNHANDLED_EXCEPTION

    def _find(self, cls: type[BaseException]) -> str | None:
        for ancestor in cls.__mro__:
            if (code := self.by_class.get(ancestor)) is not None:
                return code
        return None if self.behind is None else self.behind._find(cls)

    def _find_default(self) -> str | None:
        return self.default or (None if self.behind is None else self.behind._find_default())


NO_CODES: Final = ExceptionCodes({})


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task is queued and run."""

    queue: str = DEFAULT_QUEUE
    retry: RetryRule | None = None
    priority: int | None = None  # None: that of the queue
    time_limit_s: float | None = None  # of one attempt
    keep_ms: int | None = None  # after its end; None: as long as everything else
    mode: Mode = "auto"
    codes: ExceptionCodes = NO_CODES


class TaskDefinition(Generic[P, R, T, E]):
    """What `@app.task` makes of a function. `R` is what a call gives, `T` and `E` what a result holds."""

    def __init__(self, function: Callable[P, R], name: str, options: TaskOptions) -> None:
        self.function = function
        self.name = name
        self.options = options
        self.queue = options.queue
        self.retry = options.retry
        self.time_limit_s = options.time_limit_s
        self.mode: Mode = options.mode
        hint = type(None) if self.signature.gives_none else self.signature.returns
        self.gives_result = hint is TaskResult or get_origin(hint) is TaskResult
        inside: list[Any] = [*get_args(hint)] if self.gives_result else [hint, TaskError]
        returns, error_type = inside or [Any, TaskError]
        self.returns: Any = type(None) if returns is None else returns
        is_error = isinstance(error_type, type) and issubclass(error_type, TaskError)
        self.error_type: type[TaskError] = error_type if is_error else TaskError
        self.middlewares: Middlewares | None = None  # those of its app
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @property
    def signature(self) -> Signature:
        return signature_of(self.function)

    def code_of(self, error: BaseException) -> str:
        """The code under which a raised exception fails the task."""
        return self.options.codes.of(error)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name} of queue {self.queue}>"


AnyTask = TaskDefinition[..., Any, Any, Any]
