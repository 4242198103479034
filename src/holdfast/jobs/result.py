"""The result of a task: a value or an error, never both. And `Ok` or `Err`: was the task sent?

A task function returns `TaskResult(ok=...)` or `TaskResult(err=TaskError(...))`; a plain value counts as ok,
a raised exception as an error whose code is looked up (task.py). `Ok` and `Err` are about the
infrastructure: was the task sent?
"""

from typing import Any, Final, Generic, NoReturn, TypeVar, cast, overload

from msgspec import Struct

from holdfast.jobs.codes import check_code
from holdfast.jobs.errors import NoSuchOutcome, TasksError
from holdfast.runtime import Err, Ok

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)


class TaskError(Struct, frozen=True, kw_only=False):
    """Why a task failed. `exception` is what was raised, if anything was.

    Derive from it to type `data`: `class Declined(TaskError): data: Reason | None = None`.
    """

    error_code: str
    message: str | None = None
    data: Any = None
    exception: BaseException | None = None

    def __post_init__(self) -> None:
        check_code(self.error_code, own=True)

    def __str__(self) -> str:
        return f"{self.error_code}: {self.message}" if self.message else str(self.error_code)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_nothing: Final = _Nothing()


class TaskResult(Generic[T_co, E_co]):
    """
    TaskResult(ok=receipt)
    TaskResult(err=TaskError("CARD_DECLINED", "insufficient funds", data={"card": "4242"}))
    """

    __slots__ = ("_err", "_ok")

    @overload
    def __init__(self, *, ok: T_co) -> None: ...
    @overload
    def __init__(self, *, err: E_co) -> None: ...
    def __init__(self, *, ok: Any = _nothing, err: Any = _nothing) -> None:
        if (ok is _nothing) == (err is _nothing):
            raise TypeError("A TaskResult is either ok= or err=, exactly one of them.")
        if err is not _nothing and not isinstance(err, TaskError):
            raise TypeError(f"The err of a TaskResult is a TaskError, not {type(err).__name__}.")
        self._ok: Any = ok
        self._err: Any = err

    @property
    def is_ok(self) -> bool:
        """Whether it succeeded."""
        return self._err is _nothing

    @property
    def is_err(self) -> bool:
        """Whether it failed."""
        return self._err is not _nothing

    @property
    def ok(self) -> T_co | None:
        """The value, or None when it failed."""
        return cast(T_co, self._ok) if self.is_ok else None

    @property
    def err(self) -> E_co | None:
        """The error, or None when it succeeded."""
        return cast(E_co, self._err) if self.is_err else None

    @property
    def ok_value(self) -> T_co:
        """The value; raises when it failed, with the exception of the task as the cause."""
        if self.is_err:
            raise NoSuchOutcome(f"The task failed: {self._err}") from self._err.exception
        return cast(T_co, self._ok)

    @property
    def err_value(self) -> E_co:
        """The error; raises when it succeeded."""
        if self.is_ok:
            raise NoSuchOutcome("The task succeeded, so there is no error")
        return cast(E_co, self._err)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskResult):
            return NotImplemented
        return bool(self._ok == other._ok and self._err == other._err)

    __hash__ = None  # type: ignore[assignment]  # values need not be hashable

    def __repr__(self) -> str:
        return f"TaskResult(ok={self._ok!r})" if self.is_ok else f"TaskResult(err={self._err!r})"


class NotDone(Err[T]):
    """Something that was asked of a node and was not done; `error` says why."""

    __slots__ = ()

    @property
    def ok_value(self) -> NoReturn:
        cause = self.error if isinstance(self.error, TasksError) else None
        raise NoSuchOutcome(f"It was not done: {self.error}") from cause


__all__ = ["Err", "NotDone", "Ok", "TaskError", "TaskResult"]
