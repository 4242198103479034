# pyright: reportPrivateUsage=false
"""The signal handed to step functions: a one-way flag that says "nobody wants this result any more".

A step runs outside the fibers (another thread, another task), so it cannot be thrown into. It looks at
its signal instead, or registers a callback that tears its work down.

1. A signal is set at most once and keeps its first reason.
2. Setting a signal sets its children first to last; a child of a set signal is born set.
3. A parent holds its children weakly: a finished step's signal costs its parent nothing.
4. Each callback runs exactly once, also when `set` and `on_set` race on two threads: a callback is run
   by whoever removes it from the dict, and removal is atomic.
5. All flags are up before the first callback runs. Callbacks run outside of fibers: those of a signal that a
   fiber sets run after the drain, in the order of setting. So they can call nothing durable.
6. A callback that raises disturbs nobody: its error is reported, and the others run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakValueDictionary

from holdfast.runtime.slot import slot

_keys = count()


class Signal:
    """Whether this work was cancelled, and why."""

    __slots__ = ("__weakref__", "_callbacks", "_children", "_key", "_parent", "_reason", "_report")

    def __init__(self, report: Callable[[BaseException], None] | None = None) -> None:
        """`report` is told of callbacks that raised, of this signal and of all below it."""
        self._report = report
        self._key = 0
        self._reason: BaseException | None = None
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._children: WeakValueDictionary[int, Signal] | None = None
        self._parent: Signal | None = None

    @property
    def is_set(self) -> bool:
        """Whether the result is no longer needed."""
        return self._reason is not None

    @property
    def reason(self) -> BaseException | None:
        """The error behind it: `Cancelled`, `FiberInterrupted`, `ExecutionClosed`, or the interrupter's."""
        return self._reason

    def raise_if_set(self) -> None:
        """Raise `reason` if the signal is set."""
        if self._reason is not None:
            raise self._reason

    def on_set(self, callback: Callable[[], None]) -> Callable[[], bool]:
        """Run `callback` once when the signal is set, now if it already is. Returns a function
        that withdraws it, and answers False if it was run already.

        It runs outside of the workflow: nothing durable can be called in it. What it raises is reported.
        """
        key = next(_keys)
        callbacks = self._callbacks
        callbacks[key] = callback
        if self._reason is not None:
            _tell([self])
        return lambda: callbacks.pop(key, None) is not None

    def child(self) -> Signal:
        """A signal that is set when this one is, and can be set alone."""
        child = Signal()
        child._hang_under(self)
        child._reason = self._reason
        return child

    def move_under(self, parent: Signal) -> None:
        """From now on it is set when `parent` is, and no longer with the one it was under."""
        if self._parent is not None and self._parent._children is not None:
            self._parent._children.pop(self._key, None)
        self._hang_under(parent)
        if parent._reason is not None:
            self.set(parent._reason)

    def _hang_under(self, parent: Signal) -> None:
        self._parent = parent
        if parent._children is None:
            parent._children = WeakValueDictionary()
        self._key = next(_keys)
        parent._children[self._key] = self

    def set(self, reason: BaseException) -> None:
        """Set this signal and all below it. Later calls change nothing."""
        waiting: list[Signal] = [self]
        told: list[Signal] = []
        while waiting:
            signal = waiting.pop()
            if signal._reason is not None:
                continue
            signal._reason = reason
            if signal._callbacks:
                told.append(signal)
            if signal._children is not None:
                waiting.extend(reversed(list(signal._children.values())))
        if told:
            _tell(told)

    def _run_callbacks(self) -> None:
        callbacks = self._callbacks
        for key in tuple(callbacks):
            callback = callbacks.pop(key, None)
            if callback is not None:
                try:
                    callback()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    self._callback_failed(error)

    def _callback_failed(self, error: BaseException) -> None:
        signal: Signal | None = self
        while signal is not None and signal._report is None:
            signal = signal._parent
        if signal is not None and signal._report is not None:
            signal._report(error)
        else:
            args = SimpleNamespace(
                exc_type=type(error),
                exc_value=error,
                exc_traceback=error.__traceback__,
                err_msg="A callback of a signal raised",
                object=self,
            )
            sys.unraisablehook(cast(Any, args))

    def __repr__(self) -> str:
        return f"<Signal {f'set: {self._reason!r}' if self.is_set else 'not set'}>"


def _tell(signals: list[Signal]) -> None:
    """Run the callbacks: here, unless a fiber is running here."""
    scheduler = slot.scheduler
    if scheduler is not None:
        scheduler.signalled += signals
    else:
        run_callbacks(signals)


def run_callbacks(signals: list[Signal]) -> None:
    for signal in signals:
        signal._run_callbacks()
