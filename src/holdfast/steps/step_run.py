"""One step under way: its attempts, its time limit, its end. runner.py starts them; nobody else does.

1. Everything here runs on the loop's thread, except the user's function.
2. `start` runs no user code and never calls `done`: it is called on a fiber's stack. The exception is an
   async step that is to begin at once. `_finish` happens once.
3. An attempt is left before the next begins: a late thread or task of an earlier one is not listened to.
4. Each attempt runs in a fresh copy of the step's Context, with a signal of its own below the step's when
   it can time out alone.
5. A step that begins at once is watched, and is one of the running ones, from when it first has to wait.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import TimerHandle
from collections.abc import Callable
from contextvars import Context
from inspect import CO_COROUTINE, isawaitable, iscoroutinefunction
from types import CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast, get_args

from msgspec import Struct

from holdfast.payloads import error_values
from holdfast.payloads.errors import StepCalledOff, StepExited, StepTimedOut
from holdfast.runtime import step as step_module
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import Step, attempt_here
from holdfast.steps import loop_tasks, middleware, threads
from holdfast.steps.loop_tasks import Body
from holdfast.steps.middleware import Entered, await_inside, call_inside
from holdfast.steps.retry import NEVER, Retry, next_delay
from holdfast.steps.threads import ThreadRun

if TYPE_CHECKING:
    from holdfast.steps.runner import StepRunner

Mode = Literal["auto", "thread", "async", "process", "inline"]
MODES: Final = get_args(Mode)
State = Literal["queued", "running", "waiting to retry", "stopping"]

CANCEL_GRACE_S: Final = 5.0


class StepCall(Struct):
    """A step and how to perform it.

    `failed` is called for every attempt that failed while the step was wanted: which, with what, and after
    how many seconds it is tried again (None: it is not). A wait of at least `rest_s` is left to the caller:
    the step ends with an outcome that `rests_s`, and is started again when that is over, with the attempts
    that were `made` and the time since the first of them.
    """

    step: Step
    retry: Retry = NEVER
    time_limit_s: float | None = None
    mode: Mode = "auto"
    at_once: bool = False
    failed: Callable[[Step, int, Exception, float | None], None] | None = None
    rest_s: float | None = None
    made: int = 0
    elapsed_s: float = 0.0
    began_s: float | None = None  # by the loop's clock, if the caller has just looked at it


class StepOutcome(Struct, frozen=True):
    """What came of a step: a value, or the error of its last attempt. With `rests_s` another one follows."""

    value: Any
    error: Exception | None
    attempts: int
    duration_s: float
    rests_s: float | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class RunningStep(NamedTuple):
    """A step under way, for people to look at."""

    name: str
    mode: Mode
    attempt: int
    running_s: float
    state: State


class StepRun:
    """The life of one step, from start to done."""

    __slots__ = (
        "_attempt", "_attempt_signal", "_began_at", "_context", "_done", "_over", "_queued", "_runner",
        "_stop", "_task", "_ticket", "_timer", "_watched", "body", "call", "mode",
    )  # fmt: skip

    def __init__(self, runner: StepRunner, call: StepCall, done: Callable[[StepOutcome], None]) -> None:
        self._runner = runner
        self._done = done
        self.call = call
        self.mode: Mode = _mode_of(call.step.function) if call.mode == "auto" else call.mode
        self._attempt = call.made
        self._attempt_signal: Signal | None = None
        self._began_at = (call.began_s or runner.loop.time()) - call.elapsed_s
        self._task: asyncio.Task[Any] | None = None
        self.body: Body | None = None  # of an attempt that is, or will be, in a task
        self._ticket: ThreadRun | None = None
        self._timer: TimerHandle | None = None
        self._stop: Exception | None = None  # why the current attempt was told to stop
        self._over = False
        self._queued = False  # for a child process; a thread's ticket knows by itself
        self._watched = False

    @property
    def name(self) -> str:
        return self.call.step.name

    def start(self) -> None:
        if self.call.at_once and self.mode == "async" and not self.call.step.is_called_off:
            self._make_attempt()
            return
        self._watch()
        if self.mode == "inline":
            self._runner.loop.call_soon(self._begin, context=self._runner.context)
        else:
            self._begin()

    def describe(self) -> RunningStep:
        state: State = "running"
        if self._stop is not None:
            state = "stopping"
        elif self._queued or (self._ticket is not None and self._ticket.began_at is None):
            state = "queued"
        elif self._ticket is None and self.body is None and self._timer is not None:
            state = "waiting to retry"
        running_s = self._runner.loop.time() - self._began_at
        return RunningStep(self.name, self.mode, self._attempt, running_s, state)

    def _watch(self) -> None:
        """It goes on beyond this turn: it counts as running, and hears when nobody wants it any more."""
        if not self._watched:
            self._watched = True
            self._runner.joined(self)
            self.call.step.watch(self._signalled)

    # -- attempts

    def _begin(self) -> None:
        if self._over or self.call.step.is_called_off:
            return  # in the second case _called_off is on its way
        self._make_attempt()

    def _make_attempt(self) -> None:
        self._timer = None
        self._attempt += 1
        step, limit_s = self.call.step, self.call.time_limit_s
        signal = self._attempt_signal = None if limit_s is None else step.signal.child()
        context = self._context = step.context.copy()
        match self.mode:
            case "thread":
                attempt = self._attempt
                self._ticket = ThreadRun(
                    lambda: context.run(_perform, step, attempt, signal), self._thread_ended
                )
                self._runner.threads.submit(self._ticket)
                self._start_clock()
            case "process":
                self._queued = True
                self._begin_task(self._perform_in_child(step, self._attempt), context)
            case "inline":
                try:
                    value = context.run(_perform, step, self._attempt, signal)
                except BaseException as error:
                    self._attempt_ended(None, error)
                else:
                    self._returned(value)
            case _:
                if limit_s is not None:
                    self._start_clock()
                self._begin_task(_perform_async(step, self._attempt, signal), context)

    async def _perform_in_child(self, step: Step, attempt: int) -> Any:
        """The middlewares stay here: the child may not know them."""
        perform = self._runner.processes.perform
        if step.around is None:
            return await perform(step, attempt, self._left_queue)
        entered: Entered = step.around(step, step.args, step.kwargs, attempt)
        given = entered.invocation.args, entered.invocation.kwargs
        return await await_inside(entered, perform(step, attempt, self._left_queue, given))

    def _begin_task(self, body: Body, context: Context) -> None:
        self.body = body
        if self.call.at_once and self._attempt == self.call.made + 1 and self.mode == "async":
            if not self._runner.loop_tasks.perform(self, body, context):
                self._watch()
        else:
            self._runner.loop_tasks.submit(self, body, context)

    def is_to_begin(self, body: Body, /) -> bool:
        """Shall a body that has waited in a queue begin now? Nobody may want it any more."""
        if body is self.body and self.call.step.is_called_off:
            body.close()
            self.ended(body, None, called_off(self.call.step))
        return body is self.body

    def keep(self, task: asyncio.Task[None], /) -> None:
        self._task = task

    def _start_clock(self) -> None:
        if self.call.time_limit_s is not None:
            self._call_later(self.call.time_limit_s, self._time_up)

    def _left_queue(self) -> None:
        """A child process takes the step now."""
        self._queued = False
        self._start_clock()

    def _thread_ended(self, ticket: ThreadRun) -> None:
        if ticket is not self._ticket:
            return
        self._ticket = None
        if ticket.error is not None:
            self._attempt_ended(None, ticket.error)
        else:
            self._returned(ticket.value)

    def _returned(self, value: Any) -> None:
        """A plain function gave a value, or the coroutine of an async one it is wrapped around."""
        if isinstance(value, CoroutineType):
            self._begin_task(cast(Any, value), self._context)
        else:
            self._attempt_ended(value, None)

    def ended(self, body: Body, value: Any, error: BaseException | None, /) -> None:
        """A body has. If it was told to stop and had its value all the same, that is the outcome."""
        if body is not self.body:
            return
        self._task = self.body = None
        self._queued = False
        stop, self._stop = self._stop, None
        if error is not None and stop is not None:
            error = stop
        elif error is not None and isinstance(error, asyncio.CancelledError):
            error = StepExited(f"The step {self.name} cancelled itself")
        self._attempt_ended(value, error)

    def _attempt_ended(self, value: Any, error: BaseException | None) -> None:
        if self._over:
            return
        if error is None:
            self._finish(value, None)
            return
        self._stop_timer()
        _begin_traceback_with_the_step(error)
        if not isinstance(error, Exception):
            exited = StepExited(f"The step {self.name} raised {error_values.repr_of(error)}")
            exited.__cause__ = error
            error = exited
        delay_s = None
        try:
            if not self.call.step.is_called_off:
                elapsed_s = self._runner.loop.time() - self._began_at
                delay_s = next_delay(self.call.retry, self._attempt, elapsed_s, error, self._runner.random)
        except Exception as failure:  # a policy that is none, or an error whose own code raises when asked
            error_values.set_context(failure, error)
            error = failure
        self._tell_failed(error, delay_s)
        if delay_s is None:
            self._finish(None, error)
        elif self.call.rest_s is not None and delay_s >= self.call.rest_s:
            self._finish(None, error, delay_s)
        else:
            self._watch()
            self._call_later(delay_s, self._begin)

    def _tell_failed(self, error: Exception, delay_s: float | None) -> None:
        if self.call.failed is None or self.call.step.is_called_off:
            return
        try:
            self.call.failed(self.call.step, self._attempt, error, delay_s)
        except Exception as failure:  # a handler of the log: no reason for a step never to end
            message = f"The failure of step {self.name} could not be logged"
            self._runner.loop.call_exception_handler({"message": message, "exception": failure})

    # -- being stopped

    def _signalled(self) -> None:
        """The step's signal was set, on whatever thread, on whoever's stack."""
        try:
            self._runner.loop.call_soon_threadsafe(self._called_off, context=self._runner.context)
        except RuntimeError:
            return  # the loop is closed

    def _called_off(self) -> None:
        if self._over:
            return
        error = called_off(self.call.step)
        if self._task is not None:
            self._cancel_task(error)
        else:
            self._close_body()
            self._finish(None, error)

    def _time_up(self) -> None:
        limit_s, ticket = self.call.time_limit_s, self._ticket
        assert limit_s is not None
        self._timer = None
        if ticket is not None:
            # The clock of an attempt starts when a thread takes it, which the loop was not told.
            spent_s = 0.0 if ticket.began_at is None else self._runner.loop.time() - ticket.began_at
            if spent_s < limit_s:
                self._call_later(limit_s - spent_s, self._time_up)
                return
        error = StepTimedOut(
            f"Attempt {self._attempt} of the step {self.name} took longer than {limit_s:g} s"
        )
        assert self._attempt_signal is not None
        self._attempt_signal.set(error)
        if self._task is not None:
            self._cancel_task(error)
        else:
            if ticket is not None:
                self._leave_thread()
            self._close_body()
            self._attempt_ended(None, error)

    def _cancel_task(self, error: Exception) -> None:
        assert self._task is not None
        self._stop = error
        self._stop_timer()
        self._task.cancel()
        self._call_later(CANCEL_GRACE_S, self._leave_task)

    def _leave_task(self) -> None:
        """It was cancelled and would not end: go on without it."""
        task = self._task
        assert task is not None
        self._runner.tasks_left_behind.add(task)
        task.add_done_callback(self._runner.tasks_left_behind.discard)
        self._timer = self._task = self.body = None
        error, self._stop = self._stop, None
        self._attempt_ended(None, error)

    def _close_body(self) -> None:
        """It has not begun: say that it never will."""
        if self.body is not None:
            self.body.close()
            self.body = None

    def _leave_thread(self) -> None:
        assert self._ticket is not None
        self._runner.threads.drop(self._ticket)
        self._ticket = None

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._timer = self._runner.loop.call_later(delay_s, callback, context=self._runner.context)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self, value: Any, error: Exception | None, rests_s: float | None = None) -> None:
        assert not self._over
        self._over = True
        if self._timer is not None:
            self._stop_timer()
        if self._ticket is not None:
            self._leave_thread()
        loop = self._runner.loop
        if self._watched:
            self.call.step.unwatch()
            self._runner.left(self)
        outcome = StepOutcome(value, error, self._attempt, loop.time() - self._began_at, rests_s)
        try:
            self._done(outcome)
        except Exception as failure:
            message = f"The receiver of step {self.name}'s outcome failed"
            loop.call_exception_handler({"message": message, "exception": failure})


def _perform(step: Step, attempt: int, signal: Signal | None) -> Any:
    if step.around is None:
        return step.perform(attempt, signal)
    attempt_here.set((step, attempt, signal))
    args, kwargs = step.placed or (step.args, step.kwargs)
    return call_inside(step.around(step, args, kwargs, attempt), step.function)


async def _perform_async(step: Step, attempt: int, signal: Signal | None) -> Any:
    if step.around is None:
        value = step.perform(attempt, signal)
        return await value if isawaitable(value) else value
    attempt_here.set((step, attempt, signal))
    args, kwargs = step.placed or (step.args, step.kwargs)
    entered: Entered = step.around(step, args, kwargs, attempt)
    invocation = entered.invocation
    try:
        value = step.function(*invocation.args, **invocation.kwargs)
        if isawaitable(value):
            value = await value
    except GeneratorExit:  # it never ends: whoever awaits it is gone
        entered.close()
        raise
    except BaseException as error:
        return entered.raised(error)
    return entered.returned(value)


def called_off(step: Step) -> StepCalledOff:
    error = StepCalledOff(f"The step {step.name} was called off")
    error.__cause__ = step.signal.reason
    return error


def _begin_traceback_with_the_step(error: BaseException) -> None:
    trace = error_values.traceback_of(error)
    while trace is not None and trace.tb_frame.f_code.co_filename in _OUR_FILES:
        trace = trace.tb_next
    if trace is not None:  # else the step was not even entered
        error_values.set_traceback(error, trace)


def _mode_of(function: Callable[..., Any]) -> Mode:
    if type(function) is FunctionType:
        return "async" if function.__code__.co_flags & CO_COROUTINE else "thread"
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called like a function
    return "async" if iscoroutinefunction(function) or iscoroutinefunction(call) else "thread"


_OUR_FILES: Final = {
    module.__file__ for module in (sys.modules[__name__], loop_tasks, middleware, threads, step_module)
}
