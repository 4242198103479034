# pyright: reportPrivateUsage=false
"""The scheduler: one per execution. Owns the fibers, the ready queue and the order of everything.

It does no waiting of its own: the driver calls in with one event at a time (see driver.py) and gets control
back when every fiber is parked.

1. Strict FIFO: fibers run in the order in which they became ready, and each is queued at most once.
2. One dispatch, then a full drain: the consequences of a completion are over before the next one is seen.
3. All waiters of one completion become ready together, in the order in which they began to wait.
4. When the root is done its outcome stands. Under "abandon" no fiber runs any further; under "join" the
   others are driven until they end, or until nothing can end them.
5. Nothing is ordered by hash or address: fibers, children and waiters live in dicts by insertion.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import FunctionType
from typing import Any, Final, Literal, NoReturn

from holdfast.runtime import diagnosis, waitgraph
from holdfast.runtime.advance import advance
from holdfast.runtime.driver import Driver, Origin, Report, Trouble
from holdfast.runtime.errors import Cancelled, Deadlock, ExecutionClosed, stop_iteration_raised
from holdfast.runtime.future import RESOLVED, Future, notify
from holdfast.runtime.operation import MAKES_BODY, Operation, body_of
from holdfast.runtime.running_fiber import RunningFiber
from holdfast.runtime.signals import Signal, run_callbacks
from holdfast.runtime.slot import slot
from holdfast.runtime.step import Durable
from holdfast.runtime.strands import Strands
from holdfast.runtime.teardown import take_down

refusals_max: Final = 100  # of what one fiber asks for while it is taken down

# Every scheduler between start and close. It keeps suspended fibers out of the garbage collector's hands
# (their finally blocks would run there, on any thread), and lets a process dump all it is doing.
open_schedulers: dict[Scheduler, None] = {}


class Scheduler:
    """Runs one execution's fibers. Not for two threads at the same time."""

    def __init__(self, world: Driver, *, on_root_exit: Literal["abandon", "join"] = "abandon") -> None:
        self.world = world
        self.on_root_exit = on_root_exit
        self.ready: deque[RunningFiber] = deque()
        self.live: dict[RunningFiber, None] = {}
        self.running: RunningFiber | None = None
        self.root: RunningFiber | None = None
        self.done = False  # the outcome is known and no fiber will run again
        self.closed = False
        self.deadlock: Deadlock | None = None
        self.suspects: list[RunningFiber] = []  # fibers that parked on something that could close a cycle
        self.alarms: dict[Future[Any], RunningFiber] = {}  # timers of open timeouts, and whom they wake
        self.unobserved: dict[RunningFiber, None] = {}  # failed while nobody waited
        self.locals: dict[object, Any] = {}
        self.signalled: list[Signal] = []  # by fibers: their callbacks run after the drain
        self.attempt = Signal(
            partial(diagnosis.callback_failed, world)
        )  # set once, when the fibers are taken down
        self.signal = self.attempt.child()  # replaced at each cancellation
        self._pending: dict[str, Durable[Any]] = {}
        self._spawned = 0
        self.durable: type[Durable[Any]] = Durable
        self.strands: Strands | None = None  # while the root runs a loop of another kind
        self.refused = 0  # calls of the fiber that is being taken down

    # What the driver calls.

    def start(
        self,
        work: Operation[Any] | Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Run the root body, and all it spawns, until every fiber waits."""
        if self.root is not None:
            raise RuntimeError("This scheduler was already started; make one per execution.")
        self.root = self.spawn(work, args, kwargs)
        open_schedulers[self] = None
        self._drain()

    def resolve(self, promise_id: str, value: Any) -> None:
        """The promise `promise_id` has a value: let the fibers see it and run until they all wait again."""
        future = self._pending.pop(promise_id, None)
        if future is None:
            self._unknown(promise_id)
        future._state = RESOLVED
        future._value = value
        self._dispatch(future)

    def reject(self, promise_id: str, error: Exception) -> None:
        """The promise `promise_id` failed: the same, with an error."""
        future = self._pending.pop(promise_id, None)
        if future is None:
            self._unknown(promise_id)
        future._reject(stop_iteration_raised(error) if isinstance(error, StopIteration) else error)
        self._dispatch(future)

    def cancel(self, cause: BaseException | None = None) -> None:
        """Set the signal of all running steps, replace it, throw a fresh `Cancelled` into every fiber, drain.
        Each call is an event of its own. What is inside a `shield()` gets it when it leaves the shield."""
        self._must_be_open()
        if self.done:
            return
        retired, self.signal = self.signal, self.attempt.child()
        retired.set(_cancelled(cause))
        for fiber in list(self.live):
            if not fiber.sheltered:
                fiber.throw(_cancelled(cause))
        self._drain()

    def waiting(self) -> tuple[str, ...]:
        """The ids of exactly those pending promises that wake some live fiber, in fiber order; then timeouts.
        When the fibers are not done and no promise could wake any of them, that is a deadlock, and this
        call settles the execution with it: check `done` afterwards."""
        if self.done or self.root is None:
            return ()
        ids = waitgraph.awaited_ids(self._pending.values(), self.alarms)
        if not ids and not self.ready:  # ready ones are left when a KeyboardInterrupt ended a drain
            self._stuck(list(self.live))
        return tuple(ids)

    def is_awaited(self, promise_id: str) -> bool:
        """Is it one of those in `waiting()`? Looks at this promise only."""
        promise = self._pending.get(promise_id)
        return promise is not None and (promise in self.alarms or waitgraph.is_awaited(promise))

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids of all promises issued and not yet completed, awaited or not, in order of issue."""
        return tuple(self._pending)

    def result(self) -> Any:
        """The root's value; raises its error, or the `Deadlock` that ended the execution."""
        if self.deadlock is not None:
            raise self.deadlock
        if not self.done or self.root is None:
            raise RuntimeError("The execution is not done.")
        return self.root._outcome()

    def close(self) -> None:
        """Take down all fibers that are left (see teardown.py) and report what nobody saw. Idempotent."""
        self._must_not_be_running("close()")
        if self.closed:
            return
        self.closed = True
        self.ready.clear()
        self._pending.clear()
        for fiber in self.unobserved:
            if fiber is not self.root:
                where = diagnosis.raised_at(fiber._trace[0])
                self.world.report(Report(Trouble.FAILED_NOT_AWAITED, fiber.path, fiber._value, where))
        self.attempt.set(ExecutionClosed("the execution was closed"))
        previous, slot.scheduler = slot.scheduler, self
        try:
            take_down(self)
        finally:
            slot.scheduler = previous
            self.running = None
            open_schedulers.pop(self, None)
            self._tell_signalled()

    def dump(self) -> str:
        """Every live fiber: name, parent, state, what it waits for, and the lines it is suspended at."""
        return diagnosis.render(diagnosis.snapshot(self.live, self.strands))

    def origin(self) -> Origin:
        """The line of user code that is running now. For `Driver.issue`, and for mismatch errors."""
        fiber = self.running.path if self.running is not None else "?"
        return diagnosis.caller(sys._getframe(1), fiber)

    def places(self) -> list[Origin]:
        """The lines at which the live fibers wait."""
        return diagnosis.places(self.live, self.strands)

    def failure(self) -> str | None:
        """What the root has failed with, and the line where that was raised."""
        return diagnosis.failure(self.root)

    # What the rest of the runtime calls, on a fiber's stack.

    def issue(self, operation: object) -> Durable[Any]:
        """Begin a durable operation. Raises before the world hears of it once the execution is closed."""
        if self.closed:
            self.refuse("Durable calls cannot be made while the fiber is being taken down.")
            return self.durable("", operation, self)
        promise_id = self.world.issue(operation)
        if promise_id not in self._pending:
            self._pending[promise_id] = self.durable(promise_id, operation, self)
        return self._pending[promise_id]

    def spawn(
        self,
        work: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        parent: RunningFiber | None = None,
    ) -> Any:
        """Queue a new fiber; without `parent` it is the child of the running one."""
        if self.closed:
            self.refuse("Fibers cannot be spawned while the execution is being taken down.")
            return RunningFiber(self, None, "never run", 0, None)
        if self.strands is not None:
            return self.strands.spawn(work, args, kwargs)
        if type(work) is FunctionType and work.__code__.co_flags & MAKES_BODY:
            body = work(*args, **kwargs) if kwargs else work(*args)
            name = work.__name__
        else:
            given: str | None = None if kwargs is None or callable(work) else kwargs.pop("name", None)
            body = body_of(work, args, kwargs)
            name = given or body.__name__
        self._spawned = number = self._spawned + 1
        fiber = RunningFiber(self, body, name, number, self.running if parent is None else parent)
        self.live[fiber] = None
        self.ready.append(fiber)
        return fiber

    def refuse(self, why: str) -> None:
        """A fiber asks for something while it is taken down: that is an error, at first.

        A body that catches every error and asks again, forever, soon gets what never settles instead:
        waiting for that gives control back to us.
        """
        self.refused += 1
        if not self.has_refused_enough:
            raise ExecutionClosed(why)

    @property
    def has_refused_enough(self) -> bool:
        """Is the fiber that is taken down one that asks again and again? Then it has to wait."""
        return self.refused > refusals_max

    def root_finished(self) -> None:
        if self.on_root_exit == "abandon":
            self.done = True
            self.ready.clear()  # ends the drain in mid-queue

    # The drain.

    def _unknown(self, promise_id: str) -> NoReturn:
        self._must_be_open()
        raise LookupError(
            f"No pending promise has the id {promise_id!r}: it was completed before or never issued."
        )

    def _dispatch(self, future: Durable[Any]) -> None:
        if self.done:
            return
        waiter = future._waiters
        if type(waiter) is RunningFiber:  # what RunningFiber._fire does, without the call: this is often
            future._waiters = None
            waiter.waiting = None
            waiter.resume = future
            self.ready.append(waiter)
        elif waiter is not None:
            notify(future)
        self._drain()

    def _drain(self) -> None:
        """Run ready fibers until none is left, then see whether the rest can ever go on."""
        previous = slot.scheduler
        if previous is self:
            self._must_not_be_running("This call")
        slot.scheduler = self
        ready = self.ready
        popleft = ready.popleft
        try:
            while ready:
                fiber = popleft()
                fiber.context.run(advance, fiber)
        finally:
            slot.scheduler = previous
            self.running = None
            if self.signalled:
                self._tell_signalled()
        if self.suspects:
            self._check_cycles()
        if not self._pending and not self.done:
            self._stuck(list(self.live))
        elif not self.live:
            self.done = True

    def _tell_signalled(self) -> None:
        """Run the callbacks of signals that fibers have set; inside another drain, after that."""
        signalled, self.signalled = self.signalled, []
        if slot.scheduler is not None:
            slot.scheduler.signalled += signalled
        else:
            run_callbacks(signalled)

    def _check_cycles(self) -> None:
        suspects, self.suspects = self.suspects, []
        if not self.done and self.root in self.live:
            guarded = set(self.alarms.values())
            for ring in waitgraph.find_cycles(suspects):
                if not waitgraph.can_be_ended(ring, guarded):
                    self._stuck(ring)
                    return

    def _stuck(self, fibers: list[RunningFiber]) -> None:
        """No promise can wake these fibers. That is fatal, unless the root has already returned."""
        self.done = True
        if self.root in self.live:
            self.deadlock = Deadlock(diagnosis.explain_deadlock(fibers, self.strands))
        else:
            for fiber in fibers:
                where = str(diagnosis.innermost(fiber.body) or "")
                self.world.report(Report(Trouble.LEFT_BEHIND, fiber.path, None, where))

    def _must_be_open(self) -> None:
        if self.closed or self.root is None:
            raise RuntimeError(
                "This scheduler is closed." if self.closed else "This scheduler was not started."
            )

    def _must_not_be_running(self, what: str) -> None:
        if slot.scheduler is self:
            raise RuntimeError(f"{what} is for the driver; it cannot be made from inside one of the fibers.")


def _cancelled(cause: BaseException | None) -> Cancelled:
    error = Cancelled("the execution was cancelled" if cause is None else str(cause))
    error.__cause__ = cause
    return error
