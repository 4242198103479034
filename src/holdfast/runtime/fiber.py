# pyright: reportPrivateUsage=false
"""Fibers: one strand of cooperative execution each, and the trampoline that runs them.

A fiber owns a body and moves between three states. *Ready*: in the scheduler's queue, once. *Parked*:
waiting for exactly one future, which knows it as a waiter. *Done*: it has its outcome.

1. Nothing but `advance` runs a body, and only a drain calls `advance`: no fiber ever runs on another's
   stack. Waking a fiber queues it.
2. `advance` loops. A wait that is already satisfied costs one turn of that loop, never a stack frame.
3. An error thrown from outside (interrupt, cancellation, expiry) arrives at a wait of the body. It beats
   a value that was delivered but not yet seen, and the last of several wins. A body that has not started
   is first run to its first wait, so that its own handlers are in place.
4. A fiber that is done has given its live children to its parent before anyone learns that it is done.
5. Each fiber runs in its own `contextvars.Context`, copied from the fiber that spawned it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime.errors import FiberExited, ForeignAwait
from holdfast.runtime.future import PENDING, RESOLVED, Future, leave, notify
from holdfast.runtime.signals import Signal
from holdfast.runtime.task import Task

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler


class Fiber(Task[Any]):
    """One body on its way. User code holds it as a `Task`.

    `struck`, `held`, `own_signal` and `watched` exist once they are needed. Spawning is frequent and those
    are not, so they are not paid for by every fiber.
    """

    __slots__ = (
        "body",
        "children",
        "context",
        "held",
        "own_signal",
        "parent",
        "resume",
        "scheduler",
        "sheltered",
        "shields",
        "started",
        "struck",
        "thrown",
        "waiting",
        "watched",
    )

    _linked = True

    struck: BaseException  # the last error thrown from outside
    held: tuple[BaseException, int]  # thrown while shielded, and by whom: see throw()
    own_signal: Signal  # above those of the steps this fiber started
    watched: bool  # somebody waited for it once and went away

    def __init__(self, scheduler: Scheduler, body: Any, name: str, number: int, parent: Fiber | None) -> None:
        self._state = PENDING
        self._waiters = None
        self.name = name
        self.number = number
        self.scheduler = scheduler
        self.body: Any = body  # None once done
        self.context = copy_context()
        self.waiting: Future[Any] | None = None  # parked on
        self.resume: Future[Any] | None = None  # woken by; settled
        self.thrown: BaseException | None = None  # to be raised at the next wait
        self.started = False
        self.shields = 0  # how many shield() calls it is inside of
        self.children: dict[Fiber, None] | None = None
        self.parent = parent
        if parent is None:
            self.sheltered = False
        else:
            self.sheltered = parent.sheltered or parent.shields > 0  # born inside a shield
            if parent.children is None:
                parent.children = {self: None}
            else:
                parent.children[self] = None

    @property
    def state(self) -> str:
        if self.body is None:
            return "done"
        if self.waiting is not None:
            return "parked"
        return "running" if self.scheduler.running is self else "ready"

    def signal(self) -> Signal:
        """The signal for steps this fiber starts now: unset, shared until something sets it."""
        signal = getattr(self, "own_signal", None)
        if signal is None or signal.is_set:
            signal = self.own_signal = self.scheduler.signal.child()
        return signal

    def _fire(self, future: Future[Any], /) -> bool:
        """Wake: the future this fiber waits for has settled. Stale news is ignored."""
        if self.waiting is future:
            self.waiting = None
            self.resume = future
            self.scheduler.ready.append(self)
        return False

    def throw(self, error: BaseException, shields: int = 0) -> None:
        """Have `error` raised at this fiber's wait (rule 3). Its children are not touched.

        `shields` is how many shields the thrower itself is inside of: those do not stop it.
        """
        if self.body is None:
            return
        self.struck = error
        if self.shields > shields:
            self.held = (error, shields)
            return
        self.thrown = error
        waiting = self.waiting
        if waiting is not None:
            self.waiting = None
            leave(waiting, self)
            self.scheduler.ready.append(self)
        elif self.resume is not None:
            resume, self.resume = self.resume, None
            resume._unreceived()

    def take_thrown(self) -> BaseException:
        """The error to raise now. It may be raised in many fibers: in each it starts with no history."""
        error, self.thrown = cast(BaseException, self.thrown), None
        error.__traceback__ = error.__context__ = None
        return error

    def unshield(self) -> None:
        """Leave a shield. What it held back is raised at the next wait."""
        self.shields -= 1
        error, shields = getattr(self, "held", (None, 0))
        if error is not None and self.shields <= shields:
            self.thrown = error
            del self.held

    def retract(self, error: BaseException) -> None:
        """Take back an error that was thrown and has not been raised yet."""
        if self.thrown is error:
            self.thrown = None
        if getattr(self, "held", (None, 0))[0] is error:
            del self.held

    def finish(self) -> None:
        """The outcome has just been set: let go of everything and tell the waiters, in this order.

        Nothing is kept that would make a cycle: a finished fiber is freed at once when nobody holds it.
        """
        scheduler, parent, children = self.scheduler, self.parent, self.children
        self.body = None
        if children:
            for child in children:
                child.parent = parent
            if parent is not None:
                if parent.children is None:
                    parent.children = children
                else:
                    parent.children.update(children)
        if parent is not None:
            del cast("dict[Fiber, None]", parent.children)[self]
        if self._waiters is not None:
            notify(self)
        del scheduler.live[self]
        if self is scheduler.root:
            scheduler.root_finished()
        self.parent = self.children = None
        del self.context

    def _belongs_to(self, scheduler: Scheduler) -> bool:
        return self.scheduler is scheduler

    def _interrupt(self, error: Exception) -> None:
        """Throw `error` into this fiber and all it spawned, parents before children, in spawn order."""
        stack: list[Fiber] = [self]
        while stack:
            fiber = stack.pop()
            if fiber.body is not None:
                if hasattr(fiber, "own_signal"):
                    fiber.own_signal.set(error)
                fiber.throw(error)
            if fiber.children:
                stack.extend(child for child in reversed(fiber.children) if not child.sheltered)

    def _detached(self) -> Iterable[Future[Any]]:
        self.watched = True  # a failure after this is no surprise: somebody looked and went away
        return ()

    def _observed(self) -> None:
        self.scheduler.unobserved.pop(self, None)

    def _inputs(self) -> Iterable[Future[Any]]:
        return () if self.waiting is None else (self.waiting,)


def advance(fiber: Fiber) -> None:
    """Run a ready fiber until it parks or is done."""
    scheduler = fiber.scheduler
    scheduler.running = fiber
    body = fiber.body
    send = body.send
    future: Any = fiber.resume
    fiber.resume = None
    error: BaseException | None = None
    if not fiber.started:
        fiber.started = True  # an error that came early waits in `thrown` for the first yield
    elif fiber.thrown is not None:
        error = fiber.take_thrown()
    try:
        while True:
            if error is not None:
                yielded = body.throw(error)
            elif future is None:
                yielded = send(None)
            elif future._state == RESOLVED:
                yielded = send(future._value)
            else:
                yielded = body.throw(future._failure())
            future = error = None
            if fiber.thrown is not None:
                error = fiber.take_thrown()
            elif not isinstance(yielded, Future):
                error = _foreign(yielded, fiber)
            else:
                future = cast(Any, yielded)
                if future._state == PENDING:
                    waiters = future._waiters
                    if waiters is None:
                        if future._lazy:
                            future._attach()
                            if future._state != PENDING:
                                continue
                        future._waiters = fiber
                    else:
                        future._add(fiber)
                    fiber.waiting = future
                    if future._linked:
                        scheduler.suspects.append(fiber)
                    return
    except StopIteration as stop:
        fiber._state = RESOLVED
        fiber._value = stop.value
    except Exception as failure:
        _fail(fiber, failure)
    except KeyboardInterrupt as failure:
        # Not the program's: the fiber is over and the driver is told.
        _fail(fiber, failure)
        fiber.finish()
        raise
    except BaseException as failure:
        _fail(fiber, _exited(fiber, failure))
    fiber.finish()


def _fail(fiber: Fiber, error: BaseException) -> None:
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # our own frame helps nobody
    fiber._reject(error)
    expected = error is getattr(fiber, "struck", None) or hasattr(fiber, "watched")
    if fiber._waiters is None and not expected:
        fiber.scheduler.unobserved[fiber] = None


def _exited(fiber: Fiber, error: BaseException) -> FiberExited:
    exited = FiberExited(
        f"Fiber {fiber.path} raised {error!r}, which is not an Exception. "
        f"Raise an ordinary one instead. [{FiberExited.code}]"
    )
    exited.__cause__ = error
    return exited.with_traceback(error.__traceback__)


def _foreign(yielded: object, fiber: Fiber) -> ForeignAwait:
    kind = type(yielded)
    if yielded is None:
        what = "a bare `yield`, or a library's way of giving way to its event loop (asyncio.sleep(0))"
        remedy = "Use `yield from` or `await` with a future of this runtime"
    elif kind.__name__ in ("Operation", "generator", "coroutine"):
        what = f"a bare `yield` of {yielded!r}"
        remedy = "Write `yield from` instead of `yield`; wrap a coroutine in delegate(...)"
    else:
        what = f"something of {kind.__module__}.{kind.__qualname__}"
        remedy = "Put the call inside a step: `await run(function, ...)`"
    return ForeignAwait(
        f"Fiber {fiber.path} waited for {what}. Only this runtime's futures and operations can be awaited in "
        f"a fiber, because only those come out the same on replay. {remedy}."
    )
