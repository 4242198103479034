# pyright: reportPrivateUsage=false
"""Fibers as the scheduler runs them: one strand of cooperative execution each.

A fiber owns a body and moves between three states. *Ready*: in the scheduler's queue, once. *Parked*:
waiting for exactly one future, which knows it as a waiter. *Done*: it has its outcome.

1. Nothing but `advance` (advance.py) runs a body, and only a drain calls `advance`: no fiber ever runs on
   another's stack. Waking a fiber queues it.
2. A finished fiber is freed at once when nobody holds it.
3. An error thrown from outside (interrupt, cancellation, expiry) arrives at a wait of the body. It beats
   a value that was delivered but not yet seen; which of several comes first is in throws.py. A body that
   has not started is first run to its first wait, so that its own handlers are in place.
4. A fiber that is done has given its live children to its parent before anyone learns that it is done.
5. Each fiber runs in its own `contextvars.Context`, copied from the fiber that spawned it.
6. Steps and calls hang under the signal of the innermost block their fiber is inside of. Interrupting the
   fiber sets its own signal and those of its blocks, except inside a shield.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import PENDING, Future, leave, notify, unclaim, with_history
from holdfast.runtime.signals import Signal
from holdfast.runtime.throws import Block, Throws

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler


class RunningFiber(Fiber[Any]):
    """One body on its way. User code holds it as a `Fiber`.

    `struck`, `coming` and `watched` exist once they are needed. Spawning is frequent and those
    are not, so they are not paid for by every fiber.
    """

    __slots__ = (
        "blocks",
        "body",
        "children",
        "coming",
        "context",
        "own_signal",
        "parent",
        "resume",
        "sheltered",
        "shields",
        "started",
        "struck",
        "thrown",
        "waiting",
        "watched",
    )

    _linked = True

    if not TYPE_CHECKING:
        __iter__ = __await__ = Future._park  # without a look at strands of another kind

    scheduler: Scheduler
    struck: BaseException  # the last interruption that was raised in it
    coming: Throws  # what was thrown and not yet raised
    watched: bool  # somebody waited for it once and went away

    def __init__(
        self, scheduler: Scheduler, body: Any, name: str, number: int, parent: RunningFiber | None
    ) -> None:
        self._state = PENDING
        self._waiters = None
        self.name = name
        self.number = number
        self.scheduler = scheduler
        self.body: Any = body  # None once done
        self.context = copy_context()
        self.waiting: Future[Any] | None = None  # parked on
        self.resume: Future[Any] | None = None  # woken by; settled
        self.own_signal: Signal | None = None  # above those of the steps this fiber started
        self.thrown: BaseException | None = None  # to be raised at the next wait
        self.started = False
        self.shields = 0  # how many shield() calls it is inside of
        self.blocks: list[Block] | None = None  # that it is inside of
        self.children: dict[RunningFiber, None] | None = None
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
        signal = self.own_signal
        if signal is None or signal._reason is not None or self.blocks:
            return self._signal_inside(len(self.blocks or ()))
        return signal

    def _base_signal(self) -> Signal:
        signal = self.own_signal
        if signal is None or signal._reason is not None:
            above = self.scheduler.attempt if self.sheltered else self.scheduler.signal
            signal = self.own_signal = above.child()
        return signal

    def _signal_inside(self, depth: int) -> Signal:
        """The signal of the innermost of so many blocks."""
        above = self._base_signal()
        for block in (self.blocks or ())[:depth]:
            if block.is_shield:
                above = self.scheduler.attempt
            if block.signal is None or block.signal.is_set:
                block.signal = above.child()
            above = block.signal
        return above

    def open_block(self, *, is_shield: bool = False) -> Block:
        block = Block(is_shield=is_shield)
        if self.blocks is None:
            self.blocks = [block]
        else:
            self.blocks.append(block)
        if is_shield:
            self.shields += 1
            self._choose_throw()
        return block

    def close_block(self, block: Block) -> None:
        """What was started inside and still runs is now where the block was, and shares its fate. If a shield
        held something back, that is raised at the next wait, and told to what still runs."""
        blocks = self.blocks or []
        depth = blocks.index(block)
        del blocks[depth]
        if block.is_shield:
            self.shields -= 1
            self._choose_throw()
        if block.signal is None or block.signal.is_set:
            return
        if block.is_shield and self.thrown is not None:
            block.signal.set(self.thrown)
        else:
            block.signal.move_under(self._signal_inside(depth))

    def _fire(self, future: Future[Any], /) -> bool:
        """Wake: the future this fiber waits for has settled. One that is out of date is ignored."""
        if self.waiting is future:
            self.waiting = None
            self.resume = future
            self.scheduler.ready.append(self)
        elif future._returnable:
            unclaim([future])
        return False

    def throw(self, error: BaseException, *, gently: bool = False) -> None:
        """Have a cancellation or an interrupt raised at this fiber's wait (rule 3), but not in its children.

        `gently`: not if another one is on its way.
        """
        if self.body is not None:
            self._throws().interrupt(error, gently=gently)
            self._arrive()

    def throw_from_block(self, error: BaseException, shields: int) -> None:
        """Have the error of a block raised. `shields` is how many the block itself is inside of."""
        if self.body is not None:
            self._throws().blocks.append((error, shields))
            self._arrive()

    @property
    def is_interrupted(self) -> bool:
        """Is an interruption on its way, held back or not?"""
        return hasattr(self, "coming") and self.coming.interruption is not None

    def _throws(self) -> Throws:
        if not hasattr(self, "coming"):
            self.coming = Throws()
        return self.coming

    def _choose_throw(self) -> None:
        if hasattr(self, "coming"):
            self.thrown = self.coming.first(self.shields)

    def _arrive(self) -> None:
        self.thrown = self.coming.first(self.shields)
        if self.thrown is None:
            return
        waiting = self.waiting
        if waiting is not None:
            self.waiting = None
            leave(waiting, self)
            self.scheduler.ready.append(self)
        elif self.resume is not None:
            resume, self.resume = self.resume, None
            if resume._returnable:
                unclaim([resume])

    def take_thrown(self) -> BaseException:
        """The error to raise now. It may be raised in many fibers: in each it starts with no history."""
        error = cast(BaseException, self.thrown)
        if error is self.coming.interruption:
            self.struck = error
        self.retract(error)
        return cast(BaseException, with_history(error, None, None))

    def retract(self, error: BaseException) -> None:
        """Take back an error that was thrown and has not been raised yet."""
        if hasattr(self, "coming"):
            self.coming.remove(error)
            self.thrown = self.coming.first(self.shields)

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
            del cast("dict[RunningFiber, None]", parent.children)[self]
        if self._waiters is not None:
            notify(self)
        del scheduler.live[self]
        if self is scheduler.root:
            scheduler.root_finished()
        self.parent = self.children = None
        del self.context

    def _belongs_to(self, scheduler: Scheduler) -> bool:
        return self.scheduler is scheduler

    def _interrupt(self, error: Exception, *, gently: bool = False) -> None:
        """Throw `error` into this fiber and all it spawned, parents before children, in spawn order."""
        stack: list[RunningFiber] = [self]
        while stack:
            fiber = stack.pop()
            if fiber.body is not None:
                if fiber.own_signal is not None:
                    fiber.own_signal.set(error)
                fiber.throw(error, gently=gently)
            if fiber.children:
                stack.extend(child for child in reversed(fiber.children) if not child.sheltered)

    def _detached(self) -> Iterable[Future[Any]]:
        self.watched = True  # a failure after this is no surprise: somebody looked and went away
        return ()

    def _observed(self) -> None:
        self.scheduler.unobserved.pop(self, None)

    def _inputs(self) -> Iterable[Future[Any]]:
        return () if self.waiting is None else (self.waiting,)
