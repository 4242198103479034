"""Records what nodes answered, and reports contradictions.

1. Two callers never see two different settled records of one promise.
2. Whoever asks after a settled record was seen does not get a pending one.
3. No two claims are granted at one version of one task, and whoever writes at a version writes before a later
   one was granted.
4. A process that was told that its claim is lost begins nothing more for it, and asks for no more writes.
5. No request fails because of a defect.
6. What was seen is there in the end: nothing that was acknowledged is lost.

Two things end otherwise by design. An execution that somebody retries is pending again, with what failed
below it: whoever asks for that says so before (`expect_retries`). And what a generation of an execution has
recorded may be deleted with it: the restart names it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.interface import Client, MessageStream
from holdfast.node.waiting_claims import IdleWorker
from holdfast.protocol.ids import lies_within
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import (
    AcquireReply,
    ClaimReply,
    FenceReply,
    HeartbeatReply,
    PreloadReply,
    PromiseReply,
    Reply,
)
from holdfast.protocol.requests import (
    Request,
    TaskFail,
    TaskFence,
    TaskFulfill,
    TaskRelease,
    TaskRestart,
    TaskStart,
    TaskSuspend,
)
from holdfast.store.memory import MemoryStore
from holdfast.testing.faults import EventLog
from holdfast.testing.loop import Process
from holdfast.testing.mortal import describe

Settled = tuple[str, Value, int | None]
WRITES: Final = (TaskFence, TaskSuspend, TaskFulfill, TaskStart, TaskFail, TaskRelease)


class Witness:
    """Everything that any caller was told, in one order."""

    def __init__(self, log: EventLog) -> None:
        self.contradictions: list[str] = []
        self.answered = 0
        self.log = log
        self._seen: dict[str, None] = {}
        self._settled: dict[str, tuple[int, Settled]] = {}  # when it was first seen, and as what
        self._claims: dict[tuple[str, int], str] = {}
        self._versions: dict[str, list[tuple[int, int]]] = {}  # when which was granted
        self.lost: dict[tuple[str, str, int], None] = {}  # claims that their holder knows to be lost
        self.given_back: dict[tuple[str, int], None] = {}  # claims that their holder wanted to give back
        self.clock = 0
        self._retried: list[str] = []
        self._dropped: dict[str, None] = {}  # records of past generations
        self._continued: dict[str, None] = {}

    def expect_retries(self, execution_id: str) -> None:
        """This execution may begin again after it has ended, and so may what it called."""
        self._retried.append(execution_id)

    def _may_change(self, promise_id: str) -> bool:
        return any(promise_id == root or lies_within(promise_id, root) for root in self._retried)

    def _may_go(self, promise_id: str) -> bool:
        """Messages that a generation has read, and values that were replaced, are deleted by and by."""
        if promise_id in self._dropped or self._may_change(promise_id):
            return True
        return any(promise_id.startswith((f"{root}:in", f"{root}:value.")) for root in self._continued)

    def overhear(self, requests: Sequence[Request], who: str) -> None:
        """What is asked, before anybody knows what will be answered."""
        for request in requests:
            data = request.data
            if isinstance(data, TaskRelease):
                self.given_back[data.id, data.version] = None
            elif isinstance(data, TaskRestart):
                self._dropped.update(dict.fromkeys(data.forget))
                self._continued[data.id] = None
            elif isinstance(data, TaskFence | TaskSuspend) and (who, data.id, data.version) in self.lost:
                self.contradictions.append(f"{who} writes to {data.id} although its claim was lost")

    def hear(self, requests: Sequence[Request], replies: Sequence[Reply], asked_at: int, who: str) -> None:
        self.clock += 1
        for request, reply in zip(requests, replies, strict=True):
            data = reply.data
            if reply.status == 500:
                self.contradictions.append(f"{request.kind} of {who} failed: {data}")
            elif reply.status < 400 and isinstance(request.data, WRITES):
                self._see_write(request.data.id, request.data.version, asked_at, who)
            if isinstance(data, HeartbeatReply):
                self.lost.update({(who, ref.id, ref.version): None for ref in data.lost or ()})
            if isinstance(data, PromiseReply):
                self._see(data.promise, asked_at, who)
            elif isinstance(data, FenceReply):
                if isinstance(data.action.data, PromiseReply):
                    self._see(data.action.data.promise, asked_at, who)
            elif isinstance(data, PreloadReply):
                self._see_all(data.preload, asked_at, who)
            elif isinstance(data, ClaimReply):
                for claim in data.tasks:
                    self._see_claim(claim, asked_at, who)

    def _see_claim(self, claim: AcquireReply, asked_at: int, who: str) -> None:
        key = claim.task.id, claim.task.version
        other = self._claims.setdefault(key, who)
        if other != who:
            self.contradictions.append(f"{key[0]} was claimed at version {key[1]} by {other} and by {who}")
        self._versions.setdefault(key[0], []).append((self.clock, key[1]))
        self._see_all([claim.promise, *claim.preload], asked_at, who)

    def _see_write(self, task_id: str, version: int, asked_at: int, who: str) -> None:
        for granted_at, granted in self._versions.get(task_id, ()):
            if granted > version and granted_at <= asked_at:
                self.contradictions.append(
                    f"{who} wrote to {task_id} at version {version} after {granted} was granted"
                )

    def _see_all(self, promises: Iterable[Promise], asked_at: int, who: str) -> None:
        for promise in promises:
            self._see(promise, asked_at, who)

    def _see(self, promise: Promise, asked_at: int, who: str) -> None:
        self._seen[promise.id] = None
        if self._retried and self._may_change(promise.id):
            return
        known = self._settled.get(promise.id)
        if promise.state == "pending":
            if known is not None and known[0] <= asked_at:
                self.contradictions.append(
                    f"{who} was told that {promise.id} is pending after it had settled"
                )
            return
        found = _settled(promise)
        if known is None:
            self._settled[promise.id] = self.clock, found
        elif known[1] != found:
            self.contradictions.append(f"{promise.id} was {known[1]} and then, to {who}, {found}")

    def compare(self, store: MemoryStore) -> list[str]:
        """What was told and is not so."""
        gone = [key for key in self._seen if key not in store.promises]
        lost = [f"{key} was acknowledged and is gone" for key in gone if not self._may_go(key)]
        wrong = [
            f"{key} was told to be {told} and is {_settled(found)}"
            for key, (_, told) in self._settled.items()
            if (found := store.promises.get(key)) is not None
            # What nobody depends on is written down as lapsed by nobody, and read as such by everybody.
            and _settled(found) != told
            and not (found.state == "pending" and told[2] == found.timeout_at)
        ]
        return [*self.contradictions, *lost, *wrong]


def _settled(promise: Promise) -> Settled:
    return promise.state, promise.value, promise.settled_at


class WitnessedClient:
    """A client whose every answer is remembered."""

    def __init__(self, client: Client, witness: Witness, process: Process) -> None:
        self._client = client
        self._witness = witness
        self._process = process

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        witness, name = self._witness, self._process.name
        asked_at = witness.clock
        witness.log.note(name, f"asks {describe(requests)}")
        witness.overhear(requests, name)
        replies = await self._client.request(requests)
        statuses = ",".join(str(reply.status) for reply in replies)
        witness.log.note(name, f"hears {statuses} to {describe(requests)}")
        witness.answered += len(replies)
        witness.hear(requests, replies, asked_at, name)
        return replies

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        return self._client.messages(group, member)

    async def close(self) -> None:
        await self._client.close()


class WitnessedEmbeddedClient(WitnessedClient):
    """The same of a node in this process, at which claims may wait."""

    def __init__(self, client: EmbeddedClient, witness: Witness, process: Process) -> None:
        super().__init__(client, witness, process)
        self._near = client

    def leave_claim(self, worker: IdleWorker) -> Callable[[], None]:
        return self._near.leave_claim(_WitnessedWorker(worker, self._witness, self._process.name))


class _WitnessedWorker:
    def __init__(self, worker: IdleWorker, witness: Witness, name: str) -> None:
        self._worker = worker
        self._witness = witness
        self._name = name
        self._asked: Request | None = None
        self._asked_at = 0

    @property
    def pid(self) -> str:
        return self._worker.pid

    @property
    def groups(self) -> Sequence[str]:
        return self._worker.groups

    def claim(self) -> Request | None:
        request = self._worker.claim()
        if request is not None:  # otherwise the one before may still be under way
            self._asked, self._asked_at = request, self._witness.clock
        return request

    def begin(self) -> bool:
        return self._worker.begin()

    def answered(self, reply: Reply | None) -> None:
        assert self._asked is not None
        if reply is not None:
            self._witness.log.note(self._name, f"hears {reply.status} to its claim that waited")
            self._witness.answered += 1
            self._witness.hear([self._asked], [reply], self._asked_at, self._name)
        self._worker.answered(reply)

    def returned(self) -> None:
        self._worker.returned()
