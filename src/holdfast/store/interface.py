"""What a store does, and the steps that make up the work of one transaction.

Work is a generator that yields steps and receives their results, so the same work runs on a store that
answers at once in a thread of its own and on one that must be awaited. A transaction is all or nothing, and
`transact` returns only after it is durable.

A record that cannot be read is the work's to handle: `CorruptRecord` is raised where it asked for it, and it
may go on with the rest. So is a search that takes too long (`TookTooLong`), and a load of more bytes than
the work has room for (`TooMuchAtOnce`). Every other error ends the
transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from holdfast.engine import Footprint, Scan, WorkingSet
from holdfast.engine.scans import ClaimScan
from holdfast.protocol.errors import HoldfastError, Refusal
from holdfast.protocol.ids import is_covered
from holdfast.protocol.records import Millis
from holdfast.store.documents import DocumentStep, FindDocuments

search_ms_max: Final = 50  # for one statement of a search


class Now(Struct, frozen=True):
    """Answer with the instant of this transaction: the node's reading of its clock, or, where the store has
    a clock of its own, what that says. It is read after everything that was loaded so far is held."""

    reading: Millis


class Load(Struct, frozen=True):
    """Fill the working set with these records; say which of them do not exist. Where the promises among them
    hold more than `bytes_max`, none is filled, and `TooMuchAtOnce` is raised."""

    ws: WorkingSet
    footprint: Footprint
    bytes_max: int | None = None


class LoadAll(Struct, frozen=True):
    """Fill the working set with everything. For debugging small stores."""

    ws: WorkingSet


class Save(Struct, frozen=True):
    """Write what changed in the working set, and (unless None) the instant of this commit."""

    ws: WorkingSet
    clock: Millis | None


class Find(Struct, frozen=True):
    """Answer with the ids that a scan asks for, in its order."""

    scan: Scan


class FindDue(Struct, frozen=True):
    """Answer with at most `limit` things of each kind that are due, as a `Due`."""

    now: Millis
    limit: int


class CountBacklog(Struct, frozen=True):
    """Answer with a `Backlog`; of the groups, those with the most pending tasks."""

    now: Millis
    groups_max: int


class GroupBacklog(Struct, frozen=True):
    """Pending tasks that the workers of one group may claim now."""

    group: str
    pending: int
    oldest_at: Millis


class Backlog(Struct, frozen=True):
    """How much work waits, as a store counts it without looking at what is finished."""

    groups: list[GroupBacklog]
    leases: int  # acquired tasks
    waiting: int  # other pending tasks: parked, or sent to one worker or an HTTP address
    due: int  # timers whose instant has passed
    suspended: int  # tasks of executions that wait for something
    halted: int  # what nobody may claim until it is continued


Step = Now | Load | LoadAll | Save | Find | FindDue | CountBacklog | DocumentStep


def only_looks(step: Step) -> bool:
    """Whether nothing that it reads must stay as it is."""
    if isinstance(step, Load):
        seen = step.footprint
        looks = Footprint(views=seen.views, task_views=seen.task_views, stream_views=seen.stream_views)
        return seen == looks
    if isinstance(step, Find):
        return not isinstance(step.scan, ClaimScan) or step.scan.view
    return isinstance(step, Now | FindDocuments)


def only_creates(seen: Footprint) -> bool:
    """Whether nothing must be held but what is about to be created, which nearly always does not exist."""
    if not seen.creations or seen.creations != len(seen.promises):
        return False
    looks = Footprint(
        promises=seen.promises,
        views=seen.views,
        task_views=seen.task_views,
        stream_views=seen.stream_views,
        queue_views=seen.queue_views,
        turns=seen.turns,
        noted=seen.noted,
        creations=seen.creations,
    )
    return seen == looks


Result = TypeVar("Result")
Work = Generator[Step, Any, Result]


class Handover(asyncio.Future[Result]):
    """A future of a thread. `told_first` is called when it is done, in the same turn of the loop, which all
    callbacks of a future wait for."""

    told_first: "Callable[[asyncio.Future[Result]], None] | None" = None


class Bus(Protocol):
    """How the nodes on one store call to each other. A call reaches every node, or is lost."""

    text_bytes_max: int

    async def start(self, hear: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Listen from now on. `missed` is called when calls may have been lost up to now."""
        ...

    async def say(self, texts: Sequence[str]) -> None: ...

    def reconnect(self) -> None: ...

    async def stop(self) -> None: ...


class Store(Protocol):
    parallel_groups: int  # how many transactions may be under way at once
    keeps_time: bool  # its own clock decides
    bus: Bus | None  # None: it serves one node alone

    async def open(self) -> Millis:
        """Make ready; answer with the latest instant that was ever committed, or the time, if it keeps it."""
        ...

    def transact(self, work: Callable[[], Work[Result]]) -> Awaitable[Result]:
        """Do the work in one transaction; done when it is durable. May call `work` more than once."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class RunsApart(Protocol):
    """A store that can be asked from any thread, also while the event loop of its node stands still."""

    def run_apart(self, work: Callable[[], Work[Result]]) -> Result:
        """Do the work in one transaction, and return when it is durable."""
        ...


class SyncStore(Protocol):
    """A store that answers at once, for whoever may wait: a thread of its own, or a test."""

    def open(self) -> Millis: ...

    def run(self, work: Callable[[], Work[Result]]) -> Result: ...

    def close(self) -> None: ...


def drive(work: Work[Result], perform: Callable[[Step], Any]) -> Result:
    """Run work to its end, each step answered by `perform`."""
    answer: Any = None
    failed: CorruptRecord | TookTooLong | TooMuchAtOnce | None = None
    while True:
        try:
            step = work.send(answer) if failed is None else work.throw(failed)
        except StopIteration as done:
            result: Result = done.value
            return result
        failed = None
        try:
            answer = perform(step)
        except (CorruptRecord, TookTooLong, TooMuchAtOnce) as error:
            failed = error


class StoreError(HoldfastError):
    """The store could not do its work."""

    code = "HF2000"


class NewerSchema(StoreError):
    """The file was written by a newer Holdfast."""

    code = "HF2001"


class FileGone(StoreError, Refusal):
    """The file of the database was deleted, moved or replaced by another one while it was open. To repeat the
    request does not help."""

    code = "HF2012"
    status = 500
    hint = "Stop what uses it, put the file back together with its -wal file, and start again."


class CorruptRecord(StoreError, Refusal):
    """What was read is not what can have been written. `why` is for the log."""

    code = "HF2002"
    status = 500
    hint = "Nothing was changed. Restore it from a backup; the log says what is wrong with it."

    def __init__(self, kind: str, key: str, why: str) -> None:
        super().__init__(f"The {kind} {key!r} cannot be read")
        self.key = key
        self.why = why

    def as_seen_within(self, scope: str | None) -> Refusal:
        """The same for a caller who may know of no id outside of a prefix."""
        if scope is None or is_covered(self.key, scope):
            return self
        unnamed = CorruptRecord("", self.key, self.why)
        unnamed.what = "A record that this needs cannot be read"
        return unnamed


class TooMuchAtOnce(Exception):
    """The records hold more bytes than there is room for. None of them was filled; load fewer."""


class TookTooLong(StoreError, Refusal):
    """A search was ended, because everybody else waits for it."""

    code = "HF1907"
    status = 400
    hint = "Nothing was changed. Search by a longer prefix, or by fewer tags."

    def __init__(self, ms_max: int) -> None:
        super().__init__(f"The search took longer than {ms_max} ms and was ended")


class CannotOpen(StoreError):
    """The database does not let us in, or is not there."""

    code = "HF2010"


class CannotJoin(StoreError):
    """Work of ours cannot be part of the transaction on this connection."""

    code = "HF2008"


class NotAStore(StoreError):
    """The file is not a Holdfast database."""

    code = "HF2003"


class NameClash(StoreError):
    """The application has tables of the same names as ours. Nothing was changed."""

    code = "HF2011"

    def __init__(self, names: Iterable[str], instead: str) -> None:
        found = ", ".join(sorted(names))
        super().__init__(
            f"The database has {found}, which Holdfast did not make and needs for itself. "
            f"{instead}; the database was not touched. [{self.code}]"
        )
