"""Slot groups: groups of workers whose tasks share slots. How many are free, and when to claim for them.

A process has one slot group for its workflows and two for its queues. A queue with a task that runs in a
process of its own has no more slots than there are processes; the others share the worker's concurrency. So a
task that waits for a free process is not shown as RUNNING.

1. A slot group asks for as many tasks as it has free slots, and for `prefetch` more that it only claims.
   Slots are refilled as they become free, never batch by batch.
2. It asks when there may be work: at first, after a message, after a claim that got all it asked for, after
   the end of a task that a limited queue held others back for, and when a rate limit allows more. Queues are
   polled too (somewhat spread), whatever got lost: ever more rarely while there is nothing.
3. One claim in ten on queues takes half of its tasks from below some priority that was seen. So every
   priority below the highest gets a share, however much there is of the higher ones, also of what is claimed
   ahead. Where there was nothing below, that is remembered for a hundred claims.
4. Workflows have no priorities and no start of their own: they are claimed one claim at a time, whose answer
   carries what they recorded.
5. While it has nothing to ask for, and free slots, its claim may wait at the node (`waiting_intent`).
"""

import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.host.outbox import PendingRequest
from holdfast.host.runners import Run, Runner
from holdfast.jobs.registry import TaskRegistry
from holdfast.protocol import limits
from holdfast.protocol.address import is_pushed_to
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.requests import TaskClaim, TaskRelease

ceiling_every: Final = 10
ceiling_memory: Final = 100
priorities_max: Final = 64
poll_s: Final = 10.0
poll_idle_s: Final = 90.0  # every look is a transaction: a cluster with nothing to do should be quiet
poll_limited_s: Final = 1.0
claim_count_max: Final = 250
workflow_claim_count_max: Final = 64

Kind = Literal["workflows", "tasks", "processes"]  # of slots: "processes" are for tasks in children
State = Literal["claimed", "starting", "running", "ending", "gone"]


class TaskSettings(Struct, frozen=True):
    """What a worker takes on. `queues` None: those of the tasks it knows."""

    queues: tuple[str, ...] | None = None
    concurrency: int = 100
    processes: int = os.cpu_count() or 1
    prefetch: int = 0
    drain_s: float = 60.0  # for running tasks, when the worker stops


class ClaimIntent(Struct, frozen=True):
    """A claim that a slot group would like to make."""

    claim: TaskClaim
    is_ahead: bool  # what it is granted waits for a slot
    is_complete: bool  # fewer tasks than asked for means that there are no more


class Held:
    """A run, and the slot that it has or waits for.

    claimed -> starting -> running -> ending (its final request is on its way) -> gone
    """

    __slots__ = ("pending", "run", "runner", "slots", "state", "successor")

    def __init__(self, run: Run, runner: Runner[Any], slots: "SlotGroup") -> None:
        self.run = run
        self.runner = runner
        self.slots = slots
        self.state: State = "claimed"
        self.pending: PendingRequest | None = None  # its final request, on its way
        self.successor: Callable[[], None] | None = None  # accepts the task again, once this run has left it

    @property
    def release(self) -> TaskRelease:
        return TaskRelease(self.run.id, self.run.version)


class SlotGroup:
    """Some groups of workers, and the slots for their tasks."""

    def __init__(
        self,
        groups: list[str],
        slots: int,
        prefetch: int = 0,
        *,
        kind: Kind = "tasks",
        left_behind: Callable[[], int] = lambda: 0,
        chance: random.Random | None = None,
    ) -> None:
        self.groups = groups
        self.kind = kind
        self.slots = slots
        self.prefetch = prefetch
        self.running = 0  # also those whose start is on its way
        self.claimed: deque[Held] = deque()
        self.asked_to_start = 0
        self.asked_ahead = 0
        self.may_have_work = True
        self.invited: deque[str] = deque(maxlen=limits.claim_known_max)  # tasks that somebody shall claim
        self.is_limited = False
        self.poll_s = poll_s
        self.polls = kind != "workflows"  # those are offered again until somebody claims them
        self._left_behind = left_behind
        self._claims = 0
        self._priorities: set[int] = set()
        self._nothing_below: int | None = None
        self._waiting_intent: ClaimIntent | None = None  # the last one
        self._chance = chance or random.Random()  # noqa: S311 (spreads load, guards nothing)

    @property
    def free(self) -> int:
        return self.slots - self.running - self.asked_to_start - self._left_behind()

    def claim_intents(self, pid: str, lease_ms: int, known: Sequence[str] = ()) -> list[ClaimIntent]:
        """The claims to make now. Whoever takes them makes them. `known`: what needs no preload."""
        if not self.may_have_work or not self.groups:
            return []
        if self.kind == "workflows":
            return self._claim_workflows(pid, lease_ms, known)
        to_start = max(0, min(self.free - len(self.claimed), claim_count_max))
        ahead = max(0, min(self.prefetch - len(self.claimed) - self.asked_ahead, claim_count_max))
        if not to_start and not ahead:
            return []
        self.may_have_work = False
        self.asked_to_start += to_start
        self.asked_ahead += ahead
        claim_intents = self._divide(to_start, pid, lease_ms, is_ahead=False) if to_start else []
        if ahead:
            claim_intents += self._divide(ahead, pid, lease_ms, is_ahead=True)
        return claim_intents

    def _claim_workflows(self, pid: str, lease_ms: int, known: Sequence[str]) -> list[ClaimIntent]:
        count = min(self.free, workflow_claim_count_max)
        if count <= 0 or self.asked_to_start:
            return []
        self.may_have_work = False
        self.asked_to_start = count
        claim = TaskClaim(self.groups, count, pid, lease_ms, known=[*known])
        return [ClaimIntent(claim, is_ahead=False, is_complete=True)]

    def waiting_intent(self, pid: str, lease_ms: int, known: Sequence[str]) -> ClaimIntent | None:
        """A claim for all slots that are free, to be made if something is offered. Whoever takes it makes it,
        or hands it back."""
        if self.may_have_work or self.claimed or not self.groups:
            return None
        if self.kind == "workflows" and self.asked_to_start:
            return None
        most = workflow_claim_count_max if self.kind == "workflows" else claim_count_max
        count = min(self.free, most)
        if count <= 0:
            return None
        self.asked_to_start += count
        last, needless = self._waiting_intent, [*known]
        is_same = last is not None and last.claim.groups is self.groups and last.claim.known == needless
        if last is None or not is_same or last.claim.count != count:
            starts = self.kind != "workflows"
            claim = TaskClaim(self.groups, count, pid, lease_ms, starts, known=needless)
            last = self._waiting_intent = ClaimIntent(claim, is_ahead=False, is_complete=True)
        return last

    def hand_back(self, intent: ClaimIntent) -> None:
        """The claim was not made."""
        self.asked_to_start -= intent.claim.count

    def _divide(self, count: int, pid: str, lease_ms: int, *, is_ahead: bool) -> list[ClaimIntent]:
        """A claim for the best tasks; now and then half of it is for some below a priority."""
        ceiling = self._draw_ceiling()
        below = 0 if ceiling is None else (count + 1) // 2
        claim_intents: list[ClaimIntent] = []
        if below:
            claim = TaskClaim(self.groups, below, pid, lease_ms, not is_ahead, ceiling)
            claim_intents.append(ClaimIntent(claim, is_ahead, is_complete=False))
        if count > below:
            claim = TaskClaim(self.groups, count - below, pid, lease_ms, not is_ahead)
            claim_intents.append(ClaimIntent(claim, is_ahead, is_complete=True))
        return claim_intents

    def answered(self, intent: ClaimIntent, priorities: list[int] | None) -> None:
        """A claim is over: it got tasks of these priorities; None when nobody knows."""
        claim = intent.claim
        if intent.is_ahead:
            self.asked_ahead -= claim.count
        else:
            self.asked_to_start -= claim.count
        if priorities is None or not intent.is_complete or len(priorities) == claim.count:
            self.may_have_work = True
        if intent.is_complete:
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


def workflow_slots(group: str, concurrency: int) -> SlotGroup:
    """Nobody claims what is pushed: it comes by itself."""
    return SlotGroup([] if is_pushed_to(group) else [group], concurrency, kind="workflows")


def queue_slots(
    registry: TaskRegistry,
    settings: TaskSettings,
    left_behind: Callable[[], int],
    chance: random.Random | None = None,
) -> list[SlotGroup]:
    """The slots for tasks and for tasks in children, if any of its queues has such tasks now."""
    queues = list(dict.fromkeys(settings.queues if settings.queues is not None else registry.queues))
    with_children = {task.queue for task in registry if task.mode == "process"}
    tasks = [queue_group(queue) for queue in queues if queue not in with_children]
    processes = [queue_group(queue) for queue in queues if queue in with_children]
    found: list[SlotGroup] = []
    if tasks:
        found.append(
            SlotGroup(tasks, settings.concurrency, settings.prefetch, left_behind=left_behind, chance=chance)
        )
    if processes:
        slots = min(settings.processes, settings.concurrency)
        found.append(SlotGroup(processes, slots, settings.prefetch, kind="processes", chance=chance))
    return found


def renew(known: list[SlotGroup], wanted: list[SlotGroup]) -> list[SlotGroup]:
    """The slot groups at work, with the groups that are wanted now, and those that are new."""
    groups = {slots.kind: slots.groups for slots in wanted}
    for slots in known:
        slots.groups = groups.get(slots.kind, [])
    kinds = {slots.kind for slots in known}
    return [*known, *(slots for slots in wanted if slots.kind not in kinds)]
