"""Lanes: queues whose tasks share the slots of one kind. What a lane has room for, and when it asks for more.

A queue with a task that runs in a process of its own has no more slots than there are processes; the others
share the worker's concurrency. So nothing counts as running that only waits for a process.

1. A lane asks for as many tasks as it has free slots, and for `prefetch` more that it only claims. Slots are
   refilled as they become free, never batch by batch.
2. It asks when there may be work: at first, after a message, after a claim that got all it asked for, after
   the end of a task that a limited queue held others back for, when a rate limit allows more, and now and
   then (somewhat spread), whatever got lost: ever more rarely while there is nothing.
3. One claim in ten takes half of its tasks from below some priority that was seen. So every priority below
   the highest gets a share, however much there is of the higher ones, also of what is claimed ahead. Where
   there was nothing below, that is remembered for a hundred claims.
"""

import os
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.protocol import limits
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.requests import TaskClaim
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.running import Run

ceiling_every: Final = 10
ceiling_memory: Final = 100
priorities_max: Final = 64
poll_s: Final = 10.0
poll_idle_s: Final = 90.0  # every look is a transaction: a cluster with nothing to do should be quiet
poll_limited_s: Final = 1.0
claim_count_max: Final = 250


class TaskSettings(Struct, frozen=True):
    """What a worker takes on. `queues` None: those of the tasks it knows."""

    queues: tuple[str, ...] | None = None
    concurrency: int = 100
    processes: int = os.cpu_count() or 1
    prefetch: int = 0
    drain_s: float = 60.0  # for running tasks, when the worker stops


class Wish(Struct, frozen=True):
    """A claim that a lane would like to make."""

    claim: TaskClaim
    is_complete: bool  # fewer tasks than asked for means that there are no more


class Lane:
    """Some queues, and the slots for their tasks."""

    def __init__(
        self,
        queues: list[str],
        slots: int,
        prefetch: int,
        *,
        left_behind: Callable[[], int] = lambda: 0,
        chance: random.Random | None = None,
    ) -> None:
        self.queues = queues
        self.slots = slots
        self.prefetch = prefetch
        self.running = 0  # also those whose start is on its way
        self.claimed: deque[Run] = deque()
        self.asked_to_start = 0
        self.asked_ahead = 0
        self.may_have_work = True
        self.is_limited = False
        self.poll_s = poll_s
        self._left_behind = left_behind
        self._claims = 0
        self._priorities: set[int] = set()
        self._nothing_below: int | None = None
        self._chance = chance or random.Random()  # noqa: S311 (spreads load, guards nothing)

    @property
    def free(self) -> int:
        return self.slots - self.running - self.asked_to_start - self._left_behind()

    def wishes(self, pid: str, lease_ms: int) -> list[Wish]:
        """The claims to make now. Whoever takes them makes them."""
        if not self.may_have_work:
            return []
        to_start = max(0, min(self.free - len(self.claimed), claim_count_max))
        ahead = max(0, min(self.prefetch - len(self.claimed) - self.asked_ahead, claim_count_max))
        if not to_start and not ahead:
            return []
        self.may_have_work = False
        self.asked_to_start += to_start
        self.asked_ahead += ahead
        wishes = self._divide(to_start, pid, lease_ms, start=True) if to_start else []
        if ahead:
            wishes += self._divide(ahead, pid, lease_ms, start=False)
        return wishes

    def _divide(self, count: int, pid: str, lease_ms: int, *, start: bool) -> list[Wish]:
        """A claim for the best tasks; now and then half of it is for some below a priority."""
        ceiling = self._draw_ceiling()
        below = 0 if ceiling is None else (count + 1) // 2
        wishes: list[Wish] = []
        if below:
            wishes.append(Wish(self._claim(below, pid, lease_ms, start=start, ceiling=ceiling), False))
        if count > below:
            wishes.append(Wish(self._claim(count - below, pid, lease_ms, start=start), True))
        return wishes

    def answered(self, wish: Wish, priorities: list[int] | None) -> None:
        """A claim is over: it got tasks of these priorities; None when nobody knows."""
        claim = wish.claim
        if claim.start:
            self.asked_to_start -= claim.count
        else:
            self.asked_ahead -= claim.count
        if priorities is None or not wish.is_complete or len(priorities) == claim.count:
            self.may_have_work = True
        if wish.is_complete:
            self.poll_s = min(2 * self.poll_s, poll_idle_s) if priorities == [] else poll_s
        if claim.ceiling is not None and priorities == []:
            self._nothing_below = claim.ceiling
        for priority in priorities or ():
            if priority not in self._priorities:
                self._remember(priority)

    def _remember(self, priority: int) -> None:
        if len(self._priorities) == priorities_max:
            self._priorities.remove(self._chance.choice(sorted(self._priorities)[1:-1]))
        self._priorities.add(priority)

    def _draw_ceiling(self) -> int | None:
        self._claims += 1
        if self._claims % ceiling_memory == 0:
            self._nothing_below = None
        if self._claims % ceiling_every:
            return None
        known = -limits.priority_max - 1 if self._nothing_below is None else self._nothing_below
        below = [priority - 1 for priority in self._priorities if priority - 1 > known]
        if not below:
            return None
        if len(self._priorities) < priorities_max:
            return self._chance.choice(below)
        # There are more than are remembered: what waits may be further below, or anywhere between.
        lowest, highest = min(below), max(below)
        between = self._chance.randint(lowest, highest)
        return self._chance.choice((lowest, between, self._chance.choice(below)))

    def poll_after_s(self) -> float:
        return (poll_limited_s if self.is_limited else self.poll_s) * self._chance.uniform(0.75, 1.25)

    def _claim(
        self, count: int, pid: str, lease_ms: int, *, start: bool, ceiling: int | None = None
    ) -> TaskClaim:
        groups = [queue_group(queue) for queue in self.queues]
        return TaskClaim(groups, count, pid, lease_ms, start, ceiling)


def lanes_of(
    registry: TaskRegistry,
    settings: TaskSettings,
    left_behind: Callable[[], int],
    chance: random.Random | None = None,
) -> list[Lane]:
    queues = list(dict.fromkeys(settings.queues if settings.queues is not None else registry.queues))
    narrow = {task.queue for task in registry if task.mode == "process"}
    wide = [queue for queue in queues if queue not in narrow]
    deep = [queue for queue in queues if queue in narrow]
    lanes: list[Lane] = []
    if wide:
        lanes.append(
            Lane(wide, settings.concurrency, settings.prefetch, left_behind=left_behind, chance=chance)
        )
    if deep:
        slots = min(settings.processes, settings.concurrency)
        lanes.append(Lane(deep, slots, settings.prefetch, chance=chance))
    return lanes
