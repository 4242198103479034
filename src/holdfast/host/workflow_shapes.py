"""What may be declared as a workflow: an `async def`, a generator function, a method, a class, a catch-all.

1. A class is a workflow by its method `run`. Each execution, and each replay of it, makes an object of it, so
   what it keeps in its attributes is rebuilt like local variables.
2. A method is a workflow of the object that the app provides for its class (`app.provide(Orders, orders)`):
   that object is never stored. It is recorded under `Orders.checkout`.
3. A fallback gets the name that was asked for first, then the arguments.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from holdfast.jobs.errors import BadOption
from holdfast.workflow.fallback import without_first


def read_loop(function: Callable[..., Any], given: object) -> Any:
    if given not in (None, "asyncio"):
        raise BadOption(f'loop must be "asyncio" or None, not {given!r}')
    if given is not None and inspect.isgeneratorfunction(inspect.unwrap(function)):
        raise BadOption('loop="asyncio" needs an `async def`, and this is a generator function')
    return given


def is_durable(function: Callable[..., Any]) -> bool:
    """Is it written so that it can wait? Also under a decorator (with functools.wraps), or as an object."""
    forms = (function, inspect.unwrap(function), getattr(function, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(form) or inspect.isgeneratorfunction(form) for form in forms)


def function_of(given: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a workflow; of a class, one that makes an object and calls its `run`."""
    if not isinstance(given, type):
        return given
    run = given.__dict__.get("run") or getattr(given, "run", None)
    if not inspect.isfunction(run):
        raise BadOption(f"A workflow class needs a method `run`, and {given.__qualname__} has none")
    made = cast("Callable[[], Any]", given)

    @wraps(run)
    def function(*args: Any, **kwargs: Any) -> Any:
        return made().run(*args, **kwargs)

    without_first(function, run)
    function.__name__, function.__doc__ = given.__name__, given.__doc__ or run.__doc__
    function.__qualname__ = given.__qualname__
    return function


def name_of(given: Callable[..., Any]) -> str:
    """Under which it is recorded: a method has its class in front."""
    name = str(getattr(given, "__name__", type(given).__name__))
    path = str(getattr(given, "__qualname__", "")).rpartition("<locals>.")[2]
    if not isinstance(given, type) and path.endswith(f".{name}") and _takes_self(given):
        return path
    return name


def _takes_self(given: Callable[..., Any]) -> bool:
    code = getattr(inspect.unwrap(given), "__code__", None)
    return code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",)
