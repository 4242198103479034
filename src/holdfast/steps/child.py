"""The child's side of a step in a process of its own: `main` is what processes.py starts there.

It reads orders from its standard input and answers on its standard output, in frames of a 4-byte length
and JSON. A function is found by module and name, its arguments are typed by its annotations.

An order is answered by two frames: one that is empty when the function begins, so that the time it took to
start the process and to import the function is not counted as its own, and the answer. Between them may be
values that the function emits.

1. What a step prints goes to standard error: standard output belongs to the answers.
2. The child dies with its parent. A thread of its own reads the orders and ends the process when they end,
   also in the middle of a step.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from queue import SimpleQueue
from threading import Lock, Thread
from types import CoroutineType, ModuleType
from typing import Any, BinaryIO, Final, cast

from msgspec import Raw, Struct

from holdfast.payloads import error_values
from holdfast.payloads.errors import StepExited
from holdfast.payloads.messages import type_name
from holdfast.payloads.payloads import dump, load
from holdfast.payloads.signature import StoredCall, signature_of
from holdfast.runtime.step import Step
from holdfast.steps.carried import set_declared
from holdfast.steps.here import StepClaim, step_here
from holdfast.steps.info import ExecutionInfo, StepProgress

FRAME_BYTES_MAX: Final = 1 << 30
LENGTH_BYTES: Final = 4
VALUE: Final = b"+"
ERROR: Final = b"-"
EMITTED: Final = b"!"  # a value for a stream, before the answer
PROGRESS: Final = ""  # no name of a stream: it is progress that is told
MAIN_ALIAS: Final = "__holdfast_main__"


class AppLocation(Struct, frozen=True):
    """Where the node is that the parent works with, for what the child sends and starts."""

    declared_url: str  # by which the parent's app is known again
    url: str | None  # None: in the parent's memory
    token: str | None = None


class Hello(Struct):
    """The first frame: how to find what the parent can find. It may hold a secret, so it is no argument."""

    path: list[str]
    main_name: str | None = None
    main_file: str | None = None
    app_location: AppLocation | None = None


class _Parent:
    """Who this process works for, once it has said so."""

    hello: Hello | None = None
    answers: BinaryIO | None = None
    is_told: bool = True  # that the function of the current order has begun
    carried: Mapping[str, Any] = {}  # with the current order
    importing: str | None = None  # the module that is being imported for the current order


_parent: Final = _Parent()
_writing: Final = Lock()  # the threads of a step may emit at the same time


class ChildRequest(Struct):
    """A step to perform."""

    module: str
    qualname: str
    args: list[Raw]
    kwargs: dict[str, Raw]
    attempt: int
    info: ExecutionInfo | None = None
    carried: dict[str, Any] = {}


def main() -> None:
    orders_in, answers_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    first = _read(orders_in)
    if first is None:
        return
    hello = _parent.hello = load(first, Hello)
    sys.path[:] = hello.path
    orders: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(orders_in, orders), daemon=True).start()
    _parent.answers = answers_out
    while True:
        order = load(orders.get(), ChildRequest)
        _parent.is_told = False
        answer = perform(hello, order)
        sys.stdout.flush()
        begun()  # also when it could not even begin
        _write(answers_out, answer)


def begun() -> None:
    """Tell the parent that the function begins now. A function that `announces_itself` calls this."""
    if not _parent.is_told and _parent.answers is not None:
        _parent.is_told = True
        _write(_parent.answers, b"")


def emit(stream: str, value: Any) -> None:
    """Have the parent append a value to a stream of the execution. Waits while it is busy with others."""
    assert _parent.answers is not None, "this is no child"
    _write(_parent.answers, EMITTED + dump([stream, type_name(value), value]))


def report(fraction: float | None, fields: dict[str, Any]) -> None:
    """Have the parent tell of the progress of the step. In here it is known at once."""
    assert _parent.answers is not None, "this is no child"
    _write(_parent.answers, EMITTED + dump([PROGRESS, "", [fraction, fields]]))
    if (step := step_here()) is not None:
        step.progress = StepProgress(fraction, fields, datetime.now(UTC))


def _write(stream: BinaryIO, frame: bytes) -> None:
    with _writing:
        stream.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        stream.flush()


def perform(hello: Hello, order: ChildRequest) -> bytes:
    try:
        function = find(hello, order.module, order.qualname)
        call = StoredCall(order.qualname, tuple(order.args), order.kwargs)
        args, kwargs = signature_of(function).bind(call, load)
        step = Step(order.qualname, function, args, kwargs, None)
        return VALUE + dump(copy_context().run(_call, step, order))
    except Exception as error:
        return ERROR + dump(error_values.describe(error))
    except BaseException as error:
        exited = StepExited(f"The step {order.qualname} raised {error_values.repr_of(error)}")
        exited.__cause__ = error
        return ERROR + dump(error_values.describe(exited))


def is_child() -> bool:
    return _parent.hello is not None


def importing() -> str | None:
    """The module whose import is under way here, for a step or a task that is declared in it."""
    return _parent.importing


def app_location() -> AppLocation | None:
    return None if _parent.hello is None else _parent.hello.app_location


def find_here(module_name: str, qualname: str) -> Any:
    """What the parent calls by this name. For code that runs in a child.

    Its module may be imported only now, and declare carried variables: they are set here.
    """
    assert _parent.hello is not None, "this is no child"
    found = find(_parent.hello, module_name, qualname)
    set_declared(_parent.carried)
    return found


def find(hello: Hello, module_name: str, qualname: str) -> Any:
    _parent.importing = hello.main_file or module_name if module_name == "__main__" else module_name
    try:
        found: Any = _main_module(hello) if module_name == "__main__" else import_module(module_name)
    finally:
        _parent.importing = None
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _main_module(hello: Hello) -> ModuleType:
    """The parent's main module under another name: its `if __name__ == "__main__"` must not run here."""
    if hello.main_name is not None:
        return import_module(hello.main_name)
    if MAIN_ALIAS not in sys.modules:
        assert hello.main_file is not None
        spec = spec_from_file_location(MAIN_ALIAS, hello.main_file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[MAIN_ALIAS] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN_ALIAS]
            raise
    return sys.modules[MAIN_ALIAS]


def _call(step: Step, order: ChildRequest) -> Any:
    step.claim = None if order.info is None else StepClaim(order.info)
    _parent.carried = order.carried
    set_declared(order.carried)
    if not getattr(step.function, "announces_itself", False):
        begun()
    value = step.perform(order.attempt)
    return asyncio.run(cast(Any, value)) if isinstance(value, CoroutineType) else value


def _receive(orders_in: BinaryIO, orders: SimpleQueue[bytes]) -> None:
    while (frame := _read(orders_in)) is not None:
        orders.put(frame)
    os._exit(0)


def _read(stream: BinaryIO) -> bytes | None:
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    frame = stream.read(int.from_bytes(length, "big"))
    return frame if len(frame) == int.from_bytes(length, "big") else None
