"""The interface between a host and a runner: run this claim, and give me the final request.

A host has one runner for workflows (`workflow/runner.py`) and one for background tasks (`jobs/runner.py`). It
knows of a claim's work only what is written here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from holdfast.protocol.replies import AcquireReply, Reply
from holdfast.protocol.requests import RequestData, TaskRelease


class Run(Protocol):
    """A task that is ours, at a version, until an instant of the loop's clock."""

    lease_ends_s: float

    @property
    def id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def is_lost(self) -> bool: ...
    @property
    def is_leaving(self) -> bool:
        """It has given the task up, and waits for the reply."""
        ...


R = TypeVar("R", bound=Run)
Ended = Callable[[RequestData | None], None]


class Runner(Protocol[R]):
    grace_s: float  # what runs may take so long to end, when the host stops
    known_now: Sequence[str]  # some of all tasks that it could go on with without the preload of a claim
    writes_results: bool  # its runs write their results themselves, and see for themselves who else did

    def accept(self, claim: AcquireReply, lease_ends_s: float) -> R | TaskRelease:
        """The run that a claim asks for; or how to give it back, if it cannot be run here."""
        ...

    def known(self, task_ids: Iterable[str]) -> list[str]:
        """Of these tasks, those that it can go on with without the preload of a claim."""
        ...

    def begin(self, run: R, ended: Ended) -> None:
        """Begin. `ended` is called once, on the loop: with the final request, or None if there is none."""
        ...

    def doubt(self, run: R) -> None:
        """Something has woken the task while it is held."""
        ...

    def lose(self, run: R, why: str, *, is_stopping: bool) -> None:
        """Nobody wants the result any more: stop, and give no final request."""
        ...

    def answered(self, run: R, reply: Reply, sent: int) -> RequestData | None:
        """The reply to the final request, which was sent so often; another request if that was refused."""
        ...

    def leave(self, *, is_leaving: bool) -> None:
        """The host claims nothing any more, or again: what would run on and on is to be given back."""
        ...

    async def close(self, wait_s: float) -> None:
        """End everything that still runs, at the latest after so long. Nothing is accepted after that."""
        ...
