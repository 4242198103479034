"""Requests that wait for a commit, and which of them may go together.

Where a store takes one group at a time, a group is whatever waits. Where it takes several, a group leaves
out what meets a group that is under way (the same root id): it would only wait there, holding its locks.
Whoever came first on a root id is carried out first. Of what searches and claims a group has only so many,
and of each flow of them fewer: the others keep their place, and whoever waits behind them passes.

What waits, and what is being committed, is bounded by requests and by bytes.
"""

import asyncio
from collections import deque
from collections.abc import Sequence, Set
from typing import Final

from holdfast.engine import Footprint, footprint
from holdfast.engine.scans import LimitedClass, class_of, share_of
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import Overloaded, Refusal
from holdfast.protocol.ids import root_of
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    CreateAction,
    NextAction,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterListener,
    Request,
    StreamRead,
    TaskAcquire,
    TaskClaim,
    TaskFence,
    TaskGet,
    TaskHeartbeat,
    TaskStart,
    TaskSuspend,
)
from holdfast.protocol.sizes import list_bytes, list_kinds, payload_bytes, request_bytes

group_requests_max: Final = 512
# Characters of payloads. While a group is written to a database that other nodes share, it holds its locks,
# and the time in which the database lets it do so is short.
group_weight_max: Final = 2_097_152
# Of the requests that look through records or load some which they do not name. What they really take is
# counted as the group is carried out (budget.py).
group_limited_max: Final = 384
flow_requests_max: Final[dict[LimitedClass, int]] = {"look": 64, "claim": 256, "wide": 512}
look_ahead_max: Final = 20_000
# They offer nothing to any worker, or hardly ever. Two more do so if they create something for a worker.
silent_kinds: Final = frozenset(
    {PromiseGet, PromiseRegisterListener, StreamRead, TaskAcquire, TaskClaim, TaskGet, TaskHeartbeat}
    | {TaskStart, TaskSuspend}
)

# Who waits for whom among those: the same caller's, of the same class.
Flow = tuple[str | None, LimitedClass]


class Submission:
    """Requests that came together, answered together."""

    __slots__ = (
        "_footprint", "_roots", "bytes", "flow", "future", "limited", "makes_work", "requests", "weight",
    )  # fmt: skip

    def __init__(self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]") -> None:
        self.requests = requests
        self.future = future
        self.weight = self.limited = 0
        frames = request_bytes * len(requests)
        self.flow: Flow | None = None
        self.makes_work = False  # may it offer a task to a worker?
        for request in requests:
            data = request.data
            self.weight += payload_bytes(data)
            if type(data) in list_kinds:
                frames += list_bytes(data)
            if not self.makes_work and type(data) not in silent_kinds:
                creation = data.action if type(data) is TaskFence else data
                if type(creation) is CreateAction:
                    creation = creation.data
                if type(creation) is PromiseCreate:
                    self.makes_work = tags.TARGET in creation.tags
                else:
                    self.makes_work = type(creation) is not NextAction
            kind = class_of(data)
            if kind is not None:
                self.limited += share_of(data)
                self.flow = self.flow or (requests[0].scope, kind)
        self.bytes = self.weight + frames
        self._footprint: Footprint | None = None
        self._roots: set[str] | None = None

    @property
    def footprint(self) -> Footprint:
        """Nobody changes it: it is used for the queue, and again whenever the group is carried out."""
        if self._footprint is None:
            self._footprint = footprint(self.requests)
        return self._footprint

    @property
    def roots(self) -> set[str]:
        """Of all ids that may be changed. Schedules are told apart from promises by a colon in front."""
        if self._roots is None:
            needed = self.footprint
            named = needed.promises | needed.obligations | needed.branches_of | needed.listened
            self._roots = {root_of(key) for key in named}
            self._roots.update(":" + key for key in needed.schedules)
            self._roots.update(":queue:" + name for name in needed.queues)
        return self._roots


class _Group:
    """What goes together, within the bounds. The first submission always fits, whatever it carries."""

    def __init__(self) -> None:
        self.submissions: list[Submission] = []
        self.requests = 0
        self.weight = 0
        self.limited = 0
        self._flows: dict[Flow, int] = {}

    def has_room(self, submission: Submission) -> bool:
        return not self.submissions or (
            self.requests + len(submission.requests) <= group_requests_max
            and self.weight + submission.weight <= group_weight_max
        )

    def add(self, submission: Submission) -> None:
        self.submissions.append(submission)
        self.requests += len(submission.requests)
        self.weight += submission.weight
        if submission.flow is not None:
            self.limited += submission.limited
            self._flows[submission.flow] = self._flows.get(submission.flow, 0) + submission.limited

    def admits(self, submission: Submission, flow: Flow) -> bool:
        """The first of a flow always, unless the flows are very many."""
        if not self.limited:
            return True
        if self.limited + submission.limited > group_limited_max:
            return False
        of_flow = self._flows.get(flow, 0)
        return not of_flow or of_flow + submission.limited <= flow_requests_max[flow[1]]


class RequestQueue:
    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self._weight = self._limited = 0  # of what waits
        self.request_count = 0
        self.bytes = 0  # of payloads: what waits, and what is being committed

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, submission: Submission) -> None:
        self._waiting.append(submission)
        self._weight += submission.weight
        self._limited += submission.limited
        self.request_count += len(submission.requests)
        self.bytes += submission.bytes

    def refuse_bytes(self, submission: Submission, others: int) -> Refusal | None:
        """Is there no room for it beside what waits? `others` is what the node holds besides."""
        if self.bytes + submission.bytes > limits.queue_bytes_max:
            return Overloaded(f"{self.bytes} bytes of requests wait, the limit is {limits.queue_bytes_max}")
        if self.bytes + submission.bytes + others > limits.node_bytes_max:
            held = self.bytes + others
            return Overloaded(
                f"{held} bytes of requests and messages wait, the limit is {limits.node_bytes_max}"
            )
        return None

    def let_go(self, group: Sequence[Submission]) -> None:
        """These were taken out, and are answered now."""
        self.bytes -= sum([submission.bytes for submission in group])

    def put_back(self, submissions: Sequence[Submission]) -> None:
        """They were taken and let go, and there was no time for them: they come first in the next group."""
        self._waiting.extendleft(reversed(submissions))
        self._weight += sum([submission.weight for submission in submissions])
        self._limited += sum([submission.limited for submission in submissions])
        self.request_count += sum([len(submission.requests) for submission in submissions])
        self.bytes += sum([submission.bytes for submission in submissions])

    def take_group(self) -> list[Submission]:
        """Whatever waits, up to the bounds; what it leaves keeps its place."""
        return self.take_group_beside(frozenset())

    def take_group_beside(self, busy: Set[str]) -> list[Submission]:
        """What waits and meets none of these roots, up to the bounds; what it leaves keeps its place."""
        is_small = self.request_count <= group_requests_max and self._weight <= group_weight_max
        if is_small and not busy and not self._limited:  # nearly always: then all of it goes together
            whole = [*self._waiting]
            self._waiting.clear()
            self._weight = self.request_count = 0
            return whole
        group = _Group()
        left: list[Submission] = []
        blocked = set(busy)
        while self._waiting and len(left) < look_ahead_max and group.has_room(self._waiting[0]):
            submission = self._waiting.popleft()
            is_over = submission.flow is not None and not group.admits(submission, submission.flow)
            if is_over or (blocked and not submission.roots.isdisjoint(blocked)):
                blocked |= submission.roots
                left.append(submission)
            else:
                group.add(submission)
        self._waiting.extendleft(reversed(left))
        self._weight -= group.weight
        self._limited -= group.limited
        self.request_count -= group.requests
        return group.submissions
