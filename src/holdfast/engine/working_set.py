"""The records that a group of requests reads and changes.

A store fills a working set before requests are applied and writes what they changed afterwards. Nothing
here knows a rule about promises.

1. Reading something that was not loaded raises `Missing`, which says what to load. Whoever applies
   requests loads it and applies the request again. So a wrong guess about what a request needs costs
   time, never correctness.
2. Every change since `begin` can be undone. A request that is refused, or fails, leaves no trace.
3. What is in the set is newer than what is in the store: `fill_*` never replaces a record.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.queue_lines import QueueLines
from holdfast.engine.rules import Rules
from holdfast.engine.undo import UndoLog
from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import QueueRecord
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Listener, Promise, ScheduleEntry, Task
from holdfast.protocol.sizes import promise_bytes, queue_bytes, schedule_bytes
from holdfast.protocol.streams import Streams

if TYPE_CHECKING:
    from holdfast.engine.claims import ClaimPlan

_written: Final = 3  # to write a record takes about as long as to load so many
_handled_bytes: Final = 1_024  # to decode and encode so many takes about as long as to load a record


class WorkingSet:
    __slots__ = (
        "_log", "_put", "_read_bytes", "_remove", "_set", "_unweighed", "added_callbacks", "added_listeners",
        "answer_bytes", "begin", "branch_bytes", "branch_ends", "branches", "callbacks", "changed_promises",
        "changed_queues", "changed_schedules", "changed_streams", "changed_tasks", "cleared", "counts",
        "discharged", "families", "forgotten", "found", "handled", "lines", "listeners", "messages",
        "offered", "plan",
        "promises", "queues", "removed_callbacks", "replaced", "rules", "schedules", "streams", "tasks",
        "undo", "uniques", "until", "viewed_queues", "waiting", "watched",
    )  # fmt: skip

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        # What is known. None: known to be absent.
        self.promises: dict[str, Promise | None] = {}
        self.tasks: dict[str, Task | None] = {}
        self.callbacks: dict[str, dict[str, None]] = {}
        self.listeners: dict[str, dict[str, Listener]] = {}  # by address
        self.schedules: dict[str, ScheduleEntry | None] = {}
        self.branches: dict[str, dict[str, None]] = {}
        self.branch_ends: dict[str, str] = {}  # of branches that were not read whole: the last id that was
        self.answer_bytes = 0  # of the promises that claims were answered with
        self.branch_bytes = 0  # of the promises that were read for their branch
        self.uniques: dict[str, str | None] = {}
        self.queues: dict[str, QueueRecord | None] = {}
        self.viewed_queues: set[str] = set()  # those of them that others may be changing
        self.streams: dict[str, Streams | None] = {}
        # What changed. Dictionaries, because they keep the order of the changes.
        self.changed_promises: dict[str, None] = {}
        self.changed_tasks: dict[str, bool] = {}  # True: it was created
        self.changed_schedules: dict[str, None] = {}
        self.changed_queues: dict[str, None] = {}
        self.changed_streams: dict[str, None] = {}
        self.added_callbacks: dict[tuple[str, str], None] = {}
        self.removed_callbacks: dict[tuple[str, str], None] = {}
        self.added_listeners: dict[tuple[str, str], Listener] = {}
        self.discharged: dict[str, bool] = {}  # callbacks and listeners are gone; True: it had callbacks
        self.forgotten: dict[str, None] = {}  # promises that are gone with everything about them
        self.replaced: dict[str, None] = {}  # promises whose definition has changed: written whole
        self.watched: dict[str, None] = {}  # somebody depends on them now
        self.cleared = False
        self.messages: list[Message] = []
        self.offered: dict[str, int] = {}  # execute messages for queues, by target
        # What a scan found for the request at hand, and the messages that wait in the node.
        self.found: list[str] = []
        self.families: dict[str, list[str]] = {}  # likewise for the request at hand, by the execution
        self.until: str | None = None  # how far it has looked, if not to the end
        self.waiting: list[Message] = []
        self.counts: dict[str, tuple[int, ...]] = {}  # see QueueCountScan, ExecutionTally
        self.plan: ClaimPlan | None = None
        self.handled = 0  # records that were loaded, shown in a preload or written: the work of this commit
        self._read_bytes = 0  # of the payloads, tags and headers that were loaded
        self._unweighed: list[Promise] = []  # loaded, and nobody has asked how large they are
        self._log = UndoLog()
        self._set, self._put, self._remove = self._log.set, self._log.put, self._log.remove
        self.begin, self.undo = self._log.forget, self._log.undo  # of one request at a time
        self.lines = QueueLines(self._set)

    # --- reading -------------------------------------------------------------------------------------

    def promise(self, promise_id: str) -> Promise | None:
        try:
            return self.promises[promise_id]
        except KeyError:
            raise Missing(Footprint(promises={promise_id})) from None

    def task(self, task_id: str) -> Task | None:
        try:
            return self.tasks[task_id]
        except KeyError:
            raise Missing(Footprint(promises={task_id})) from None

    def schedule(self, schedule_id: str) -> ScheduleEntry | None:
        try:
            return self.schedules[schedule_id]
        except KeyError:
            raise Missing(Footprint(schedules={schedule_id})) from None

    def holder_of(self, unique: str) -> str | None:
        try:
            return self.uniques[unique]
        except KeyError:
            raise Missing(Footprint(uniques={unique})) from None

    def gate(self, name: str) -> QueueRecord | None:
        """A queue, if it is paused or has limits. What is decided by it still holds at the commit."""
        if not self.holds_queue(name):
            raise Missing(Footprint(gates={name}))
        return self.queues[name]

    def holds_queue(self, name: str) -> bool:
        return name in self.queues and name not in self.viewed_queues

    def queue(self, name: str) -> QueueRecord | None:
        try:
            return self.queues[name]
        except KeyError:
            raise Missing(Footprint(queue_views={name})) from None

    def streams_of(self, execution_id: str) -> Streams | None:
        """Those of an execution that is held, or was only looked at if nothing is to be changed."""
        try:
            return self.streams[execution_id]
        except KeyError:
            raise Missing(Footprint(promises={execution_id}, streams={execution_id})) from None

    def awaiters(self, promise_id: str) -> list[str]:
        try:
            return sorted(self.callbacks[promise_id])
        except KeyError:
            raise Missing(Footprint(obligations={promise_id})) from None

    def listeners_of(self, promise_id: str) -> list[Listener]:
        try:
            return [listener for _, listener in sorted(self.listeners[promise_id].items())]
        except KeyError:
            raise Missing(Footprint(obligations={promise_id})) from None

    def need_obligations(self, promise_ids: Iterable[str]) -> None:
        """All of these are about to be settled: load whom they owe at once."""
        known = self.promises, self.callbacks
        if unknown := {key for key in promise_ids if not all(key in records for records in known)}:
            raise Missing(Footprint(obligations=unknown))

    def need_families(self, execution_ids: Iterable[str]) -> None:
        """Whom these may have called is about to be read: hold them, so that they call nobody else."""
        if unknown := {key for key in execution_ids if key not in self.families}:
            raise Missing(Footprint(obligations=unknown, families=unknown))

    def need(self, promise_ids: Iterable[str]) -> None:
        """All of these are about to be read: load them at once, not one by one."""
        if unknown := {promise_id for promise_id in promise_ids if promise_id not in self.promises}:
            raise Missing(Footprint(promises=unknown))

    def branch(self, name: str) -> tuple[list[Promise], str | None]:
        """The promises of a branch, by id; and the last id that was looked at, if that is not all."""
        try:
            members = self.branches[name]
        except KeyError:
            raise Missing(Footprint(branches={name})) from None
        self.handled += len(members)
        end = self.branch_ends.get(name)
        found = (self.promises[member] for member in sorted(members) if end is None or member <= end)
        return [promise for promise in found if promise is not None], end

    @property
    def has_room_for_branches(self) -> bool:
        has_bytes = self.branch_bytes < limits.commit_claim_bytes_max
        return has_bytes and self.handled < limits.commit_preload_records_max

    @property
    def has_room_for_answers(self) -> bool:
        """May this commit give out more of what claims are answered with?"""
        return self.answer_bytes < limits.commit_claim_bytes_max

    def note_answer(self, size: int) -> None:
        self.answer_bytes += size

    def note_bytes(self, size: int) -> None:
        """A record of lists was read or written whole, or a value so often that it counts."""
        self.handled += size // _handled_bytes

    # --- changing ------------------------------------------------------------------------------------

    def put_promise(self, promise: Promise) -> None:
        promise_id = promise.id
        if self.promises.get(promise_id) is None:
            if promise_id not in self.callbacks:
                # A new promise: nobody can have registered on it, so there is nothing to load.
                self._set(self.callbacks, promise_id, {})
                self._set(self.listeners, promise_id, {})
            branch = promise.tags.get(tags.BRANCH) if promise.tags else None
            if branch is not None and branch in self.branches:
                self._set(self.branches[branch], promise_id, None)
        self.handled += _written
        self._put(self.promises, self.changed_promises, promise_id, promise)

    def put_task(self, task: Task) -> None:
        if task.job is not None and task.job.unique is not None:
            self._follow_unique(task, task.job.unique)
        if task.turn or task.place is not None:
            self.lines.follow(self.tasks.get(task.id), task)
        self.handled += _written
        is_new = self.changed_tasks.get(task.id, False) or self.tasks.get(task.id) is None
        self._put(self.tasks, self.changed_tasks, task.id, task, is_new)

    def _follow_unique(self, task: Task, unique: str) -> None:
        if task.state != "fulfilled":
            self._set(self.uniques, unique, task.id)
        elif (before := self.tasks.get(task.id)) is not None and before.state != "fulfilled":
            self._set(self.uniques, unique, None)

    def put_queue(self, queue: QueueRecord) -> None:
        self._put(self.queues, self.changed_queues, queue.name, queue)
        self.viewed_queues.discard(queue.name)

    def may_offer(self, target: str) -> bool:
        """May one more execute message go to this queue in this commit?"""
        sent = self.offered.get(target, 0)
        self._set(self.offered, target, sent + 1)
        return sent < limits.job_offers_max

    def put_schedule(self, schedule_id: str, entry: ScheduleEntry | None) -> None:
        self.handled += _written
        self._put(self.schedules, self.changed_schedules, schedule_id, entry)

    def add_callback(self, awaited: str, awaiter: str) -> None:
        self._watch(awaited)
        if awaited in self.callbacks:
            self._set(self.callbacks[awaited], awaiter, None)
        pair = awaited, awaiter
        if pair in self.removed_callbacks:  # the store still has it
            self._remove(self.removed_callbacks, pair)
        else:
            self._set(self.added_callbacks, pair, None)

    def remove_callback(self, awaited: str, awaiter: str) -> None:
        known = self.callbacks.get(awaited)
        if known is not None:
            if awaiter not in known:
                return
            self._remove(known, awaiter)
        if (awaited, awaiter) in self.added_callbacks:
            self._remove(self.added_callbacks, (awaited, awaiter))
        else:
            self._set(self.removed_callbacks, (awaited, awaiter), None)

    def put_streams(self, streams: Streams) -> None:
        self.handled += _written
        self._put(self.streams, self.changed_streams, streams.id, streams)

    def add_listener(self, promise_id: str, listener: Listener) -> None:
        """An address is told once; registering it again changes nothing."""
        try:
            known = self.listeners[promise_id]
        except KeyError:
            raise Missing(Footprint(obligations={promise_id})) from None
        if listener.address not in known:
            self._watch(promise_id)
            self._set(known, listener.address, listener)
            self._set(self.added_listeners, (promise_id, listener.address), listener)

    def drop_obligations(self, promise_id: str) -> None:
        """The promise is settled: whoever waited has been told."""
        awaiters = self.callbacks[promise_id]
        if awaiters or self.listeners[promise_id]:
            had_awaiters = bool(awaiters) or self.discharged.get(promise_id, False)
            self._set(self.callbacks, promise_id, {})
            self._set(self.listeners, promise_id, {})
            self._set(self.discharged, promise_id, had_awaiters)

    def forget(self, promise_id: str) -> None:
        """The promise, its task and all it waits for go, as if they had never been. Nobody waits for it."""
        self._leave_branch(promise_id)
        self._set(self.promises, promise_id, None)
        self._set(self.tasks, promise_id, None)
        self._set(self.streams, promise_id, None)
        self._take_back_obligations(promise_id)
        self._set(self.callbacks, promise_id, {})
        self._set(self.listeners, promise_id, {})
        self._set(self.forgotten, promise_id, None)

    def _take_back_obligations(self, promise_id: str) -> None:
        """They go with the promise. One that is made under its id in this commit has its own."""
        awaiters, addresses = self.callbacks.get(promise_id), self.listeners.get(promise_id)
        if promise_id in self.discharged:
            self._remove(self.discharged, promise_id)
            awaiters = addresses = None  # they are not known any more
        changes: tuple[tuple[dict[tuple[str, str], Any], Iterable[str] | None], ...] = (
            (self.added_callbacks, awaiters),
            (self.added_listeners, addresses),
            (self.removed_callbacks, None),
        )
        for pairs, known in changes:
            names = [name for key, name in pairs if key == promise_id] if known is None else known
            for pair in [(promise_id, name) for name in names if (promise_id, name) in pairs]:
                self._remove(pairs, pair)

    def _leave_branch(self, promise_id: str) -> None:
        promise = self.promises.get(promise_id)
        members = None if promise is None else self.branches.get(promise.tags.get(tags.BRANCH, ""))
        if members is not None and promise_id in members:
            self._remove(members, promise_id)

    def put_again(self, promise: Promise) -> None:
        """The promise begins anew, and so does its task, which is put next. All of it is written, also what
        never changes otherwise."""
        self._leave_branch(promise.id)
        branch = promise.tags.get(tags.BRANCH)
        if branch is not None and branch in self.branches:
            self._set(self.branches[branch], promise.id, None)
        self.put_promise(promise)
        self._set(self.replaced, promise.id, None)

    def send(self, message: Message) -> None:
        self._log.append(self.messages, message)

    def clear(self) -> None:
        """Forget everything, here and in the store."""
        for records in (
            self.promises, self.tasks, self.callbacks, self.listeners, self.schedules, self.branches,
            self.branch_ends, self.uniques, self.queues, self.streams, self.lines, self.watched,
            self.offered, self.messages, self.viewed_queues,
        ):  # fmt: skip
            records.clear()
        self.saved()
        self._log.forget()
        self.cleared = True

    def _watch(self, promise_id: str) -> None:
        """The node must settle this promise at its deadline, because somebody depends on it."""
        if not self.is_watched(promise_id):
            self._set(self.watched, promise_id, None)
            self._set(self.changed_promises, promise_id, None)

    def is_watched(self, promise_id: str) -> bool:
        promise = self.promises[promise_id]
        return (
            promise is not None
            and promise.state == "pending"
            and (
                promise_id in self.watched
                or self.tasks.get(promise_id) is not None
                or bool(self.callbacks.get(promise_id))
                or bool(self.listeners.get(promise_id))
                or (not tags.DEPENDED_ON.isdisjoint(promise.tags) and tags.is_depended_on(promise.tags))
            )
        )

    @property
    def is_dirty(self) -> bool:
        return self.cleared or any(self._changes())

    def _changes(self) -> tuple[dict[Any, Any], ...]:
        return (
            self.changed_promises, self.changed_tasks, self.changed_schedules, self.changed_queues,
            self.changed_streams, self.added_callbacks, self.removed_callbacks, self.added_listeners,
            self.discharged, self.forgotten, self.replaced,
        )  # fmt: skip

    # --- filling, by a store -------------------------------------------------------------------------

    def fill_promise(self, promise: Promise) -> None:
        self.handled += 1
        self._unweighed.append(promise)
        self.promises.setdefault(promise.id, promise)

    @property
    def read_bytes(self) -> int:
        """Of the payloads, tags and headers that were loaded. Counted when it is asked for: it seldom is."""
        unweighed, self._unweighed = self._unweighed, []
        self._read_bytes += sum(map(promise_bytes, unweighed))
        return self._read_bytes

    def fill_task(self, task: Task) -> None:
        self.tasks.setdefault(task.id, task)

    def fill_absent(self, promise_ids: Iterable[str]) -> None:
        """Of these ids, what was not filled does not exist, and owes nobody anything."""
        for promise_id in promise_ids:
            self.tasks.setdefault(promise_id, None)
            if promise_id not in self.promises:
                self.promises[promise_id] = None
                self.callbacks[promise_id] = {}
                self.listeners[promise_id] = {}

    def fill_obligations(
        self, promise_id: str, awaiters: Iterable[str], listeners: Iterable[Listener]
    ) -> None:
        if promise_id in self.callbacks:
            return
        callbacks = self.callbacks[promise_id] = dict.fromkeys(awaiters)
        if self.removed_callbacks:
            for awaiter in [each for each in callbacks if (promise_id, each) in self.removed_callbacks]:
                del callbacks[awaiter]
        for awaited, awaiter in self.added_callbacks:
            if awaited == promise_id:
                callbacks[awaiter] = None
        addresses = self.listeners[promise_id] = dict[str, Listener]()
        for listener in listeners:
            addresses[listener.address] = listener

    def fill_family(self, execution_id: str, members: Iterable[str]) -> None:
        """Open tasks below it, and others that it awaits."""
        self.families[execution_id] = sorted(members)[: limits.mended_records_max]

    def fill_branch(self, name: str, members: Iterable[str], end: str | None = None) -> None:
        """The stored members of a branch, up to `end` if that is not all; they are filled or newer here."""
        if name in self.branches:
            return
        if end is not None:
            self.branch_ends[name] = end
        new = (
            promise_id
            for promise_id in self.changed_promises
            if (promise := self.promises.get(promise_id)) is not None
            and promise.tags.get(tags.BRANCH) == name
        )
        self.branches[name] = dict.fromkeys([*members, *new])

    def fill_schedule(self, schedule_id: str, entry: ScheduleEntry | None) -> None:
        if entry is not None:
            self.handled += 1
            self._read_bytes += schedule_bytes(entry.schedule)
        self.schedules.setdefault(schedule_id, entry)

    def fill_unique(self, unique: str, holder: str | None) -> None:
        self.uniques.setdefault(unique, holder)

    def fill_queue(self, name: str, queue: QueueRecord | None, *, is_view: bool = False) -> None:
        if is_view and name not in self.queues:
            self.viewed_queues.add(name)
        elif not is_view and name in self.viewed_queues:  # it was only looked at, so nothing is lost
            self.viewed_queues.remove(name)
            del self.queues[name]
        if queue is not None:
            self.handled += 1
            self._read_bytes += queue_bytes(queue)
        self.queues.setdefault(name, queue)

    def fill_streams(self, execution_id: str, streams: Streams | None) -> None:
        self.streams.setdefault(execution_id, streams)

    def saved(self) -> None:
        """All changes are in the store now."""
        for changes in self._changes():
            if changes:
                changes.clear()
        self.cleared = False
