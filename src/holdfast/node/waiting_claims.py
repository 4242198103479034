"""Claims that idle workers leave at a node. They are carried out in the commit that makes work for them.

Without one, a task costs a commit for itself, a message to a worker, and a second commit for the claim. With
one, the claim is the last request of the first commit. It is the ordinary `task.claim`, over what this commit
has written, so every rule about it is the engine's. A node only decides when it is carried out.

1. A worker is asked for its claim when a commit begins that may make work. From then until it is told how
   that ended, the slots of the claim are taken, and it is not asked again. So nobody is granted more than he
   has slots for, however many commits are under way.
2. A claim is carried out only if the commit has offered a task to one of its groups.
3. A commit whose fate is unknown answers a claim with None: the worker looks up what it holds.
4. Workers are asked in turn: whoever was granted something comes last.
5. An offer is told to nobody if the task was granted in the same commit, and nothing else is left to claim.
6. Only what this node commits is seen here. Everything else reaches a worker by messages, as always.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from holdfast.node.message_router import MessageRouter
from holdfast.node.queue import Submission
from holdfast.protocol import tags
from holdfast.protocol.address import claim_group
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.replies import ClaimReply, Reply
from holdfast.protocol.requests import (
    CreateAction,
    NextAction,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterListener,
    Request,
    RequestData,
    StreamRead,
    TaskAcquire,
    TaskClaim,
    TaskFence,
    TaskGet,
    TaskHeartbeat,
    TaskStart,
    TaskSuspend,
)

log = logging.getLogger("holdfast.node")

# They offer nothing to anybody, or hardly ever: then a message tells of it.
silent_kinds: Final[frozenset[type[RequestData]]] = frozenset(
    {
        PromiseGet,
        PromiseRegisterListener,
        StreamRead,
        TaskAcquire,
        TaskClaim,
        TaskGet,
        TaskHeartbeat,
        TaskStart,
        TaskSuspend,
    }
)


class IdleWorker(Protocol):
    """Slots of a worker that may be free."""

    @property
    def pid(self) -> str: ...
    @property
    def groups(self) -> Sequence[str]: ...

    def claim(self) -> Request | None:
        """A `task.claim` for the slots that are free now, which are taken until one of the calls below."""
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
        self._workers: dict[IdleWorker, None] = {}

    def leave(self, worker: IdleWorker) -> Callable[[], None]:
        """Ask this worker from now on. Returns a way to withdraw; a claim that is under way is answered."""
        self._workers[worker] = None
        return lambda: self._withdraw(worker)

    def _withdraw(self, worker: IdleWorker) -> None:
        self._workers.pop(worker, None)

    def take_for(self, group: Sequence[Submission]) -> Sequence[TakenClaim]:
        """The claims that go along with these requests."""
        return self.take() if self._workers and may_make_work(group) else ()

    def take(self) -> Sequence[TakenClaim]:
        taken: list[TakenClaim] = []
        for worker in self._workers:
            if self._router.drained and self._is_drained(worker):
                continue
            request = worker.claim()
            if request is not None:
                taken.append(TakenClaim(worker, request))
        return taken

    def _is_drained(self, worker: IdleWorker) -> bool:
        return any(self._router.is_drained(worker.pid, group) for group in worker.groups)

    def answer(self, taken: Sequence[TakenClaim], replies: Sequence[Reply | None]) -> None:
        """The commit is durable. Those without a reply were not carried out."""
        for (worker, _), reply in zip(taken, replies, strict=True):
            if reply is None:
                _tell(worker.returned)
                continue
            if worker in self._workers:
                self._withdraw(worker)
                self._workers[worker] = None
            _tell(worker.answered, reply)

    def lose(self, taken: Iterable[TakenClaim]) -> None:
        """Nobody knows whether the commit was carried out."""
        for worker, _ in taken:
            _tell(worker.answered, None)


def _tell(call: Callable[..., None], *reply: Reply | None) -> None:
    try:
        call(*reply)
    except Exception:  # of one worker; the others, and whoever else waits for this commit, go on
        log.exception("a worker could not be told of its claim")


def may_make_work(group: Sequence[Submission]) -> bool:
    """May one of these requests offer a task to a worker?"""
    for submission in group:
        for request in submission.requests:
            data = request.data
            if type(data) in silent_kinds:
                continue
            if type(data) is TaskFence:
                action = data.action
                if type(action) is NextAction:
                    continue
                if type(action) is CreateAction and tags.TARGET not in action.data.tags:
                    continue
            elif type(data) is PromiseCreate and tags.TARGET not in data.tags:
                continue
            return True
    return False


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
