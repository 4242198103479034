"""The event loop of a process of ours that does nothing else, and how such a process is told to stop.

1. It is uvloop where that is installed (the extra `server` brings it), asyncio's own elsewhere.
2. SIGTERM and SIGINT are taken on the loop. Windows has no handlers on a loop: there Python's own handler
   hands the signal over, and Ctrl-Break, the one that a process can send to another there, counts as well.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run_on_fast_loop(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`. Not called in the `except`: every traceback would begin with the missing uvloop."""
    run: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run
    try:
        import uvloop
    except ImportError:
        pass
    else:
        run = uvloop.run
    return run(main)


def on_stop_signals(told: Callable[[signal.Signals], None]) -> None:
    """Call `told` on the running loop for each signal that asks this process to stop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, told, number)
        except NotImplementedError:
            _hand_over(loop, told, number)
    if ctrl_break := getattr(signal, "SIGBREAK", None):
        _hand_over(loop, told, ctrl_break)


def _hand_over(
    loop: asyncio.AbstractEventLoop, told: Callable[[signal.Signals], None], number: signal.Signals
) -> None:
    def handle(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(told, signal.Signals(number))

    signal.signal(number, handle)
