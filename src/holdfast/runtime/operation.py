# pyright: reportPrivateUsage=false
"""Operations: lazy, reusable descriptions of work, and the bodies that run them.

A *body* is a generator or a coroutine object: one run, used up by running. An `Operation` is a function
with its arguments: each `await`, `yield from` or `spawn` of it makes a fresh body, so the same operation
may run many times, also at the same time, also under different schedulers.

Python lets a generator delegate only to iterables and a coroutine only to awaitables. An operation is
both, which is what makes the two styles mixable; `delegate` does that for a bare body.

1. Every body is new when a scheduler takes it: a used or running one is refused with a TypeError.
2. Delegating adds one frame and hides none: a dump still sees the whole chain (diagnosis.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from inspect import CO_COROUTINE, CO_GENERATOR, iscoroutine
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar, cast, overload

from holdfast.runtime.errors import NotAwaited
from holdfast.runtime.future import Future

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Body: TypeAlias = Generator[Any, Any, T] | Coroutine[Any, Any, T]


# The code flags of functions whose call makes a fresh body and does nothing else.
MAKES_BODY: Final = CO_GENERATOR | CO_COROUTINE


class Operation(Generic[T_co]):
    """Work that has not started. `await` it, `yield from` it, or `spawn` it: each of these runs it anew."""

    __slots__ = ("_args", "_function", "_kwargs")

    def __init__(self, function: Callable[..., Body[T_co]], *args: Any, **kwargs: Any) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def _body(self) -> Body[T_co]:
        return self._function(*self._args, **self._kwargs)

    def __iter__(self) -> Generator[Any, Any, T_co]:
        body = body_of(self._body())
        steps: Any = body.__await__() if iscoroutine(body) else body
        return (yield from cast("Generator[Any, Any, T_co]", steps))

    __await__ = __iter__

    def __bool__(self) -> NoReturn:
        raise NotAwaited(f"{self!r} was used as a condition. Await it, or ask `is not None`. [HF5111]")

    def __repr__(self) -> str:
        return f"<operation {getattr(self._function, '__qualname__', self._function)}>"


Waitable: TypeAlias = Future[T] | Operation[T] | Generator[Any, Any, T] | Coroutine[Any, Any, T]


@overload
def operation(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Operation[T]]: ...
@overload
def operation(function: Callable[P, Generator[Any, Any, T]]) -> Callable[P, Operation[T]]: ...
def operation(function: Callable[P, Any]) -> Callable[P, Operation[Any]]:
    """Decorator: calling the function now describes the work instead of starting a body.

    >>> @operation
    ... async def double(x: int) -> int:
    ...     return 2 * x
    >>> twice = double(4)          # nothing has run; `await twice` may be written many times
    """

    @wraps(function)
    def describe(*args: P.args, **kwargs: P.kwargs) -> Operation[Any]:
        return Operation(function, *args, **kwargs)

    return describe


def delegate(work: Waitable[T]) -> Operation[T]:
    """Give `await` to a bare generator and `yield from` to a bare coroutine. Runs once, like its body."""
    if isinstance(work, Operation):
        return work
    return Operation(cast("Callable[..., Body[T]]", _identity), work)


def body_of(work: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """The fresh body behind anything that can be run as a fiber, or a TypeError that says what is wrong."""
    if callable(work):
        work = work(*args, **(kwargs or {}))
    elif args or kwargs:
        raise TypeError(f"Arguments were given for {work!r}, which is not a function.")
    body: Any = work
    if isinstance(body, Operation):
        body = cast(Any, body)._body()
    kind: object = type(cast(object, body))
    if kind is CoroutineType:
        fresh = not (body.cr_frame is None or body.cr_suspended or body.cr_running)
    elif kind is GeneratorType:
        fresh = not (body.gi_frame is None or body.gi_suspended or body.gi_running)
    elif isinstance(body, Future):
        return _identity_body(cast(Any, body))
    else:
        raise TypeError(_not_a_body(body))
    if not fresh:
        raise TypeError(_used(body))
    return body


def _not_a_body(work: object) -> str:
    if isinstance(work, AsyncGeneratorType):
        return (
            f"{work.__qualname__} is an async generator: it yields many values and has no single result. "
            "Loop over it inside an `async def` and spawn that."
        )
    return (
        f"Expected an `async def` or generator function, what calling one returns, an operation or a "
        f"future; got {type(work).__name__}: {work!r}"
    )


def _identity(body: Any) -> Any:
    return body


def _identity_body(future: Future[T]) -> Generator[Any, Any, T]:
    return (yield from future)


def _used(body: Any) -> str:
    kind = "coroutine" if isinstance(body, CoroutineType) else "generator"
    return (
        f"This {kind} of {body.__qualname__} was already started or finished. One {kind} object runs once: "
        f"call the function again, or decorate it with @operation to get something reusable."
    )
