"""While fibers run, asyncio finds no event loop of its own: what it would do there could not be repeated.

Fibers are driven by a task of the worker's loop. Left to itself, `asyncio.timeout()` in a workflow would take
that task for its own and cancel it, and `asyncio.create_task()` would start what no replay knows of. So for
the length of a drain the running loop is one that refuses everything, at the line where it is asked.
"""

import sys

# asyncio exports both, for whoever makes loops.
from asyncio import _get_running_loop, _set_running_loop  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

from holdfast.workflow.errors import NoAsyncioHere
from holdfast.workflow.guard import guard

P = ParamSpec("P")
T = TypeVar("T")


class _NoLoop:
    """What `asyncio.get_running_loop()` gives to code of a workflow."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NoAsyncioHere(
            "A workflow has no asyncio event loop: a replay could not repeat what asyncio does"
        )


_no_loop: Any = _NoLoop()


def is_in_workflow() -> bool:
    """Does code of a workflow run on this thread?"""
    loop: Any = _get_running_loop()
    return loop is _no_loop or (loop is not None and getattr(loop, "is_of_workflow", False))


def without_loop(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what drives fibers."""
    loop = _get_running_loop()
    _set_running_loop(_no_loop)
    try:
        return function(*args, **kwargs) if guard.profile is None else _profiled(function, *args, **kwargs)
    finally:
        _set_running_loop(loop)


def _profiled(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    previous = sys.getprofile()
    if previous is not None and not guard.strict_users:  # a profiler of the user's measures: leave it to that
        return function(*args, **kwargs)
    sys.setprofile(guard.profile)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setprofile(previous)
