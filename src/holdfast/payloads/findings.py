"""Mistakes in an app, as a list: for `holdfast check`, which reports all of them at once.

Normally a bad declaration raises. While somebody collects, it is written down with its place instead, and the
declaration is left out or made harmless, so that the rest of the module can be read too.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.protocol.errors import HoldfastError


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


def finding(error: HoldfastError, file: str | None, line: int | None) -> Finding:
    what = str(getattr(error, "what", error))
    return Finding(error.code, what, str(getattr(error, "hint", "")) or default_help, file, line)


default_help: Final = "Change it as the sentence says; docs/reference/tasks.md has all options."


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
