"""The determinism guard: finds calls in the code of a workflow that a replay could not repeat.

It looks at calls that the user's own code makes: the code of the workflow, and every function of the user's
that is called from there. Libraries are not looked at: a logger may read the clock.

1. Such a call is a warning that names the line and what to use instead, once a line. Under the testing kit
   it is an error.
2. Python 3.12 and newer tell of calls one code object at a time (sys.monitoring), and a place that calls
   nothing of interest is not looked at again: steps and code outside of workflows cost nothing. On 3.11
   there is no such thing: there it looks by a profile function that is set while workflow code runs, always
   under the testing kit, and otherwise only in the first runs of each workflow, for so many calls.
3. It is there while a worker with workflows is open, or a World, and gone after the last.
4. Not seen: what a library calls on the user's behalf, what is called without a call in the code
   (properties, operators, callbacks), and, outside the testing kit, a place that calls something harmless
   first and something else later.
"""

import sys
import sysconfig
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, TracebackType
from typing import Any, Final

from holdfast.runtime.slot import slot
from holdfast.workflow.errors import NondeterminismWarning, NondeterministicCall
from holdfast.workflow.nondeterministic import Instead, by_callable, by_code

_monitoring: Final[Any] = getattr(sys, "monitoring", None)  # since 3.12
has_monitoring: Final = _monitoring is not None
warned_max: Final = 10_000  # lines; after that no more are warned of
first_runs: Final = 3  # of each workflow, that are looked at where every call must be looked at
calls_of_a_run_max: Final = 5_000  # calls and returns; these cost about half a microsecond each

_tool_ids: Final = (4, 3)  # those that Python gives no use to; Hypothesis takes 3, and no other
_not_users: Final = tuple(
    {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).resolve().parent.parent),
        "<frozen",
    }
)
_generated: Final = "__create_fn__."
_is_unguarded: ContextVar[bool] = ContextVar("holdfast unguarded", default=False)


class Unguarded(AbstractContextManager[None]):
    """`with hf.unguarded():` the guard looks away, for those who know why the call does no harm.

    >>> with unguarded():
    ...     began = time.monotonic()   # for the log only
    """

    def __init__(self) -> None:
        self._token: Token[bool] | None = None

    def __enter__(self) -> None:
        self._token = _is_unguarded.set(True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _is_unguarded.reset(self._token)
            self._token = None


def unguarded() -> Unguarded:
    """A block that the determinism guard ignores, for calls that cannot change what the workflow does.

    >>> with hf.unguarded():
    ...     began = time.monotonic()  # only for a log line
    """
    return Unguarded()


class Guard:
    """One in a process."""

    def __init__(self) -> None:
        self._users = 0
        self.strict_users = 0  # worlds of the testing kit
        self._tool: int | None = None
        self._watched: set[CodeType] = set()
        self._warned: set[tuple[str, int]] = set()
        self._table: dict[Any, Instead] = {}
        self._codes: dict[CodeType, list[tuple[Instead, object]]] = {}
        self._runs: dict[CodeType, int] = {}
        self._calls_left = 0  # outside the testing kit
        # To be set while code of workflows runs, where Python cannot tell of calls one by one.
        self.profile: Callable[[FrameType, str, Any], None] | None = None

    # --- life ------------------------------------------------------------------------------------------

    def open(self, *, strict: bool = False) -> None:
        """Look, until closed as often. `strict`: what is found is an error."""
        self._users += 1
        self.strict_users += strict
        self._choose_profile()
        if self._users == 1:
            self._table = by_callable()
            self._codes = by_code(self._table)
            if has_monitoring:
                self._claim_tool()
        if strict and self._tool is not None:
            _monitoring.restart_events()  # places that were harmless so far

    def close(self, *, strict: bool = False) -> None:
        self._users -= 1
        self.strict_users -= strict
        self._choose_profile()
        if self._users == 0:
            if self._tool is not None:
                for code in self._watched:
                    _monitoring.set_local_events(self._tool, code, 0)
                _monitoring.register_callback(self._tool, _monitoring.events.CALL, None)
                _monitoring.free_tool_id(self._tool)
                self._tool = None
            self._watched.clear()
            self._warned.clear()
            self._runs.clear()
            self._calls_left = 0
            self._choose_profile()

    def _choose_profile(self) -> None:
        if has_monitoring or not (self.strict_users or self._calls_left):
            self.profile = None
        else:
            self.profile = self._profiled if self.strict_users else self._counted

    def _claim_tool(self) -> None:
        for tool in _tool_ids:
            if _monitoring.get_tool(tool) is None:
                _monitoring.use_tool_id(tool, "holdfast determinism guard")
                _monitoring.register_callback(tool, _monitoring.events.CALL, self._called)
                self._tool = tool
                return
        message = "The determinism guard is off: other tools use both ids that sys.monitoring has for it."
        warnings.warn(message, NondeterminismWarning, stacklevel=2)

    def watch(self, function: Callable[..., Any]) -> None:
        """The function of a workflow: look at what it calls."""
        if not has_monitoring:
            self._watch_run(getattr(unwrap(function), "__code__", None))
        elif self._tool is not None:
            for form in (function, unwrap(function), getattr(type(function), "__call__", None)):  # noqa: B004
                if isinstance(form, FunctionType):
                    self._watch_code(form.__code__)

    def _watch_run(self, code: CodeType | None) -> None:
        if code is not None and self._users and self._runs.get(code, 0) < first_runs:
            self._runs[code] = self._runs.get(code, 0) + 1
            self._calls_left = calls_of_a_run_max
            self._choose_profile()

    def _watch_code(self, code: CodeType) -> None:
        if code not in self._watched and _is_users(code):
            self._watched.add(code)
            assert self._tool is not None
            _monitoring.set_local_events(self._tool, code, _monitoring.events.CALL)

    # --- looking ---------------------------------------------------------------------------------------

    def _called(self, code: CodeType, offset: int, called: Any, argument: object) -> Any:
        try:
            instead = self._table.get(called)
        except Exception:  # somebody's callable that cannot be hashed
            instead = None
        if instead is None and type(called) is MethodType:
            called = called.__func__
            instead = self._table.get(called)
        if instead is None and type(called) is FunctionType:  # of a method, as Python 3.14 tells of it
            listed = self._codes.get(called.__code__, ())
            instead = next((each for each, own in listed if own is argument), None)
        if instead is not None:
            if slot.scheduler is not None:
                self._found(instead, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
            return None
        made: Any = getattr(called, "__init__") if isinstance(called, type) else called  # noqa: B009
        if type(made) is FunctionType:
            self._watch_code(made.__code__)
        return None if self.strict_users else _monitoring.DISABLE

    def _counted(self, frame: FrameType, event: str, argument: Any) -> None:
        self._calls_left -= 1
        if self._calls_left > 0:
            self._profiled(frame, event, argument)
        else:
            self._calls_left = 0
            self._choose_profile()
            sys.setprofile(None)

    def _profiled(self, frame: FrameType, event: str, argument: Any) -> None:
        instead: Instead | None = None
        caller: FrameType | None = frame
        if event == "c_call":
            instead = self._table.get(argument)
        elif event == "call" and frame.f_code in self._codes:
            meant = [
                each for each, own in self._codes[frame.f_code] if own in (None, frame.f_locals.get("self"))
            ]
            instead, caller = next(iter(meant), None), frame.f_back
        if (
            instead is not None
            and caller is not None
            and slot.scheduler is not None
            and _is_users(caller.f_code)
        ):
            self._found(instead, caller)

    def _found(self, instead: Instead, frame: FrameType) -> None:
        if _is_unguarded.get():
            return
        place = (frame.f_code.co_filename, frame.f_lineno)
        message = (
            f"{instead.name} was called by the code of a workflow ({place[0]}:{place[1]}, in "
            f"{frame.f_code.co_qualname}): a replay would see something else"
        )
        if self.strict_users:
            raise NondeterministicCall(f"{message}. Use {instead.advice}")
        if place not in self._warned and len(self._warned) < warned_max:
            self._warned.add(place)
            text = (
                f"{message}. Use {instead.advice}; or `with hf.unguarded():`. [{NondeterministicCall.code}]"
            )
            warnings.warn_explicit(text, NondeterminismWarning, *place)


def _is_users(code: CodeType) -> bool:
    """What `dataclasses` generates names no file, whoever's class it is for: nobody wrote it."""
    return not code.co_filename.startswith(_not_users) and not code.co_qualname.startswith(_generated)


guard: Final = Guard()
