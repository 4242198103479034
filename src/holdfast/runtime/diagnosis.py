# pyright: reportPrivateUsage=false
"""Diagnosis: what every fiber is doing, in words a person can act on.

A suspended body knows its own frame and what it delegates to, so the whole chain of user code from the
fiber's first function down to the wait can be read off without running anything.

1. Reading never changes anything: no body is advanced, no future is touched.
2. Frames of this package are left out: the user's lines are what helps.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.runtime.driver import Driver, Origin, Report, Trouble
from holdfast.runtime.errors import Deadlock, FiberExited
from holdfast.runtime.future import REJECTED, Future, traceback_of

if TYPE_CHECKING:
    from holdfast.runtime.running_fiber import RunningFiber
    from holdfast.runtime.strands import Strands


_WRAPPERS = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow")


class Line(NamedTuple):
    """One level of a suspended chain."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f'File "{self.file}", line {self.line}, in {self.function}'


class FiberView(NamedTuple):
    """A fiber at rest, as plain data."""

    name: str
    parent: str | None
    state: str
    waits_for: str | None
    stack: tuple[Line, ...]


def snapshot(fibers: Iterable[RunningFiber], strands: Strands | None = None) -> list[FiberView]:
    """One view for each fiber, in spawn order; then one for each strand of another kind."""
    views = [
        FiberView(
            name=fiber.path,
            parent=None if fiber.parent is None else fiber.parent.path,
            state=fiber.state,
            waits_for=None if fiber.waiting is None else fiber.waiting._describe(),
            stack=tuple(suspended_lines(fiber.body)),
        )
        for fiber in fibers
    ]
    if strands is not None:
        views += [
            FiberView(path, None, "parked", None, tuple(suspended_lines(body)))
            for path, body in strands.bodies()
        ]
    return views


def render(views: Iterable[FiberView]) -> str:
    """The views as text, the outermost function of each fiber first."""
    lines: list[str] = []
    for view in views:
        child = "" if view.parent is None else f", child of {view.parent}"
        waits = "" if view.waits_for is None else f", waits for {view.waits_for}"
        lines.append(f"fiber {view.name}{child}: {view.state}{waits}")
        lines.extend(f"    {line}" for line in view.stack)
    return "\n".join(lines)


def explain_deadlock(fibers: Iterable[RunningFiber], strands: Strands | None = None) -> str:
    """The message of a Deadlock: the wait graph, one fiber a paragraph."""
    return (
        "These fibers can never go on: each waits for another of them, or for something that no running "
        "fiber and no pending promise will provide. Let one of them go on without the others. "
        f"[{Deadlock.code}]\n" + render(snapshot(fibers, strands))
    )


def suspended_lines(body: Any) -> Iterator[Line]:
    """The user's lines a suspended body stands at, outermost first."""
    return (_line(frame) for frame in _suspended_frames(body) if not _is_ours(frame))


def _suspended_frames(body: Any) -> Iterator[FrameType]:
    while body is not None:
        kind: Any = type(body)  # pyright: ignore[reportUnknownVariableType]
        if kind is CoroutineType:
            frame, body = body.cr_frame, body.cr_await
        elif kind is GeneratorType:
            frame, body = body.gi_frame, body.gi_yieldfrom
        elif kind.__name__ in _WRAPPERS:
            # CPython's wrappers have no attribute for what they wrap; the collector knows.
            frame, body = None, next(iter(gc.get_referents(body)), None)
        elif kind is AsyncGeneratorType:
            frame, body = body.ag_frame, body.ag_await
        else:
            return
        if frame is not None:
            yield frame


def innermost(body: Any) -> Line | None:
    """The line of the wait itself."""
    line = None
    for line in suspended_lines(body):  # noqa: B007
        pass
    return line


def places(fibers: Iterable[RunningFiber], strands: Strands | None) -> list[Origin]:
    """The lines at which they wait."""
    bodies = ((fiber.path, fiber.body) for fiber in fibers) if strands is None else strands.bodies()
    found = [(path, innermost(body)) for path, body in bodies]
    return [Origin(path, *line) for path, line in found if line is not None]


def place_of(promise: Future[Any], fiber: RunningFiber | None, strands: Strands | None) -> Origin | None:
    """The line at which somebody waits for a promise: the fiber, or where there are strands, one of those.

    A strand that waits in its loop's own way (a timer of asyncio) is known only if it is alone.
    """
    bodies = [] if fiber is None else [(fiber.path, fiber.body)]
    if strands is not None:
        every = [*strands.bodies()]
        bodies = [each for each in every if _waits_for(each[1], promise)] or every[: len(every) == 1]
    for path, body in bodies:
        if (line := innermost(body)) is not None:
            return Origin(path, *line)
    return None


def _waits_for(body: Any, promise: Future[Any]) -> bool:
    """What a suspended strand waits for is a local of the frame of ours that parks it (`Strands.wait`)."""
    frame = None
    for frame in _suspended_frames(body):  # noqa: B007
        pass
    awaited = None if frame is None else frame.f_locals.get("future")
    seen: set[Any] = set()
    left = [awaited]
    while left:
        future = left.pop()
        if future is promise:
            return True
        if isinstance(future, Future) and future not in seen:
            seen.add(future)
            left += future._inputs()
    return False


def raised_at(trace: TracebackType | None) -> str:
    """Where an error came from: the last line of its traceback."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return str(Line(code.co_filename, trace.tb_lineno, code.co_qualname))


def failure(root: RunningFiber | None) -> str | None:
    """What it has failed with, and the line where that was raised."""
    if root is None or root._state != REJECTED:
        return None
    return f"{type(root._value).__name__} (fiber {root.path}, {raised_at(root._trace[0])})"


def find_exit(root: RunningFiber | None) -> BaseException | None:
    """What it has raised that is no `Exception`, if it has ended so."""
    if root is None or root._state != REJECTED or not isinstance(root._value, FiberExited):
        return None
    return root._value.__cause__


def callback_failed(world: Driver, error: BaseException) -> None:
    """A callback of a step's signal has raised."""
    where = raised_at(traceback_of(error))
    world.report(Report(Trouble.CALLBACK_FAILED, "a step's signal", error, where))


def caller(frame: FrameType | None, fiber: str) -> Origin:
    """The nearest line of user code on the running stack."""
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return Origin(fiber, "?", 0, "?")
    return Origin(fiber, *_line(frame))


def _line(frame: FrameType) -> Line:
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("holdfast.")
