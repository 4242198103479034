"""Claims that idle workers leave at a node. They are carried out in the commit that makes work for them.

Without one, a task costs a commit for itself, a message to a worker, and a second commit for the claim. With
one, the claim is the last request of the first commit. It is the ordinary `task.claim`, over what this commit
has written, so every rule about it is the engine's. A node only decides when it is carried out.

1. A worker is asked for its claim when a commit begins that may make work. From then until it is told how
   that ended, the slots of the claim are taken, and it is not asked again. So nobody is granted more than he
   has slots for, however many commits are under way. A commit may have to wait for what others have locked:
   as long as its claims are not being carried out, a worker may take its claim back (`begin`).
2. A claim is carried out only if the commit has offered a task to one of its groups.
3. A commit whose fate is unknown answers a claim with None: the worker looks up what it holds.
4. Workers are asked in turn: whoever was granted something comes last.
5. An offer is told to nobody if the task was granted in the same commit, and nothing else is left to claim.
6. Only what this node commits is seen here. Everything else reaches a worker by messages, as always.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.engine import Footprint, WorkingSet
from holdfast.node.budget import commit_steps_max
from holdfast.node.message_router import MessageRouter
from holdfast.protocol.address import claim_group
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.replies import ClaimReply, Reply
from holdfast.protocol.requests import Request, TaskClaim
from holdfast.store.interface import CorruptRecord, Load, Work

if TYPE_CHECKING:
    from holdfast.node.group import Commit

log = logging.getLogger("holdfast.node")

# The replies to all claims of a commit: None of all of them: nobody knows; of one: it was not carried out.
Granted = Sequence[Reply | None] | None


class IdleWorker(Protocol):
    """Slots of a worker that may be free."""

    @property
    def pid(self) -> str: ...
    @property
    def groups(self) -> Sequence[str]: ...

    def claim(self) -> Request | None:
        """A `task.claim` for the slots that are free now, which are taken until one of the calls below."""
        ...

    def begin(self) -> bool:
        """It is about to be carried out, perhaps again. False: the worker has taken it back. This is asked
        from where the store works, which may be another thread."""
        ...

    def answered(self, reply: Reply | None) -> None:
        """It was carried out; None: nobody knows."""
        ...

    def returned(self) -> None:
        """It was not carried out."""
        ...


class TakenClaim(NamedTuple):
    """A claim that goes along with a commit."""

    worker: IdleWorker
    request: Request


class WaitingClaims:
    def __init__(self, router: MessageRouter) -> None:
        self._router = router
        self.workers: dict[IdleWorker, None] = {}

    def leave(self, worker: IdleWorker) -> Callable[[], None]:
        """Ask this worker from now on. Returns a way to withdraw; a claim that is under way is answered."""
        self.workers[worker] = None
        return lambda: self._withdraw(worker)

    def _withdraw(self, worker: IdleWorker) -> None:
        self.workers.pop(worker, None)

    def take(self) -> Sequence[TakenClaim]:
        """The claims that go along with a commit."""
        taken: list[TakenClaim] = []
        for worker in self.workers:
            if self._router.drained and self._is_drained(worker):
                continue
            try:
                request = worker.claim()
            except Exception:  # of one worker; the commit goes on without it
                log.exception("a worker could not be asked for its claim")
                continue
            if request is not None:
                taken.append(TakenClaim(worker, request))
        return taken

    def _is_drained(self, worker: IdleWorker) -> bool:
        return any(self._router.is_drained(worker.pid, group) for group in worker.groups)

    def answer(self, taken: Sequence[TakenClaim], replies: Granted) -> None:
        """The commit is over."""
        if replies is None:
            for worker, _ in taken:
                _tell(worker.answered, None)
            return
        for (worker, _), reply in zip(taken, replies, strict=True):
            if reply is None:
                _tell(worker.returned)
                continue
            if worker in self.workers:
                self._withdraw(worker)
                self.workers[worker] = None
            _tell(worker.answered, reply)


def _tell(call: Callable[..., None], *reply: Reply | None) -> None:
    try:
        call(*reply)
    except Exception:  # of one worker; the others, and whoever else waits for this commit, go on
        log.exception("a worker could not be told of its claim")


def groups_offered(messages: Iterable[Message]) -> set[str]:
    """The groups any of whose workers may claim what was offered."""
    found = {claim_group(message.address) for message in messages if type(message) is Execute}
    return {group for group in found if group is not None}


def is_all_granted(claim: TaskClaim, reply: ClaimReply) -> bool:
    """Is nothing left in its groups that somebody could claim now?"""
    return len(reply.tasks) < claim.count and not reply.limited and reply.next_at is None


def without_granted(
    messages: Iterable[Message], replies: Iterable[Reply | None], done: set[str]
) -> list[Message]:
    """Rule 5: without the offers of what these replies grant, where nothing is left in their group."""
    granted: set[str] = set()
    for reply in replies:
        if reply is not None and isinstance(reply.data, ClaimReply):
            granted.update([claim.task.id for claim in reply.data.tasks])
    return [
        each
        for each in messages
        if not (isinstance(each, Execute) and each.task.id in granted and claim_group(each.address) in done)
    ]


def carry_out_waiting(commit: "Commit", claims: Sequence[TakenClaim]) -> Work[None]:
    """Claims that wait for what was offered in this commit. What cannot be claimed now is
    told to the workers, and they ask again."""
    offered = groups_offered(commit.ws.messages)
    asked = [_asked(claim) for claim in claims]
    wanted = {group for data in asked if not offered.isdisjoint(data.groups) for group in data.groups}
    if not wanted or commit.is_crowded or commit.spent >= commit_steps_max:
        return
    with suppress(CorruptRecord):  # then a claim of it is refused
        # Before anything is saved: whoever holds a queue must not wait for what we have written.
        yield from load_gates(wanted, commit.ws)
    yield from commit.save()  # which may wait for others, too
    done: set[str] = set()  # groups of which nothing is left
    for number, (claim, data) in enumerate(zip(claims, asked, strict=True)):
        if offered.isdisjoint(data.groups):
            continue
        if commit.is_crowded or commit.spent >= commit_steps_max:
            break
        if not claim.worker.begin():
            continue
        reply = yield from commit.answer(claim.request, commit.now)
        if not isinstance(reply.data, ClaimReply):
            break
        commit.granted[number] = reply
        if len(reply.data.tasks) < data.count:
            offered.difference_update(data.groups)
        if is_all_granted(data, reply.data):
            done.update(data.groups)
    if done:
        messages = commit.ws.messages
        messages[:] = without_granted(messages, commit.granted, done)


def _asked(claim: TakenClaim) -> TaskClaim:
    data = claim.request.data
    assert isinstance(data, TaskClaim)
    return data


def load_gates(groups: Iterable[str], ws: WorkingSet) -> Work[None]:
    """Those of their queues that are paused or have limits."""
    named = [name for group in groups if (name := queue_of(group)) is not None]
    if unknown := {name for name in named if not ws.holds_queue(name)}:
        yield Load(ws, Footprint(gates=unknown))
