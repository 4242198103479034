"""Calls in the code of a workflow whose result is dropped at once: `charge(card)` for `await charge(card)`.

Such a workflow goes on without the result, and may end before the step has begun; an error of the step is
seen by nobody. asyncio warns of coroutines that were never awaited. This is the same for steps, calls, timers
and combinators.

Whether the result is dropped is read off the code of the caller: the instruction after the call throws it
away. That is looked up once for each place that calls, by the determinism guard, which is told of the calls
that workflow code makes anyhow. So the way of a step costs nothing more. Not found: a result that is kept in
a variable and never awaited.
"""

import dis
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from holdfast import runtime
from holdfast.runtime.errors import NotAwaited

_codes_max: Final = 1_000

_functions: Final[dict[object, str]] = {}  # and how users know them
_by_code: Final[dict[CodeType, str]] = {}
_made: Final = "__holdfast_awaited__"  # how users know a function that is made for them
_classes: Final[list[type[Any]]] = []  # whose objects are called


def expect_await(*functions: Callable[..., Any], calls_of: tuple[type[Any], ...] = ()) -> None:
    """The calls of these, and of objects of these classes, are of no use to who does not await them."""
    for function in functions:
        name = f"hf.{function.__name__}"
        _functions[function] = name
        _by_code[function.__code__] = name
    for cls in calls_of:
        _classes.append(cls)
        _by_code[getattr(cls, "__call__").__code__] = ""  # noqa: B004, B009


def expect_await_of_made(function: Callable[..., Any], name: str) -> None:
    """The same for one of many functions that share their code. Each has `made_as` in its frame."""
    setattr(function, _made, name)
    _by_code[function.__code__] = _made


def name_of(called: Any) -> str | None:
    """How users know what is called, if it must be awaited."""
    if type(called) in _classes:
        return str(called.__name__)
    if type(called) is FunctionType and _made in called.__dict__:
        return str(getattr(called, _made))
    try:
        return _functions.get(called)
    except TypeError:  # somebody's callable that cannot be hashed
        return None


def name_of_code(frame: FrameType) -> str | None:
    """The same by the frame of what was called."""
    name = _by_code.get(frame.f_code)
    if name == _made:
        return str(frame.f_locals["made_as"])
    return str(frame.f_locals["self"].__name__) if name == "" else name


def is_dropped(code: CodeType, offset: int) -> bool:
    """Is the result of the call at this place thrown away?"""
    offsets, dropped = _calls(code)
    place = bisect_right(offsets, offset) - 1  # a call may be found at the end of its instruction
    return place >= 0 and dropped[place]


@lru_cache(_codes_max)
def _calls(code: CodeType) -> tuple[list[int], list[bool]]:
    """The offsets of all instructions; and which of them are calls whose result is thrown away."""
    found = list(dis.get_instructions(code))
    names = [each.opname for each in found] + [""]
    dropped = [name.startswith("CALL") and names[at + 1] == "POP_TOP" for at, name in enumerate(names[:-1])]
    return [each.offset for each in found], dropped


def sentence(name: str, file: str, line: int, function: str) -> str:
    return (
        f"The result of {name}(...) is not awaited ({file}:{line}, in {function}): the workflow goes on "
        f"without it, and may end before it is done. Write `await {name}(...)`; or keep what the call "
        f"returns, and await that later. [{NotAwaited.code}]"
    )


expect_await(
    runtime.gather,
    runtime.race,
    runtime.any_of,
    runtime.all_settled,
    runtime.select,
    runtime.shield,
    runtime.map_over,
)
