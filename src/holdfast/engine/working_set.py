"""The records that a group of requests touches, and what becomes of them.

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

from msgspec import Struct

from holdfast.engine.rules import Rules
from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import Queue
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Listener, Millis, Promise, ScheduleEntry, Task

if TYPE_CHECKING:
    from holdfast.engine.claims import ClaimPlan


class Footprint(Struct):
    """What to load. `obligations` are promises whose callbacks, awaiters and listeners are needed;
    `branches_of` are promises whose whole branch is. The `views` are only looked at, never changed, so a
    store that many nodes share need not hold them. The `listened` only get a listener: they must not settle
    meanwhile, but their tasks may be claimed."""

    promises: set[str] = set()
    obligations: set[str] = set()
    branches_of: set[str] = set()
    branches: set[str] = set()
    views: set[str] = set()
    listened: set[str] = set()
    schedules: set[str] = set()
    schedule_views: set[str] = set()
    uniques: set[str] = set()  # unique keys of jobs: who holds them
    queues: set[str] = set()
    queue_views: set[str] = set()
    gates: set[str] = set()  # queues that matter only if they are paused or have limits


class Missing(Exception):
    """A request needs records that are not in the working set."""

    def __init__(self, footprint: Footprint) -> None:
        super().__init__()
        self.footprint = footprint


_absent: Final = object()


class WorkingSet:
    __slots__ = (
        "_undo",
        "added_callbacks",
        "added_listeners",
        "branches",
        "callbacks",
        "changed_promises",
        "changed_queues",
        "changed_schedules",
        "changed_tasks",
        "cleared",
        "counts",
        "discharged",
        "forgotten",
        "found",
        "listeners",
        "messages",
        "offered",
        "plan",
        "promises",
        "queues",
        "rules",
        "schedules",
        "tasks",
        "uniques",
        "until",
        "viewed_queues",
        "waiting",
        "watched",
    )

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        # What is known. None: known to be absent.
        self.promises: dict[str, Promise | None] = {}
        self.tasks: dict[str, Task | None] = {}
        self.callbacks: dict[str, dict[str, None]] = {}
        self.listeners: dict[str, dict[str, Listener]] = {}  # by address
        self.schedules: dict[str, ScheduleEntry | None] = {}
        self.branches: dict[str, dict[str, None]] = {}
        self.uniques: dict[str, str | None] = {}
        self.queues: dict[str, Queue | None] = {}
        self.viewed_queues: set[str] = set()  # those of them that others may be changing
        # What changed. Dictionaries, because they keep the order of the changes.
        self.changed_promises: dict[str, None] = {}
        self.changed_tasks: dict[str, None] = {}
        self.changed_schedules: dict[str, None] = {}
        self.changed_queues: dict[str, None] = {}
        self.added_callbacks: dict[tuple[str, str], None] = {}
        self.added_listeners: dict[tuple[str, str], Listener] = {}
        self.discharged: dict[str, None] = {}  # their callbacks and listeners are gone
        self.forgotten: dict[str, None] = {}  # promises that are gone with everything about them
        self.watched: dict[str, None] = {}  # somebody depends on them now
        self.cleared = False
        self.messages: list[Message] = []
        self.offered: dict[str, int] = {}  # execute messages for queues, by target
        # What a scan found for the request at hand, and the messages that wait in the node.
        self.found: list[str] = []
        self.until: str | None = None  # how far it has looked, if not to the end
        self.waiting: list[Message] = []
        self.counts: dict[str, tuple[int, int, int, int]] = {}  # of queues: see QueueCountScan
        self.plan: ClaimPlan | None = None
        self._undo: list[tuple[dict[Any, Any] | list[Any], Any, Any]] = []

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

    def gate(self, name: str) -> Queue | None:
        """A queue, if it is paused or has limits. What is decided by it still holds at the commit."""
        if not self.holds_queue(name):
            raise Missing(Footprint(gates={name}))
        return self.queues[name]

    def holds_queue(self, name: str) -> bool:
        return name in self.queues and name not in self.viewed_queues

    def queue(self, name: str) -> Queue | None:
        try:
            return self.queues[name]
        except KeyError:
            raise Missing(Footprint(queue_views={name})) from None

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

    def need(self, promise_ids: Iterable[str]) -> None:
        """All of these are about to be read: load them at once, not one by one."""
        unknown = {promise_id for promise_id in promise_ids if promise_id not in self.promises}
        if unknown:
            raise Missing(Footprint(promises=unknown))

    def branch(self, name: str) -> list[Promise]:
        """Every promise of a branch, by id."""
        try:
            members = self.branches[name]
        except KeyError:
            raise Missing(Footprint(branches={name})) from None
        found = (self.promises[member] for member in sorted(members))
        return [promise for promise in found if promise is not None]

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
        self._set(self.promises, promise_id, promise)
        self._set(self.changed_promises, promise_id, None)

    def put_task(self, task: Task) -> None:
        if task.job is not None and task.job.unique is not None:
            self._follow_unique(task, task.job.unique)
        self._set(self.tasks, task.id, task)
        self._set(self.changed_tasks, task.id, None)

    def _follow_unique(self, task: Task, unique: str) -> None:
        if task.state != "fulfilled":
            self._set(self.uniques, unique, task.id)
        elif (before := self.tasks.get(task.id)) is not None and before.state != "fulfilled":
            self._set(self.uniques, unique, None)

    def put_queue(self, queue: Queue) -> None:
        self._set(self.queues, queue.name, queue)
        self._set(self.changed_queues, queue.name, None)
        self.viewed_queues.discard(queue.name)

    def may_offer(self, target: str) -> bool:
        """May one more execute message go to this queue in this commit?"""
        sent = self.offered.get(target, 0)
        self._set(self.offered, target, sent + 1)
        return sent < limits.job_offers_max

    def put_schedule(self, schedule_id: str, entry: ScheduleEntry | None) -> None:
        self._set(self.schedules, schedule_id, entry)
        self._set(self.changed_schedules, schedule_id, None)

    def add_callback(self, awaited: str, awaiter: str) -> None:
        self._watch(awaited)
        if awaited in self.callbacks:
            self._set(self.callbacks[awaited], awaiter, None)
        self._set(self.added_callbacks, (awaited, awaiter), None)

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
        if self.callbacks[promise_id] or self.listeners[promise_id]:
            self._set(self.callbacks, promise_id, {})
            self._set(self.listeners, promise_id, {})
            self._set(self.discharged, promise_id, None)

    def forget(self, promise_id: str) -> None:
        """The promise, its task and all it waits for go, as if they had never been. Nobody may be waiting
        for it."""
        self._set(self.promises, promise_id, None)
        self._set(self.tasks, promise_id, None)
        self._set(self.forgotten, promise_id, None)

    def send(self, message: Message) -> None:
        self.messages.append(message)
        self._undo.append((self.messages, None, None))

    def clear(self) -> None:
        """Forget everything, here and in the store."""
        known = (self.promises, self.tasks, self.callbacks, self.listeners, self.schedules, self.branches)
        for records in (*known, self.uniques, self.queues, self.watched, self.offered, self.messages):
            records.clear()
        self.viewed_queues.clear()
        self.saved()
        self._undo.clear()
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
                or (bool(promise.tags) and (tags.is_timer(promise.tags) or tags.is_external(promise.tags)))
            )
        )

    def _set(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((container, key, container.get(key, _absent)))
        container[key] = value

    # --- one request at a time -----------------------------------------------------------------------

    def begin(self) -> None:
        self._undo.clear()

    def undo(self) -> None:
        for container, key, old in reversed(self._undo):
            if isinstance(container, list):
                container.pop()
            elif old is _absent:
                del container[key]
            else:
                container[key] = old
        self._undo.clear()

    @property
    def is_dirty(self) -> bool:
        return bool(
            self.changed_promises
            or self.changed_tasks
            or self.changed_schedules
            or self.changed_queues
            or self.added_callbacks
            or self.added_listeners
            or self.forgotten
            or self.cleared
        )

    # --- filling, by a store -------------------------------------------------------------------------

    def fill_promise(self, promise: Promise) -> None:
        self.promises.setdefault(promise.id, promise)

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
        added = (awaiter for awaited, awaiter in self.added_callbacks if awaited == promise_id)
        self.callbacks[promise_id] = dict.fromkeys([*awaiters, *added])
        self.listeners[promise_id] = {listener.address: listener for listener in listeners}

    def fill_branch(self, name: str, members: Iterable[str]) -> None:
        """The stored members of a branch; all of them are filled or newer here."""
        if name in self.branches:
            return
        new = (
            promise_id
            for promise_id in self.changed_promises
            if (promise := self.promises.get(promise_id)) is not None
            and promise.tags.get(tags.BRANCH) == name
        )
        self.branches[name] = dict.fromkeys([*members, *new])

    def fill_schedule(self, schedule_id: str, entry: ScheduleEntry | None) -> None:
        self.schedules.setdefault(schedule_id, entry)

    def fill_unique(self, unique: str, holder: str | None) -> None:
        self.uniques.setdefault(unique, holder)

    def fill_queue(self, name: str, queue: Queue | None, *, is_view: bool = False) -> None:
        if is_view and name not in self.queues:
            self.viewed_queues.add(name)
        elif not is_view and name in self.viewed_queues:  # it was only looked at, so nothing is lost
            self.viewed_queues.remove(name)
            del self.queues[name]
        self.queues.setdefault(name, queue)

    def earliest_due(self) -> Millis | None:
        """The first instant at which one of the changed records wants the node's attention."""
        instants: list[Millis] = []
        for promise_id in self.changed_promises:
            promise = self.promises[promise_id]
            if promise is not None and self.is_watched(promise_id):
                instants.append(promise.timeout_at)
        for task_id in self.changed_tasks:
            task = self.tasks[task_id]
            if task is not None and task.due_at is not None:
                instants.append(task.due_at)
        for schedule_id in self.changed_schedules:
            entry = self.schedules[schedule_id]
            if entry is not None:
                instants.append(entry.schedule.next_run_at)
        return min(instants, default=None)

    def saved(self) -> None:
        """All changes are in the store now."""
        for changes in (
            self.changed_promises,
            self.changed_tasks,
            self.changed_schedules,
            self.changed_queues,
            self.added_callbacks,
            self.added_listeners,
            self.discharged,
            self.forgotten,
        ):
            changes.clear()
        self.cleared = False
