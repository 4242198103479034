"""Requests that wait for a commit, and which of them may go together.

Where a store takes one group at a time, a group is whatever waits. Where it takes several, a group leaves
out what meets a group that is under way (the same root id): it would only wait there, holding its locks.
Whoever came first on a root id is carried out first.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from holdfast.engine import footprint
from holdfast.protocol.ids import root_of
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

group_requests_max: Final = 512
look_ahead_max: Final = 1_024


class Submission:
    """Requests that came together, answered together."""

    __slots__ = ("_roots", "future", "requests")

    def __init__(self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]") -> None:
        self.requests = requests
        self.future = future
        self._roots: set[str] | None = None

    @property
    def roots(self) -> set[str]:
        """Of all ids that may be changed. Schedules are told apart from promises by a colon in front."""
        if self._roots is None:
            needed = footprint(self.requests)
            named = needed.promises | needed.obligations | needed.branches_of | needed.listened
            self._roots = {root_of(key) for key in named}
            self._roots.update(":" + key for key in needed.schedules)
            self._roots.update(":queue:" + name for name in needed.queues)
        return self._roots


class RequestQueue:
    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self.request_count = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, submission: Submission) -> None:
        self._waiting.append(submission)
        self.request_count += len(submission.requests)

    def take_group(self) -> list[Submission]:
        """Whatever waits, up to the bound."""
        group: list[Submission] = []
        size = 0
        while self._waiting and (not group or size + len(self._waiting[0].requests) <= group_requests_max):
            submission = self._waiting.popleft()
            size += len(submission.requests)
            group.append(submission)
        self.request_count -= size
        return group

    def take_group_beside(self, busy: set[str]) -> list[Submission]:
        """What waits and meets none of these roots, up to the bound; what it leaves keeps its place."""
        group: list[Submission] = []
        left: list[Submission] = []
        blocked = set(busy)
        size = 0
        while self._waiting and len(group) + len(left) < look_ahead_max:
            if group and size + len(self._waiting[0].requests) > group_requests_max:
                break
            submission = self._waiting.popleft()
            if submission.roots.isdisjoint(blocked):
                size += len(submission.requests)
                group.append(submission)
            else:
                blocked |= submission.roots
                left.append(submission)
        self._waiting.extendleft(reversed(left))
        self.request_count -= size
        return group
