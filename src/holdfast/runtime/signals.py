"""The signal handed to step functions: a one-way flag that says "nobody wants this result any more".

A step runs outside the fibers (another thread, another task), so it cannot be thrown into. It looks at
its signal instead, or registers a callback that tears its work down.

1. A signal is set at most once and keeps its first reason.
2. Setting a signal sets its children first to last; a child of a set signal is born set.
3. A parent holds its children weakly: a finished step's signal costs its parent nothing.
4. Each callback runs exactly once, also when `set` and `on_set` race on two threads: a callback is run
   by whoever removes it from the dict, and removal is atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from weakref import WeakValueDictionary

_keys = count()


class Signal:
    """Was this work called off, and why."""

    __slots__ = ("__weakref__", "_callbacks", "_children", "_parent", "_reason")

    def __init__(self) -> None:
        self._reason: BaseException | None = None
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._children: WeakValueDictionary[int, Signal] | None = None
        self._parent: Signal | None = None

    @property
    def is_set(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> BaseException | None:
        """The error behind it: `Cancelled`, `TaskInterrupted`, `ExecutionClosed` or the interrupter's own."""
        return self._reason

    def raise_if_set(self) -> None:
        if self._reason is not None:
            raise self._reason

    def on_set(self, callback: Callable[[], None]) -> Callable[[], bool]:
        """Run `callback` once when the signal is set, now if it already is. Returns a way to withdraw it,
        which tells whether there still was something to withdraw."""
        key = next(_keys)
        callbacks = self._callbacks
        callbacks[key] = callback
        if self._reason is not None:
            _run(callbacks, key)
        return lambda: callbacks.pop(key, None) is not None

    def child(self) -> Signal:
        """A signal that is set when this one is, and can be set alone."""
        child = Signal()
        child._parent = self
        if self._children is None:
            self._children = WeakValueDictionary()
        self._children[next(_keys)] = child
        child._reason = self._reason
        return child

    def set(self, reason: BaseException) -> None:
        """Set this signal and all below it. Later calls change nothing."""
        waiting: list[Signal] = [self]
        while waiting:
            signal = waiting.pop()
            if signal._reason is not None:
                continue
            signal._reason = reason
            for key in tuple(signal._callbacks):
                _run(signal._callbacks, key)
            if signal._children is not None:
                waiting.extend(reversed(list(signal._children.values())))

    def __repr__(self) -> str:
        return f"<Signal {f'set: {self._reason!r}' if self.is_set else 'not set'}>"


def _run(callbacks: dict[int, Callable[[], None]], key: int) -> None:
    callback = callbacks.pop(key, None)
    if callback is not None:
        callback()
