"""How much one commit may look through and load for requests that name no records, or not all they need.

Everybody waits for a commit. What a request names costs about what it cost to send; but a search, a count
of a queue or the preload of a claim may take any time. So these count what they do, in steps, and a commit
carries out only so many.

1. What is over the budget goes to a later commit, and whoever waits behind it passes. The members of one
   array cannot be parted; of those the ones that are over are refused, and have changed nothing.
2. In every commit the first of each line (a tenant's searches; a tenant's claims) is carried out, whatever
   others have used. So each of them goes on, whoever sends more.
"""

from typing import Final

from holdfast.node.queue import Line, Submission

commit_steps_max: Final = 20_000  # a step: one record is looked at, in about a microsecond
request_steps: Final = 64  # what each request of a commit may take besides
step_bytes: Final = 512  # of payloads, to read them for a search: its page is held until it is answered
record_steps: Final = 8  # to load a record, or to show it in a preload
count_steps: Final = 64  # a statement that counts a queue, besides what it counts
claim_steps: Final = 1_000  # a claim that may have to pass over tasks of others, or of keys that are full


class Budget:
    """Of one commit. `spent` is what all requests so far have used."""

    def __init__(self, requests: int) -> None:
        self._most = _most(requests)
        self._lines: set[Line] = set()
        self._blocked: set[str] = set()

    def admits(self, part: Submission, spent: int) -> bool:
        """May this be carried out in this commit? Whoever came first on a root id is carried out first."""
        if self._blocked and not part.roots.isdisjoint(self._blocked):
            is_admitted = False
        else:
            is_admitted = part.line is None or part.line not in self._lines or spent < self._most
        if not is_admitted:
            self._blocked |= part.roots
        elif part.line is not None:
            self._lines.add(part.line)
        return is_admitted


class ArrayBudget:
    """Of one array, from what was spent when it began."""

    def __init__(self, requests: int, spent: int) -> None:
        self._most = spent + _most(requests)

    def is_used(self, spent: int) -> bool:
        return spent > self._most


def _most(requests: int) -> int:
    return commit_steps_max + request_steps * requests
