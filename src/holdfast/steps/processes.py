"""Processes for steps that compute: a bounded pool of children, each at one step at a time.

Orders and answers cross as JSON (child.py has the other side); a function crosses as the name it can be
imported by.

1. A child that dies, or is killed because its step ran out of time or was called off, takes one step with it
   and nothing else. The next step gets another child.
2. A child leads a process group of its own: killing it kills what it started, and a Ctrl-C at the terminal
   does not reach it behind the parent's back. (Windows: killing it leaves what it started.)
3. `close` leaves no child.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, cast

from holdfast.payloads import error_values
from holdfast.payloads.errors import StepNotImportable, StepProcessDied, UnencodablePayload
from holdfast.payloads.payloads import dump, load
from holdfast.payloads.signature import signature_of
from holdfast.runtime.step import Step
from holdfast.steps.carried import carried_here
from holdfast.steps.child import EMITTED, ERROR, FRAME_BYTES_MAX, LENGTH_BYTES, PROGRESS, AppLocation, Hello
from holdfast.steps.here import emitter_of, info_of

# Not `-m`: the package imports child.py, and running a module that is imported already makes Python warn.
BOOT: Final = "from holdfast.steps.child import main; main()"

_apart: dict[str, Any] = {"start_new_session": True}
if sys.platform == "win32":
    _apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


class Processes:
    """A pool that belongs to one event loop."""

    def __init__(self, processes_max: int, app_location: AppLocation | None = None) -> None:
        self._app_location = app_location
        self._slots = asyncio.Semaphore(processes_max)
        self._idle: list[_Child] = []
        self._reaping: set[asyncio.Task[None]] = set()

    async def perform(
        self,
        step: Step,
        attempt: int,
        begins: Callable[[], None],
        given: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    ) -> Any:
        """Have a child perform the step, and call `begins` when it does. Cancelling kills that child.

        `given`: other arguments, for this attempt.
        """
        function, args, kwargs = _unfolded(step.function, *(given or (step.args, step.kwargs)))
        module, qualname = _importable(function, step.name)
        order = dump(
            {
                "module": module,
                "qualname": qualname,
                "args": args,
                "kwargs": kwargs,
                "attempt": attempt,
                "info": info_of(step),
                "carried": carried_here(step.context),
            }
        )
        async with self._slots:
            child = self._idle_child() or await self._spawn()
            try:
                answer = await child.ask(order, step.name, begins, partial(_emit, step, attempt))
            except BaseException:
                self._discard(child)
                raise
            self._idle.append(child)
        if answer[:1] == ERROR:
            raise error_values.restore(load(answer[1:]), {})
        return load(answer[1:], signature_of(function).returns)

    async def close(self) -> None:
        """Kill every child and wait until it is gone. The steps were called off before."""
        while self._idle:
            self._discard(self._idle.pop())
        while self._reaping:
            await asyncio.wait(self._reaping)

    def pids(self) -> list[int]:
        """The idle children."""
        return [child.pid for child in self._idle]

    def _idle_child(self) -> _Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._discard(child)
        return None

    async def _spawn(self) -> _Child:
        spawning = asyncio.create_task(_Child.spawn(self._app_location))
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            # Called off while the child starts: wait until it has, so that it can be killed.
            self._discard(await spawning)
            raise

    def _discard(self, child: _Child) -> None:
        child.kill()
        reaping = asyncio.create_task(child.reap())
        self._reaping.add(reaping)
        reaping.add_done_callback(self._reaping.discard)


class _Child:
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self.pid = process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @staticmethod
    async def spawn(app_location: AppLocation | None) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BOOT, stdin=PIPE, stdout=PIPE, **_apart
        )
        child = _Child(process)
        child._write(dump(_hello(app_location)))
        return child

    async def ask(
        self,
        order: bytes,
        step_name: str,
        begins: Callable[[], None],
        emitted: Callable[[bytes], Awaitable[None]],
    ) -> bytes:
        if len(order) > FRAME_BYTES_MAX:
            raise UnencodablePayload(f"The arguments of {step_name} take {len(order)} bytes as JSON")
        try:
            self._write(order)
            await self._stdin.drain()
            await self._read()
            begins()
            while (frame := await self._read())[:1] == EMITTED:
                await emitted(frame[1:])
            return frame
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            status = await self._process.wait()
            how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise StepProcessDied(f"The process {self.pid} that performed {step_name} was {how}") from error

    async def _read(self) -> bytes:
        length = await self._stdout.readexactly(LENGTH_BYTES)
        return await self._stdout.readexactly(int.from_bytes(length, "big"))

    def kill(self) -> None:
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self.pid, signal.SIGKILL)

    async def reap(self) -> None:
        self._stdin.close()
        await self._process.wait()
        with suppress(ConnectionError):
            await self._stdin.wait_closed()
        # The transport of the process has no public way to its close.
        cast(Any, self._process)._transport.close()

    def _write(self, frame: bytes) -> None:
        self._stdin.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)


async def _emit(step: Step, attempt: int, frame: bytes) -> None:
    """A child has emitted a value. Its next frame is read once there is room: so a child waits, too."""
    emitter = emitter_of(step)
    if emitter is not None:
        stream, name, value = load(frame)
        if stream == PROGRESS:
            emitter.report(*value)
            return
        info = info_of(step)
        number = attempt if info is None or info.step is not None else info.attempt
        await emitter.put(stream, value, number, name)


def _hello(app_location: AppLocation | None = None) -> Hello:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return Hello(list(sys.path), spec.name if spec is not None else None, file, app_location)


def _unfolded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A partial is its function with more arguments; `named` makes them without any."""
    while isinstance(function, partial):
        inner = cast(Any, function)
        function, args, kwargs = inner.func, (*inner.args, *args), {**inner.keywords, **kwargs}
    return function, args, kwargs


def _importable(function: Callable[..., Any], step_name: str) -> tuple[str, str]:
    def refuse(why: str) -> NoReturn:
        raise StepNotImportable(f"The step {step_name} cannot run in a process of its own: {why}")

    module_name, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualname, str):
        refuse(f"{function!r} has no module and name")
    found = named(module_name, qualname)
    # A declared step is found by the name of its function, and called in a child it is that function.
    if found is not function and getattr(found, "plain", None) is not function:
        refuse(f"{module_name}:{qualname} is not the function itself")
    if not reaches(module_name):
        refuse("it was typed at a prompt, where a child cannot find it")
    return module_name, qualname


def named(module_name: str, qualname: str) -> Any:
    """What this process calls by this name, or None."""
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def reaches(module_name: str) -> bool:
    """Can a child import this module?"""
    return module_name != "__main__" or _hello().main_name is not None or _hello().main_file is not None
