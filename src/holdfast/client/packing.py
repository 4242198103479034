"""How many of the waiting requests go into one array.

1. Requests that were issued together, a submission, go out together: one array, one commit. Only one that is
   larger than `submission_bytes_max` goes in several, each sent when the one before it was answered, and
   nothing else in between. If one fails, or is refused for now, those behind it are not sent.
2. Submissions share an array as long as it stays below `array_bytes_max` and has no more schedules than a
   server carries out: what replaces a schedule must not be done by half.
3. A server may take less at once. One that says so gets arrays of half the size from then on. What is too
   large by itself was the only request of its array, and the refusal is its own.
4. Every request is encoded once, however often it is sent.
"""

import asyncio
from collections import deque
from collections.abc import Container, Sequence
from typing import Final

from holdfast.client.errors import ClientError
from holdfast.client.retries import is_turned_away, is_undecided
from holdfast.client.wire import encode_request
from holdfast.protocol.limits import batch_envelopes_max, batch_schedules_max
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, TaskFence, TaskFulfill, TaskRestart, TaskSuspend
from holdfast.protocol.requests.schedules import costly_schedule_kinds

array_bytes_max: Final = 524_288
submission_bytes_max: Final = 2_097_152  # half of what a server takes by default
_writes_of_claims: Final = (TaskFence, TaskFulfill, TaskRestart, TaskSuspend)


class PendingRequests:
    """Requests that were issued together."""

    __slots__ = (
        "_bodies",
        "claim",
        "deadline_s",
        "future",
        "packed",
        "replies",
        "requests",
        "schedules",
        "sent",
        "size",
        "trouble",
    )

    def __init__(
        self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]", deadline_s: float
    ) -> None:
        self.deadline_s = deadline_s
        self.requests = requests  # those that are not answered
        self.replies: list[Reply] = []  # to those that are
        self.packed = 0  # so many go out, or are under way
        self._bodies = [*map(encode_request, requests)]
        self.size = sum(map(len, self._bodies)) + len(self._bodies)
        self.schedules = sum([request.kind in costly_schedule_kinds for request in requests])
        self.claim = _claim_of(requests)
        self.future = future
        self.sent = False
        self.trouble: BaseException | None = None

    @property
    def is_whole(self) -> bool:
        """Nothing of it is left for later arrays."""
        return self.packed == len(self.requests)

    @property
    def packed_requests(self) -> Sequence[Request]:
        return self.requests if self.is_whole else self.requests[: self.packed]

    @property
    def packed_bodies(self) -> Sequence[bytes]:
        return self._bodies if self.is_whole else self._bodies[: self.packed]

    def pack(self, bytes_max: int) -> None:
        """Take all of it, or as much as fits; at least one request."""
        self.packed = len(self.requests)
        if self.size > bytes_max:
            size = 0
            for number, body in enumerate(self._bodies):
                size += len(body) + 1
                if size > bytes_max and number:
                    self.packed = number
                    return

    def answer(self, replies: list[Reply]) -> bool:
        """Whether that was the last of it."""
        left = len(self.requests) - len(replies)
        if left and all(is_turned_away(reply) or is_undecided(reply) for reply in replies):
            replies = replies + replies[-1:] * left  # nothing is done before what was issued before it
            left = 0
        if not left:
            self.future.set_result(self.replies + replies if self.replies else replies)
            return True
        self.replies += replies
        self.requests = self.requests[len(replies) :]
        self.size -= sum(map(len, self._bodies[: len(replies)])) + len(replies)
        self._bodies = self._bodies[len(replies) :]
        return False

    def fail(self, error: ClientError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            error.__cause__ = self.trouble


class Packing:
    """What waits, in order."""

    def __init__(self) -> None:
        self.queue: deque[PendingRequests] = deque()
        self.waiting = 0  # requests
        self._bytes_max = submission_bytes_max

    def put(self, submission: PendingRequests) -> None:
        self.queue.append(submission)
        self.waiting += len(submission.requests)

    def put_back(self, batch: Sequence[PendingRequests]) -> None:
        self.queue.extendleft(reversed(batch))
        self.waiting += sum(len(submission.requests) for submission in batch)

    def take(
        self, envelopes_max: int = batch_envelopes_max, *, beside: Container[str | None] | None = None
    ) -> list[PendingRequests]:
        """What is at the front of the queue; `beside` some claims: writes of others."""
        batch: list[PendingRequests] = []
        bytes_max = min(array_bytes_max, self._bytes_max)
        count = size = schedules = 0
        while self.queue:
            submission = self.queue[0]
            if not submission.future.done():
                count += len(submission.requests)
                size += submission.size
                schedules += submission.schedules
                if batch and (count > envelopes_max or size > bytes_max or schedules > batch_schedules_max):
                    break
                if beside is not None and (submission.claim is None or submission.claim in beside):
                    break
                submission.pack(self._bytes_max)
                batch.append(submission)
            self.queue.popleft()
            self.waiting -= len(submission.requests)
        return batch

    def is_smaller_after(self, batch: Sequence[PendingRequests]) -> bool:
        """This array was too large. From now on they are smaller, unless it was a single request."""
        if sum(submission.packed for submission in batch) == 1:
            return False
        size = sum(len(body) + 1 for submission in batch for body in submission.packed_bodies)
        self._bytes_max = min(self._bytes_max, size // 2)
        return True


def _claim_of(requests: Sequence[Request]) -> str | None:
    """The task whose claim these requests are writes of, if they are nothing else."""
    first = requests[0].data
    if not isinstance(first, _writes_of_claims):
        return None
    for request in requests[1:]:
        if not isinstance(request.data, _writes_of_claims) or request.data.id != first.id:
            return None
    return first.id
