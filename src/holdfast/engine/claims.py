"""Which tasks a claim gets: the first ones that the limits of their queues allow.

A queue without limits costs nothing here: one scan, and all that it finds. For a queue with limits the store
has locked its record and counted what is held, so that what is decided here still holds at the commit. A scan
may find many tasks of a key that has no room left; then that key is left out and the store is asked again.

A rate counts what begins. A claim that does not start is given no more than could begin now, and takes
nothing: the start does, if there is still room then. An execution begins with its first claim; once it counts
(places.py), only a pause and the number of those that are claimed hold it back.
"""

from msgspec.structs import replace

from holdfast.engine.job_state import is_expired
from holdfast.engine.queue_lines import has_entered, is_queued, key_of, served
from holdfast.engine.scans import ClaimScan, HeldRow, HeldScan
from holdfast.engine.view import is_open
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.address import claim_group
from holdfast.protocol.jobs import QueueRecord, Rate, queue_of
from holdfast.protocol.records import Millis, Task
from holdfast.protocol.requests import TaskClaim
from holdfast.protocol.sizes import whole_promise_bytes

Meter = tuple[tuple[Millis, int], ...]


def used(meter: Meter, now: Millis) -> int:
    return sum(count for until, count in meter if until > now)


def metered(meter: Meter, rate: Rate, now: Millis) -> Meter:
    """One more grant: it counts for a whole stretch from the end of the slot it falls into."""
    slot = max(1, -(-rate.per_ms // limits.rate_slots))
    until = -(-now // slot) * slot + rate.per_ms
    live = {instant: count for instant, count in meter if instant > now}
    live[until] = live.get(until, 0) + 1
    return tuple(sorted(live.items()))


class Gate:
    """What one queue still lets through."""

    def __init__(self, queue: QueueRecord, now: Millis, *, starts: bool = True) -> None:
        self._now = now
        self._starts = starts
        self.queue = queue
        self.meters: dict[str, Meter] = {
            key: live
            for key, meter in queue.meters.items()
            if (live := tuple(pair for pair in meter if pair[0] > now))
        }
        self._kept_meters = dict(self.meters)  # of what begins with this claim
        self._turns = queue.turns
        self.held: dict[str | None, int] = {}
        self.claimed = 0
        self.saturated: set[str] = set()  # keys without room
        self.next_at: Millis | None = None
        self.is_limited = queue.paused
        self.is_changed = False

    def count(self, held: dict[str | None, int], claimed: int) -> None:
        """What counts already, by key, and how many are claimed. From here on the gate knows its room."""
        self.held = held
        self.claimed = claimed
        if self.queue.key_concurrency is not None:
            for key in held:
                self._check_key(key)
        if self.queue.key_rate is not None:
            for key in self.meters:
                if key:
                    self._check_key(key)

    @property
    def changed_queue(self) -> QueueRecord:
        return replace(self.queue, meters=self._kept_meters, turns=self._turns)

    @property
    def is_closed(self) -> bool:
        """Can nothing of the queue be claimed, not even what counts already?"""
        if self.queue.paused:
            return True
        if self.queue.running is not None and self.claimed >= self.queue.running:
            self.is_limited = True
            return True
        return False

    @property
    def is_shut(self) -> bool:
        """Is there no room for anything that does not count already?"""
        queue = self.queue
        if self.is_closed:
            return True
        if queue.concurrency is not None and sum(self.held.values()) >= queue.concurrency:
            self.is_limited = True
            return True
        return queue.rate is not None and self._is_spent("", queue.rate)

    def lets_through(self, task: Task) -> bool:
        """Is there room for this task? If so it is taken."""
        if has_entered(task):
            if self.is_closed:
                return False
            self.claimed += 1
            return True
        key = key_of(task)
        if self.is_shut or (key is not None and not self._check_key(key)):
            return False
        self.held[key] = self.held.get(key, 0) + 1
        self.claimed += 1
        self._meter(key, begins=self._starts or task.job is None)
        turns = served(self.queue, self._turns, task)
        self.is_changed = self.is_changed or turns is not self._turns
        self._turns = turns
        if key is not None:
            self._check_key(key)
        return True

    def lets_begin(self, task: Task) -> bool:
        """May this task, which is held already, begin now? If so the rates count it."""
        assert task.job is not None
        if self.queue.paused:
            return False
        key = task.job.key
        for name, rate in (("", self.queue.rate), (key, self.queue.key_rate)):
            if name is not None and rate is not None and self._is_spent(name, rate):
                return False
        self._meter(key, begins=True)
        return True

    def _meter(self, key: str | None, *, begins: bool) -> None:
        for name, rate in (("", self.queue.rate), (key, self.queue.key_rate)):
            if name is None or rate is None:
                continue
            self.meters[name] = metered(self.meters.get(name, ()), rate, self._now)
            if begins:
                self._kept_meters[name] = metered(self._kept_meters.get(name, ()), rate, self._now)
                self.is_changed = True

    def _check_key(self, key: str | None) -> bool:
        """Has this key room? If not it is noted as saturated."""
        queue = self.queue
        if key is None:
            return True
        has_room = True
        if queue.key_concurrency is not None and self.held.get(key, 0) >= queue.key_concurrency:
            self.is_limited = True
            has_room = False
        elif queue.key_rate is not None and self._is_spent(key, queue.key_rate):
            has_room = False
        if not has_room:
            self.saturated.add(key)
        return has_room

    def _is_spent(self, name: str, rate: Rate) -> bool:
        meter = self.meters.get(name)
        if meter is None:
            if not name or len(self.meters) < limits.meter_keys_max:
                return False
            until = min(pairs[0][0] for pairs in self.meters.values())
        elif used(meter, self._now) < rate.count:
            return False
        else:
            until = meter[0][0]
        self.next_at = until if self.next_at is None else min(self.next_at, until)
        return True


class ClaimPlan:
    """The search for what one claim is given. Ask `counts`, then `next_scan` until there is none; `consider`
    what it found, a few at a time, and `end_round`.

    An answer holds so many bytes of promises. What does not fit is left for the next claim, which may be made
    at once: `next_at` says so.
    """

    def __init__(self, data: TaskClaim, scope: str | None, ws: WorkingSet, now: Millis) -> None:
        self._count = data.count
        self._ceiling = limits.priority_max if data.ceiling is None else data.ceiling
        self._groups = tuple(dict.fromkeys(data.groups))
        self._scope = scope
        self._now = now
        self._limit = data.count
        self._bytes = 0
        self._passed_over = False
        self.is_full = not ws.has_room_for_answers
        self._rounds = 0
        self._done = False
        self._granted: set[str] = set()
        self._expired: set[str] = set()
        self._unread: set[str] = set()
        self.chosen: list[str] = []  # what to grant, and what to expire on the way
        self.gates: dict[str, Gate] = {}
        for group in self._groups:
            name = queue_of(group)
            queue = None if name is None else ws.queue(name)
            if queue is not None and queue.is_gated:
                self.gates[group] = Gate(queue, now, starts=data.start)

    @property
    def held_scan(self) -> HeldScan | None:
        counted = tuple(group for group, gate in self.gates.items() if gate.queue.counts_held)
        return HeldScan(counted) if counted else None

    def count(self, held: list[HeldRow]) -> None:
        for group, gate in self.gates.items():
            own = [row[1:] for row in held if row[0] == group]
            gate.count({key: counted for key, counted, _ in own}, sum(claimed for *_, claimed in own))

    def next_scan(self) -> ClaimScan | None:
        if self._done or self.is_full or self._rounds == limits.claim_rounds_max:
            return None
        groups = tuple(g for g in self._groups if (gate := self.gates.get(g)) is None or not gate.is_closed)
        if not groups:
            return None
        entered = tuple(g for g in groups if (gate := self.gates.get(g)) is not None and gate.is_shut)
        self._rounds += 1
        self._passed_over = False
        self._limit = self._count + len(self._expired) + len(self._unread)
        without = {
            group: tuple(sorted(gate.saturated))
            for group, gate in self.gates.items()
            if gate.saturated and group in groups
        }
        return ClaimScan(
            groups,
            self._now,
            self._limit,
            ceiling=self._ceiling,
            without=without,
            entered=entered,
            scope=self._scope,
        )

    def consider(self, found: list[str], ws: WorkingSet, unread: set[str]) -> None:
        """Of these, in this order, choose what there is room for. All but the unread are loaded."""
        self._passed_over = self._passed_over or not unread <= self._unread
        self._unread |= unread
        for task_id in found:
            if len(self._granted) == self._count:
                break
            if task_id in self._granted or task_id in self._expired or task_id in self._unread:
                continue
            task = ws.task(task_id)
            if task is None or task.state != "pending" or task.parked:
                continue  # between the scan and the load another node may have been faster
            if is_expired(task, self._now):
                self._expired.add(task_id)
                self._passed_over = True
            elif is_open(task, self._now):
                size = _answer_bytes(task, ws)
                if self._granted and self._bytes + size > limits.claim_bytes_max:
                    self.is_full = True
                    break
                gate = self.gates.get(claim_group(task.target) or "")
                if gate is not None and is_queued(task) and not gate.lets_through(task):
                    self._passed_over = True
                    continue
                self._granted.add(task_id)
                self._bytes += size
                ws.note_answer(size)
            else:
                continue
            self.chosen.append(task_id)

    def end_round(self, found_count: int) -> None:
        """All that the last scan found was considered."""
        is_enough = len(self._granted) == self._count
        self._done = is_enough or found_count < self._limit or not self._passed_over

    @property
    def expired(self) -> set[str]:
        return self._expired

    @property
    def changed_queues(self) -> list[QueueRecord]:
        return [gate.changed_queue for gate in self.gates.values() if gate.is_changed]

    @property
    def next_at(self) -> Millis | None:
        if self.is_full:
            return self._now
        instants = (gate.next_at for gate in self.gates.values())
        return min((instant for instant in instants if instant is not None), default=None)

    @property
    def is_limited(self) -> bool:
        return any(gate.is_limited for gate in self.gates.values())


def _answer_bytes(task: Task, ws: WorkingSet) -> int:
    """What the answer shows of it: its promise, and the one that woke it. All of them are loaded."""
    promises = (ws.promises.get(key) for key in (task.id, task.woken_by) if key is not None)
    return sum(whole_promise_bytes(promise) for promise in promises if promise is not None)
