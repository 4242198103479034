"""Locks and permits that executions share: one at a time, or at most so many, over all workers.

    async with hf.lock("printer-3") as lock:
        await hf.run(print_page, page, token=lock.token)

1. Whoever asks first holds it first. It is held until the block is left or the execution ends, however it
   ends: over crashes, suspensions and redeployments in between.
2. A fiber that is interrupted while it waits gives its ticket up, also if it was granted meanwhile.
3. Which locks a fiber holds while it waits for another is told to the node, which finds rings of executions
   that wait for each other. A fiber holds what those that started it hold.
4. What is still held or wanted when a generation ends is released with it: no code is left that could do it.
"""

from collections.abc import Generator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.errors import NotRecorded
from holdfast.protocol import limits
from holdfast.protocol.errors import LimitDiffers, LockDeadlock, LockFull, Refusal
from holdfast.protocol.locks import RING_HEADER, TOKEN_HEADER
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import AcquireAction, LockAcquire, LockRelease, ReleaseAction
from holdfast.runtime import Durable, ExecutionClosed, Operation
from holdfast.runtime.errors import TimedOut
from holdfast.runtime.slot import current as current_scheduler
from holdfast.workflow.errors import BadLock, ExecutionCancelled
from holdfast.workflow.messages import execution
from holdfast.workflow.operations import Action, Asked, DurableOperation, Note

if TYPE_CHECKING:
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder

_held: ContextVar[tuple[str, ...]] = ContextVar("holdfast_held_locks", default=())
_refusals: Final[tuple[type[Refusal], ...]] = (LimitDiffers, LockFull, LockDeadlock)
# What a ticket fails with that is in the queue no more; anything else comes to whoever waits from elsewhere.
_failures: Final = (*_refusals, TimedOut, NotRecorded, ExecutionCancelled)


class Acquire(DurableOperation):
    """A ticket for a lock; the value is the fencing token."""

    def __init__(self, lock: "SharedLock", holding: Sequence[str]) -> None:
        self.label = f"{lock.kind} {lock.name}"
        self.arguments = (lock.limit, lock.count), {}
        self._lock = lock
        self._holding = [*holding]

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        lock = self._lock
        deadline = min(recorder.after(lock.timeout_s), recorder.timeout_at)
        param = recorder.local(promise_id, self).param
        wanted = lock.limit, lock.count, self._holding
        asked = LockAcquire(promise_id, lock.name, deadline, *wanted, param, recorder.answer_tags)
        return [Asked(promise_id, AcquireAction(asked))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if isinstance(reply.data, PromiseReply):
            progress.learn(reply.data.promise)
        else:
            progress.refuse(promise_id, _refusal(self.label, reply))

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> int:
        headers = {} if record is None else record.value.headers or {}
        if (token := headers.get(TOKEN_HEADER)) is not None:
            return int(token)
        if (ring := headers.get(RING_HEADER)) is not None:
            raise LockDeadlock(f"Executions wait for each other: {ring}")
        super().read(promise_id, record, recorder)
        raise NotRecorded(f"The ticket {promise_id} ({self.label}) was settled by somebody else")


def _refusal(label: str, reply: Reply) -> Exception:
    for kind in _refusals:
        if reply.code == kind.code:
            return kind(str(reply.data).removesuffix(f". {kind.hint} [{kind.code}]"))
    return NotRecorded(f"{label} cannot be asked for: {reply.data}")


class SharedLock:
    """What `hf.lock` and `hf.permits` give: `async with` it, or `acquire` and `release` it.

    One object is one hold: make another to hold the lock once more.
    """

    __slots__ = ("_ticket", "_token", "count", "kind", "limit", "name", "timeout_s")

    def __init__(self, kind: str, name: str, limit: int, count: int, timeout_s: float | None) -> None:
        self.kind = kind
        self.name = name
        self.limit = limit
        self.count = count
        self.timeout_s = timeout_s
        self._ticket: str | None = None
        self._token: int | None = None

    @property
    def token(self) -> int:
        """The fencing token of this hold: larger than that of every hold before it.

        Hand it to what the lock protects, and have that refuse a smaller one: a process
        that lost its connection may not know yet that it no longer holds the lock.
        """
        if self._token is None:
            raise BadLock(f"{self} is not held, so it has no token")
        return self._token

    def acquire(self) -> Operation[Self]:
        """Wait until it is held: `await lock.acquire()`, or `yield from lock.acquire()`."""
        return Operation(self._acquire)

    def _acquire(self) -> Generator[Any, Any, Self]:
        if self._ticket is not None:
            raise BadLock(f"{self} was already asked for by this object: make another one")
        if len(_held.get()) >= limits.lock_holding_max:
            raise BadLock(f"{limits.lock_holding_max} locks are held here, one within the other")
        future: Durable[int] = current_scheduler().issue(Acquire(self, _held.get()))
        self._ticket = future.id
        execution().asks_for_lock(future.id, self.name)
        try:
            self._token = yield from future
        except (ExecutionClosed, GeneratorExit):
            raise
        except BaseException as error:
            self._give_up(is_over=future.settled and isinstance(error, _failures))
            raise
        _held.set((*_held.get(), future.id))
        return self

    def release(self) -> None:
        """Release it. The next in line gets it in the commit that makes this durable."""
        if self._token is None:
            raise BadLock(f"{self} is not held, so it cannot be released")
        self._give_up(is_over=False)

    def _give_up(self, *, is_over: bool) -> None:
        ticket, self._ticket, self._token = self._ticket, None, None
        assert ticket is not None
        execution().lets_go_of_lock(ticket)
        _held.set(tuple(held for held in _held.get() if held != ticket))
        if is_over:
            return
        name = self.name

        def effects(_: str) -> Sequence[Action]:
            return [ReleaseAction(LockRelease(name, ticket))]

        current_scheduler().issue(Note(f"release {name}", lambda: None, effects=effects))

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ExecutionClosed | GeneratorExit):
            self.release()

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"


def lock(name: str, *, timeout: Duration | None = None) -> SharedLock:
    """`async with hf.lock("printer-3"):` one execution at a time, over all workers, first come first served.

    Crash: it stays held, and the next worker continues in the block. It is released when the block is left,
    or when the execution ends, however it ends. With a `timeout`, `TimedOut` if it was not granted by then.
    `LockDeadlock` if executions would wait for each other forever.

    >>> async with lock("printer-3") as held:
    ...     await run(print_page, page, token=held.token)
    """
    return _make("lock", name, 1, 1, timeout)


def permits(name: str, limit: int, *, count: int = 1, timeout: Duration | None = None) -> SharedLock:
    """`async with hf.permits("gpu", 4):` at most four at a time, over all workers. This block takes `count`.

    Everything else is as with `lock`. All that use a name must give the same `limit`: another one is refused
    with `LimitDiffers` while anybody holds or wants a permit.
    """
    return _make("permits", name, limit, count, timeout)


def _make(kind: str, name: str, limit: int, count: int, timeout: Duration | None) -> SharedLock:
    if not isinstance(name, str) or not name or len(name.encode()) > limits.lock_name_bytes_max:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadLock(
            f"{name!r} is not a name for a lock: use a string of 1 to {limits.lock_name_bytes_max} bytes"
        )
    if not 1 <= limit <= limits.permits_max or not 1 <= count <= limit:
        raise BadLock(
            f"{count} of {limit} permits cannot be taken; a lock has 1 to {limits.permits_max} permits"
        )
    return SharedLock(kind, name, limit, count, None if timeout is None else duration_s(timeout))
