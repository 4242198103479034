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
from holdfast.engine.scans import is_search
from holdfast.protocol.ids import root_of
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.requests.weight import weight_of

group_requests_max: Final = 512
# Characters of payloads. While a group is written to a database that other nodes share, it holds its locks,
# and the time in which the database lets it do so is short.
group_weight_max: Final = 2_097_152
# While a search looks through the store, others wait.
group_searches_max: Final = 8
look_ahead_max: Final = 1_024


class Submission:
    """Requests that came together, answered together."""

    __slots__ = ("_roots", "future", "requests", "searches", "weight")

    def __init__(self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]") -> None:
        self.requests = requests
        self.future = future
        self.weight = sum([weight_of(request.data) for request in requests])
        self.searches = sum([is_search(request.data) for request in requests])
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


class _Group:
    """What goes together, within the bounds. The first submission always fits, whatever it carries."""

    def __init__(self) -> None:
        self.submissions: list[Submission] = []
        self.requests = 0
        self._weight = 0
        self._searches = 0

    def has_room(self, submission: Submission) -> bool:
        return not self.submissions or (
            self.requests + len(submission.requests) <= group_requests_max
            and self._weight + submission.weight <= group_weight_max
        )

    def add(self, submission: Submission) -> None:
        self.submissions.append(submission)
        self.requests += len(submission.requests)
        self._weight += submission.weight
        self._searches += submission.searches

    def may_search(self, submission: Submission) -> bool:
        searches = self._searches + submission.searches
        return searches in (self._searches, submission.searches) or searches <= group_searches_max


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
        """Whatever waits, up to the bounds. Searches for which there is no room keep their place."""
        group = _Group()
        left: list[Submission] = []
        while self._waiting and len(left) < look_ahead_max and group.has_room(self._waiting[0]):
            submission = self._waiting[0]
            is_possible = group.may_search(submission)
            if not is_possible and submission.searches < len(submission.requests):
                break  # it changes something, and those behind it may depend on that
            (group.add if is_possible else left.append)(self._waiting.popleft())
        self._waiting.extendleft(reversed(left))
        self.request_count -= group.requests
        return group.submissions

    def take_group_beside(self, busy: set[str]) -> list[Submission]:
        """What waits and meets none of these roots, up to the bounds; what it leaves keeps its place."""
        group = _Group()
        left: list[Submission] = []
        blocked = set(busy)
        while self._waiting and len(group.submissions) + len(left) < look_ahead_max:
            if not group.has_room(self._waiting[0]):
                break
            submission = self._waiting.popleft()
            if submission.roots.isdisjoint(blocked) and group.may_search(submission):
                group.add(submission)
            else:
                blocked |= submission.roots
                left.append(submission)
        self._waiting.extendleft(reversed(left))
        self.request_count -= group.requests
        return group.submissions
