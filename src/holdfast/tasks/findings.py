"""What is wrong with an app, as a list: for `holdfast check`, which wants to tell everything at once.

Normally a bad declaration raises. While somebody collects, it is written down with its place instead, and the
declaration is left out or made harmless, so that the rest of the module can be read too.
"""

import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from msgspec import Struct

from holdfast.protocol.errors import HoldfastError
from holdfast.tasks.errors import BadOption

P = ParamSpec("P")
T = TypeVar("T")


class Finding(Struct, frozen=True):
    """One thing that is wrong, where, and what to do about it."""

    code: str
    what: str
    help: str
    file: str | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file is not None else "?"


_collected: ContextVar[list[Finding] | None] = ContextVar("holdfast findings", default=None)
_package: Final = str(Path(__file__).resolve().parent.parent)


@contextmanager
def collecting() -> Generator[list[Finding]]:
    """Inside this block what is wrong is noted instead of raised."""
    found: list[Finding] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def note(error: HoldfastError, function: Any = None) -> None:
    """Write an error down if somebody collects; raise it otherwise. Call it from an `except`."""
    found = _collected.get()
    if found is None:
        raise error
    found.append(finding(error, *(_place(function) or _caller())))


def read_options(
    of: str, given: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]], function: Any = None
) -> dict[str, Any]:
    """What the readers make of the options, each by itself: those that are refused are left out."""
    read: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if name not in readers:
                raise _unknown(of, name, readers)
            read[name] = readers[name](value)
        except HoldfastError as error:
            note(error, function)
    return read


def named_options(of: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function with options by name: one that it does not have is noted, and the rest are taken."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters.values()
        known = [each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in [name for name in kwargs if name not in known]:
                kwargs.pop(name)
                note(_unknown(of, name, known))
            return function(*args, **kwargs)

        return call

    return decorate


def _unknown(of: str, name: str, known: Iterable[str]) -> BadOption:
    options = [each for each in known if each != "self"]
    nearest = get_close_matches(name, options, 1)
    rest = f"; the nearest is {nearest[0]}" if nearest else f"; there are {', '.join(options)}"
    return BadOption(f"{name} is no option of {of}{rest}")


def finding(error: HoldfastError, file: str | None, line: int | None) -> Finding:
    what = str(getattr(error, "what", error))
    return Finding(error.code, what, str(getattr(error, "hint", "")) or default_help, file, line)


default_help: Final = "Change it as the sentence says; docs/tasks.md has all options."


def _place(function: Any) -> tuple[str, int] | None:
    code = getattr(function, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def place_of(function: Callable[..., Any]) -> tuple[str | None, int | None]:
    return _place(function) or (None, None)


def _caller() -> tuple[str | None, int | None]:
    """The nearest line that is not ours."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(_package):
        frame = frame.f_back  # type: ignore[assignment]
    return (None, None) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
