"""The guided random generator: mostly requests that make sense in the oracle's state, some that do not.

About 85 of 100 requests are guided: the oracle's state chooses a fitting operation, the ids and the right
versions. The rest are blind. The clock stands still, creeps, or jumps to an instant at which something is
due, one millisecond before it or after it, or past several. A small set of ids in both styles keeps requests
meeting each other; everything is forgotten after `EPOCH` operations, or earlier when nothing is left alive.

The same seed gives the same steps as long as the oracle gives the same state. A step is one envelope, or a
list of envelopes that belong in one array.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.model.execution_views import STATUSES
from tests.model.machine import Promise, generation
from tests.model.oracle import Oracle
from tests.model.spoil import spoil
from tests.model.streams import below

Json = dict[str, Any]
Step = Json | list[Any]

EPOCH = 200
IDS = ("a", "a:1", "a:1.2", "a:2", "b", "b.1", "b.1.1", "B", "c", "c:d", "é.1", "z%_")
GHOST = "ghost"  # never created
ENTITIES = ("a", "b", "c")  # if they are executions
SCHEDULE_IDS = ("s", "s.1", "t")
PIDS = ("p1", "p2", "p3")
GROUPS = ("g", "h", "two words")
TARGETS = (
    "poll://any@g",
    "poll://any@g",
    "poll://any@g/p1",
    "poll://any@h",
    "poll://any@two words/p2",
    "poll://uni@g/p1",
    "http://worker.test/run",
    "https://worker.test",
)
LISTENERS = ("poll://uni@g/p1", "poll://uni@h/p2", "poll://any@g", "http://listener.test/x")
VERSIONS = ("2026-04-01",) * 7 + ("2025-01-15", "2025-01-15", "2026-03-31")
CLIENT_STATES = ("resolved", "resolved", "rejected", "rejected_canceled")
CRONS = (
    "* * * * *",
    "*/2 * * * *",
    "*/20 * * * * *",
    "0 9 * * 1-5",
    "30 2 * * *",
    "0 0 13 * 5",
    "15 3 29 2 sun",
)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
TEMPLATES = ("{{.id}}.{{.timestamp}}",) * 5 + ("{{.id}}:{{.timestamp}}", "a:2", "{{.id}}.run")
HALTABLE = (
    ("pending", "acquired"),
    ("pending",),
    ("pending", "acquired", "suspended"),
    ("halted",),
    ("fulfilled",),
)
STREAMS = ("in", "in", "in", "out.log", "value.stage")
OPEN_STATES = ("pending", "acquired", "suspended", "halted")
NO_ENVELOPES: tuple[Any, ...] = (5, None, "x", [], {})
START = 1_774_742_400_000  # 2026-03-29T00:00Z: an hour before the clocks change in Berlin


def parent_of(name: str) -> str | None:
    """The execution of whose records this is the id of one: `a` of `a:1`, `a:1` of `a:1.2`."""
    root, colon, rest = name.partition(":")
    if not colon:
        return None
    return f"{root}:{rest.rpartition('.')[0]}" if "." in rest else root


HEADERS: tuple[Json, ...] = (
    {},
    {"content-type": "json"},
    {"holdfast-code": "BROKEN"},
    {"holdfast-code": "HF5103"},
)


class Generator:
    """Yields steps; reads the oracle, never writes it."""

    def __init__(self, rng: random.Random, oracle: Oracle) -> None:
        self.rng = rng
        self.oracle = oracle
        self.now = START
        self.in_epoch = 0
        self.sent = 0
        self.blind = False
        self.last_acquire: Json | None = None
        self.operations = self._operations()
        self.weights = [weight for _, weight, _ in self.operations]

    def _operations(self) -> list[tuple[Callable[[], tuple[str, Json]], float, str | None]]:
        """What can be asked for, how often, and what must be there for it to make sense (see `is_there`)."""
        return [
            (self.promise_get, 1.5, None),
            (self.promise_create, 12, "free"),
            (self.promise_settle, 9, None),
            (self.promise_register_callback, 4, None),
            (self.promise_register_listener, 6, None),
            (self.promise_search, 2, None),
            (self.task_get, 1.5, None),
            (self.task_create, 6, "free"),
            (self.task_acquire, 17, "pending"),
            (self.task_claim, 6, "pending"),
            (self.task_start, 3.6, "acquired"),
            (self.task_release, 14, "acquired"),
            (self.task_fulfill, 3, "acquired"),
            (self.task_suspend, 33, "acquired"),
            (self.task_fence, 13, "acquired"),
            (self.task_restart, 7, "acquired"),
            (self.task_heartbeat, 7, "acquired"),
            (self.task_halt, 5, None),
            (self.task_continue, 9, "halted"),
            (self.task_search, 2, None),
            (self.stream_append, 12, "open"),
            (self.stream_next, 5, "open"),
            (self.stream_read, 2, "task"),
            (self.stream_list, 1.2, "task"),
            (self.lock_acquire, 10, "acquired"),
            (self.lock_let_go, 1.2, "acquired"),
            (self.execution_tag, 1.2, "acquired"),
            (self.event_await, 2.4, "acquired"),
            (self.event_send, 1.8, None),
            (self.event_subscribe, 0.8, None),
            (self.event_unsubscribe, 1.3, None),
            (self.event_search, 1.3, None),
            (self.lock_get, 1, None),
            (self.lock_search, 1.6, None),
            (self.lock_release, 1.2, None),
            (self.execution_get, 1.3, None),
            (self.execution_search, 3, None),
            (self.execution_count, 1.4, None),
            (self.execution_start, 2.2, "task"),
            (self.execution_cancel, 1.6, "task"),
            (self.execution_retry, 8, "fulfilled"),
            (self.execution_fork, 1.8, "task"),
            (self.schedule_get, 1.2, None),
            (self.schedule_create, 2.8, None),
            (self.schedule_delete, 1.1, None),
            (self.schedule_search, 1.4, None),
            (self.schedule_update, 1.3, None),
            (self.schedule_pause, 1.2, None),
            (self.schedule_trigger, 1.2, None),
            (self.schedule_backfill, 1, None),
            (self.debug_tick, 13, None),
        ]

    # ------------------------------------------------------------------------------------------- steps

    def step(self) -> Step:
        """The next step, to be answered by the oracle before another is asked for."""
        if self.in_epoch >= EPOCH or (self.exhausted() and self.chance(0.2)):
            self.in_epoch = 0
            self.last_acquire = None
            self.now += self.rng.randrange(3_600_000)
            return self.envelope("debug.reset", {})
        self.advance()
        if self.rng.random() < 0.05:
            return [self.one(in_array=True) for _ in range(self.rng.randint(2, 6))]
        single: Json = self.one(in_array=False)
        return single

    def exhausted(self) -> bool:
        promises = self.oracle.promises
        taken = all(name in promises for name in IDS)
        return taken and not any(self.live(promise) for promise in promises.values())

    def one(self, *, in_array: bool) -> Any:
        """One request; inside an array there is no sweep, and now and then something that is no envelope."""
        self.in_epoch += 1
        self.blind = self.rng.random() < 0.15
        if in_array and self.rng.random() < 0.01:
            return self.rng.choice(NO_ENVELOPES)
        if self.last_acquire is not None and self.rng.random() < 0.01:
            repeated = self.last_acquire
            return {**repeated, "head": {**repeated["head"], "resonate:debug_time": self.now}}
        kind, data = self.choose()()
        while in_array and kind == "debug.tick":
            kind, data = self.choose()()
        envelope = self.envelope(kind, data)
        if kind == "task.acquire":
            self.last_acquire = envelope
        return spoil(self.rng, envelope) if self.rng.random() < 0.08 else envelope

    def choose(self) -> Callable[[], tuple[str, Json]]:
        for operation, _, needed in self.rng.choices(self.operations, self.weights, k=8):
            if self.blind or needed is None or self.chance(0.03) or self.is_there(needed):
                return operation
        return self.promise_create

    def is_there(self, needed: str) -> bool:
        """Is there a free id, a task, an open one, or a live task in that state?"""
        promises = self.oracle.promises
        if needed == "task":
            return bool(self.oracle.tasks)
        if needed == "open":
            return any(self.live(promises[task_id]) for task_id in self.oracle.tasks)
        if needed == "free":
            return any(promise_id not in promises for promise_id in IDS)
        return any(t.state == needed and self.live(promises[t.id]) for t in self.oracle.tasks.values())

    def envelope(self, kind: str, data: Json) -> Json:
        self.sent += 1
        version = self.rng.choice(VERSIONS)
        head = {"corrId": f"c{self.sent}", "version": version, "resonate:debug_time": self.now}
        return {"kind": kind, "head": head, "data": data}

    # ------------------------------------------------------------------------------------------ the clock

    def advance(self) -> None:
        """Move the clock: usually not at all, often to an instant at which something is due."""
        luck = self.rng.random()
        if luck < 0.50:
            return
        if luck < 0.62:
            self.now += 1
        elif luck < 0.77:
            self.now += self.rng.randrange(1, 1_200)
        elif luck < 0.97:
            self.advance_to_due(self.rng.choice((0, 0, 0, -1, 1)))
        elif luck < 0.99:
            self.now += self.rng.choice((30_000, 45_000, 61_000))
        elif luck < 0.995:
            self.now += self.rng.randrange(200_000)
        else:
            self.now += self.rng.choice((300_000, 599_999, 600_000))  # messages that were read may go

    def advance_to_due(self, offset: int) -> None:
        due = sorted(instant for instant in self.due_instants() if instant + offset > self.now)
        near = [instant for instant in due if instant <= self.now + 120_000]
        if near:
            further = self.rng.random() < 0.15
            self.now = (near[min(3, len(near) - 1)] if further else near[0]) + offset

    def due_instants(self) -> list[int]:
        found = [p.timeout_at for p in self.oracle.promises.values() if p.state == "pending"]
        for task in self.oracle.tasks.values():
            found += [instant for instant in (task.lease_at, task.retry_at) if instant is not None]
        if self.rng.random() < 0.5:
            found += [schedule.next_run_at for schedule in self.oracle.schedules.values()]
        return found

    # ------------------------------------------------------------------------------------------- choosing

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any_id(self) -> str:
        return GHOST if self.chance(0.04) else self.rng.choice(IDS)

    def promise_id(self, wanted: Callable[[Promise], bool] = lambda promise: True) -> str:
        """The id of a promise that is as wanted, if guided and there is one."""
        if self.blind or self.chance(0.05):
            return self.any_id()
        found = [promise.id for promise in self.oracle.promises.values() if wanted(promise)]
        return self.rng.choice(found) if found else self.any_id()

    def live(self, promise: Promise) -> bool:
        return promise.state == "pending" and self.now < promise.timeout_at

    def task_id(self, *states: str, bounced: bool = False) -> str:
        """The id of a live task in one of the states, if guided and there is one; a bounced one if asked."""
        if self.blind or self.chance(0.04):
            return self.any_id()
        tasks, promises = self.oracle.tasks, self.oracle.promises
        found = [t.id for t in tasks.values() if t.state in states and self.live(promises[t.id])]
        if bounced:
            found = [task_id for task_id in found if tasks[task_id].bounces] or found
        if not found or self.chance(0.03):
            found = [task.id for task in tasks.values() if task.state in states] or list(tasks)
        return self.rng.choice(found) if found else self.any_id()

    def awaited_id(self, awaiter: str) -> str:
        """A promise worth waiting for: live, and often one whose deadline is near."""
        if self.chance(0.1):
            return self.promise_id()
        near = self.now + 35_000
        if not self.chance(0.5) or not any(
            self.live(p) and p.timeout_at < near for p in self.oracle.promises.values()
        ):
            near = 2**53
        return self.promise_id(lambda p: p.id != awaiter and self.live(p) and p.timeout_at < near)

    def version_of(self, task_id: str) -> int:
        task = self.oracle.tasks.get(task_id)
        right = task.version if task is not None else 0
        if self.chance(0.5 if self.blind else 0.06):
            return max(0, right + self.rng.choice((-1, -1, 1, 2)))
        return right

    def pid_of(self, task_id: str) -> str:
        task = self.oracle.tasks.get(task_id)
        if task is not None and task.pid is not None and not self.chance(0.1):
            return task.pid
        return self.rng.choice(PIDS)

    def ttl(self) -> int:
        return self.rng.choice((1, 10, 500, 1_000, 1_500, 10_000, 60_000, 86_400_000))

    def timeout_at(self, *, near_chance: float = 0.4) -> int:
        if self.chance(0.06):
            return self.now + self.rng.choice((0, -1, -5_000, -self.now))
        near = (1, 100, 1_000, 5_000, 30_000, 31_000)
        far = (90_000, 600_000, 10_000_000, 2**53 - 1 - self.now)
        return self.now + self.rng.choice(near if self.chance(near_chance) else far)

    def payload(self) -> Json:
        payload: Json = {}
        if self.chance(0.6):
            payload["data"] = self.rng.choice(("eyJ4IjogMX0=", "", "ä\n", None))
        if self.chance(0.3):
            payload["headers"] = self.rng.choice(HEADERS)
        return payload

    def labelled(self, payload: Json) -> Json:
        """The param of a record that an execution has made."""
        label = self.rng.choice(
            ("step pay", "step pay", "step ship", "call pay", "start pay", "note now", "sleep")
        )
        return payload | {"headers": {"holdfast:op": label}}

    def placed(self, payload: Json, promise_id: str) -> Json:
        """The value of such a record, or of an execution that has failed."""
        headers = self.rng.choice(
            (
                {"holdfast:place": str(self.rng.randrange(1, 4))},
                {"holdfast:place": str(self.rng.randrange(1, 4)), "holdfast:observed": "a:1"},
                {"holdfast:ran": f"{self.now - self.rng.randrange(5_000)} 1.5 1 w"},
                {"holdfast:failed-at": f"{self.rng.randrange(1, 4)} {self.rng.randrange(3)} {self.any_id()}"},
                {"holdfast:failed-at": f"1 {self.rng.randrange(1, 9)} {below(promise_id)}1"},
                {"holdfast:failed-at": "2 1 "},
            )
        )
        return payload | {"headers": headers}

    def tags(self, timeout_at: int, *, target: bool) -> dict[str, str]:
        tags: dict[str, str] = {}
        if target:
            tags["resonate:target"] = self.rng.choice(TARGETS)
        if self.chance(0.03):
            tags["resonate:invoke"] = self.rng.choice(TARGETS)
        if self.chance(0.12):
            tags["resonate:timer"] = self.rng.choice(("true", "true", "true", "false"))
        if target and self.chance(0.18):
            delay = self.now + self.rng.choice((-10, 0, 1, 50, 300, 1_000, 20_000))
            tags["resonate:delay"] = str(min(delay, timeout_at - 1) if self.chance(0.9) else timeout_at)
        if self.chance(0.15):
            tags["resonate:external"] = self.rng.choice(("true", "false"))
        if self.chance(0.4):
            tags["resonate:branch"] = self.rng.choice(("a", "b"))
        if self.chance(0.2):
            tags["holdfast:priority"] = str(self.rng.choice((-1_000_000, -1, 0, 1, 10, 9, 1_000_000)))
        if self.chance(0.1):
            tags["colour"] = self.rng.choice(("red", "blue"))
        if self.chance(0.3):
            tags["holdfast:workflow"] = self.rng.choice(("pay", "ship"))
        if target and self.chance(0.3):
            operation = self.rng.choice(("1", "1", "2", "7", "g1.1", "1.1"))
            tags["holdfast:caller"] = f"{below(self.task_id(*OPEN_STATES))}{operation}"
        if target and self.chance(0.2):
            tags["holdfast:crashes"] = self.rng.choice(("1", "2", "3"))
        if target and self.chance(0.12) and (tags.get("resonate:timer") != "true" or self.chance(0.02)):
            tags["holdfast:grace"] = self.rng.choice(("1", "50", "300", "5000"))
        return tags

    def create_data(self, promise_id: str, *, target: bool, plain: bool = False) -> Json:
        # What is worked on lives longer: most requests are about it.
        timeout_at = self.timeout_at(near_chance=0.2 if target else 0.4)
        data: Json = {"id": promise_id, "timeoutAt": timeout_at}
        tags = self.tags(timeout_at, target=target)
        if target and promise_id in ENTITIES:
            tags["holdfast:entity"] = promise_id
        if plain and self.chance(0.97):
            tags.pop("resonate:delay", None)
        parent = parent_of(promise_id)
        if parent is not None and self.chance(0.6):
            tags["resonate:parent"] = parent
            data["param"] = self.labelled(self.payload())
            if parent in self.oracle.promises and self.chance(0.3):  # it waits as long as its execution
                data["timeoutAt"] = self.oracle.promises[parent].timeout_at
        elif self.chance(0.5):
            data["param"] = self.payload()
        if tags or self.chance(0.5):
            data["tags"] = tags
        if self.chance(0.04 if "resonate:target" in tags else 0.15):
            data["settle"] = self.settle_data(promise_id)
            del data["settle"]["id"]
        if self.chance(0.3):
            data["ikc"] = self.rng.choice(("k1", "k2"))
        return data

    def settle_data(self, promise_id: str) -> Json:
        data: Json = {"id": promise_id, "state": self.rng.choice(CLIENT_STATES)}
        if self.chance(0.5):
            data["value"] = self.payload()
        if self.chance(0.4):
            data["value"] = self.placed(self.payload(), promise_id)
        if self.chance(0.5):
            data["iku"] = self.rng.choice(("k1", "k2"))
        return data

    def new_id(self) -> str:
        """An id that is not taken, if there is one."""
        free = [promise_id for promise_id in IDS if promise_id not in self.oracle.promises]
        return self.rng.choice(free) if free and self.chance(0.87) else self.rng.choice(IDS)

    def action(self, kind: str, data: Json) -> Json:
        head: Json = {"corrId": f"inner{self.sent}", "version": "2026-04-01"} if self.chance(0.5) else {}
        return {"kind": kind, "head": head, "data": data}

    # ------------------------------------------------------------------------------------------- promises

    def promise_get(self) -> tuple[str, Json]:
        return "promise.get", {"id": self.promise_id()}

    def promise_create(self) -> tuple[str, Json]:
        if self.chance(0.05):  # under a number that the stream has not come to
            execution = self.task_id(*OPEN_STATES)
            number = (
                self.oracle.count(promise, "in") if (promise := self.oracle.promises.get(execution)) else 0
            )
            place = f"{below(execution)}in.{number + self.rng.choice((1, 1, 2))}"
            return "promise.create", self.create_data(place, target=False)
        return "promise.create", self.create_data(self.new_id(), target=self.chance(0.6))

    def promise_settle(self) -> tuple[str, Json]:
        if self.chance(0.18):
            return "promise.settle", self.settle_data(self.promise_id(lambda p: not self.live(p)))
        if self.chance(0.1):
            return "promise.settle", self.settle_data(self.promise_id(self.is_open_answer))
        if self.chance(0.85):
            return "promise.settle", self.settle_data(self.promise_id(self.wakes_somebody))
        spared = self.oracle.tasks if self.chance(0.7) else {}
        return "promise.settle", self.settle_data(
            self.promise_id(lambda p: self.live(p) and p.id not in spared)
        )

    def is_open_answer(self, promise: Promise) -> bool:
        return self.live(promise) and "holdfast:answer" in promise.tags

    def wakes_somebody(self, promise: Promise) -> bool:
        tasks = self.oracle.tasks
        return self.live(promise) and any(
            awaiter not in tasks or tasks[awaiter].state == "suspended" for awaiter in promise.callbacks
        )

    def promise_register_callback(self) -> tuple[str, Json]:
        awaiter = self.task_id("pending", "acquired", "suspended", "halted")
        if self.chance(0.12):
            awaiter = self.promise_id(lambda promise: promise.id not in self.oracle.tasks)
        awaited = self.awaited_id(awaiter)
        if self.chance(0.3):
            awaiter, awaited = self.rng.choice(self.named_calls() or [(awaiter, awaited)])
        kind = self.rng.choice(("promise.register_callback", "promise.register"))
        return kind, {"awaiter": awaiter, "awaited": awaited}

    def named_calls(self) -> list[tuple[str, str]]:
        """Each execution that has called another under an id of its own, and that one."""
        tasks = self.oracle.tasks
        return [
            (caller, promise.id)
            for promise in self.oracle.promises.values()
            if promise.id in tasks and "holdfast:caller" in promise.tags and self.live(promise)
            for caller in tasks
            if promise.tags["holdfast:caller"].startswith(below(caller))
        ]

    def promise_register_listener(self) -> tuple[str, Json]:
        awaited = self.promise_id(self.live) if self.chance(0.85) else self.promise_id()
        kind = self.rng.choice(("promise.register_listener", "promise.subscribe"))
        return kind, {"awaited": awaited, "address": self.rng.choice(LISTENERS)}

    def search(self, data: Json) -> Json:
        if self.chance(0.5):
            data["limit"] = self.rng.choice((1, 2, 3, 5, 1_000))
        if self.chance(0.3):
            data["cursor"] = self.rng.choice((*IDS, "", "zz"))
        if self.chance(0.3):
            data["prefix"] = self.rng.choice(("a", "a:", "b.", "B", "z%", "é", "_", ""))
        return data

    def promise_search(self) -> tuple[str, Json]:
        data: Json = {}
        if self.chance(0.5):
            data["state"] = self.rng.choice((*CLIENT_STATES, "pending", "pending", "rejected_timedout"))
        if self.chance(0.3):
            data["tags"] = self.rng.choice(
                ({}, {"colour": "red"}, {"resonate:branch": "a", "colour": "blue"})
            )
        return "promise.search", self.search(data)

    # ---------------------------------------------------------------------------------------------- tasks

    def task_get(self) -> tuple[str, Json]:
        return "task.get", {"id": self.task_id("pending", "acquired", "suspended", "halted", "fulfilled")}

    def task_create(self) -> tuple[str, Json]:
        promise_id = self.new_id()
        if self.chance(0.25):
            promise_id = self.task_id("pending")
        elif self.chance(0.15):
            promise_id = self.task_id("acquired", "suspended", "halted", "fulfilled")
        elif self.chance(0.1):
            promise_id = self.promise_id(lambda promise: promise.id not in self.oracle.tasks)
        create = self.create_data(promise_id, target=self.chance(0.97), plain=True)
        action = self.action("promise.create", create)
        return "task.create", {"pid": self.rng.choice(PIDS), "ttl": self.ttl(), "action": action}

    def task_acquire(self) -> tuple[str, Json]:
        task_id = self.task_id("pending", bounced=self.chance(0.7))
        data = {"id": task_id, "version": self.version_of(task_id)}
        return "task.acquire", {**data, "pid": self.rng.choice(PIDS), "ttl": self.ttl()}

    def task_claim(self) -> tuple[str, Json]:
        groups = self.rng.sample(GROUPS, self.rng.randint(1, 3))
        count = self.rng.choice((1, 2, 3, 1_000))
        return "task.claim", {
            "groups": groups,
            "count": count,
            "pid": self.rng.choice(PIDS),
            "ttl": self.ttl(),
            **({"known": self.known_tasks()} if self.chance(0.3) else {}),
        }

    def known_tasks(self) -> list[str]:
        """Some that can be claimed, and some that cannot."""
        return [self.task_id("pending") for _ in range(self.rng.randint(0, 5))]

    def held(self, *, bounced: bool = False) -> Json:
        task_id = self.task_id("acquired", bounced=bounced)
        return {"id": task_id, "version": self.version_of(task_id)}

    def task_start(self) -> tuple[str, Json]:
        return "task.start", self.held()

    def task_release(self) -> tuple[str, Json]:
        bounced = self.chance(0.7)
        data = self.held(bounced=bounced)
        if not bounced and self.chance(0.9):
            retry: Json = {"delay": self.rng.choice((0, 1, 100, 5_000, 30_000, 2**53 - 1))}
            if self.chance(0.6):
                retry["error"] = self.rng.choice(("boom", "", "out of memory"))
            data["retry"] = retry
        return "task.release", data

    def task_fulfill(self) -> tuple[str, Json]:
        data = self.of_generation(self.held())
        if self.chance(0.2):
            data["id"] = self.task_id("fulfilled")
            data["version"] = self.version_of(data["id"])
        settled = data["id"] if not self.chance(0.03) else self.any_id()
        return "task.fulfill", {**data, "action": self.action("promise.settle", self.settle_data(settled))}

    def task_suspend(self) -> tuple[str, Json]:
        data = self.of_generation(self.held())
        settled_too = self.chance(0.3)
        actions: list[Json] = []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            awaited = (
                self.promise_id(lambda p: p.id != data["id"]) if settled_too else self.awaited_id(data["id"])
            )
            awaiter = data["id"] if not self.chance(0.01) else self.any_id()
            kind = self.rng.choice(("promise.register_callback", "promise.register"))
            actions.append(self.action(kind, {"awaiter": awaiter, "awaited": awaited}))
        if self.chance(0.3):
            data["checkWoken"] = self.chance(0.8)
        if self.chance(0.3):
            awaited = self.awaited_id(data["id"])
            data["waits"] = [
                {"id": awaited, "what": "sleep", "file": "shop.py", "line": self.rng.randrange(9)}
            ]
        if self.chance(0.4):
            actions = self.bound_actions(data["id"]) or actions
            data["waits"] = [{"id": actions[0]["data"]["awaited"], "what": "call"}]
        return "task.suspend", {**data, "actions": actions}

    def bound_actions(self, task_id: str) -> list[Json]:
        """To wait for one of its tickets, for one that it called, for an answer of an entity, or for another:
        what rings are made of."""
        tickets = [
            ticket.id
            for lock in self.oracle.locks.values()
            for ticket in lock.waiters
            if ticket.execution == task_id
        ]
        others = [lock.waiters[-1].execution for lock in self.oracle.locks.values() if lock.waiters]
        called = [name for caller, name in self.named_calls() if caller == task_id and self.chance(0.5)]
        answers = {
            each.tags["holdfast:dependent"]: each.id
            for each in self.oracle.promises.values()
            if self.is_open_answer(each) and each.tags["holdfast:dependent"] in ENTITIES
        }
        other = [answers.get(each, each) for each in others if each != task_id][:1]
        found = tickets[-1:] or called[-1:] or other
        kind = "promise.register_callback"
        return [self.action(kind, {"awaiter": task_id, "awaited": awaited}) for awaited in found]

    def task_fence(self) -> tuple[str, Json]:
        data = self.of_generation(self.held())
        if self.chance(0.4):
            kind, streamed = self.stream_append() if self.chance(0.5) else self.stream_next()
            if self.chance(0.7):
                streamed["id"] = data["id"]
            if kind == "stream.next":
                streamed["stream"] = "in" if self.chance(0.6) else streamed["stream"]
                streamed["number"] = self.number_of(streamed["id"], streamed["stream"])
            return "task.fence", {**data, "action": self.action(kind, streamed)}
        if self.chance(0.15):
            steer = [self.task_halt, self.task_continue, self.execution_cancel, self.execution_retry]
            kind, inner = self.rng.choice(steer)()
            return "task.fence", {**data, "action": self.action(kind, inner)}
        if self.chance(0.5):
            inner = self.create_data(self.new_id(), target=self.chance(0.3))
            if self.chance(0.5) and data["id"] in self.oracle.promises:
                inner["tags"] = {"resonate:parent": data["id"]} | self.record_tags(data["id"])
                inner["id"] = (
                    f"{below(data['id'])}{self.rng.choice(('1', '2', '2~', '3', 'cancel', 'g1.1', 'g2.1'))}"
                )
            return "task.fence", {**data, "action": self.action("promise.create", inner)}
        inner = self.settle_data(self.promise_id(lambda p: self.live(p) and p.id != data["id"]))
        return "task.fence", {**data, "action": self.action("promise.settle", inner)}

    def record_tags(self, execution: str) -> dict[str, str]:
        """Those of a record of this execution, perhaps a timer, perhaps in the branch of its generation."""
        number = generation(self.oracle.promises[execution])["number"]
        branch = f"{below(execution)}g{number}" if number else self.rng.choice(("a", "b"))
        timer = {"resonate:timer": "true"} if self.chance(0.3) else {}
        return ({"resonate:branch": branch} if self.chance(0.7) else {}) | timer

    def of_generation(self, data: Json) -> Json:
        """With the generation that the execution is in, mostly: that of the first need not be told."""
        promise = self.oracle.promises.get(data["id"])
        number = 0 if promise is None else generation(promise)["number"]
        number = max(0, number + self.rng.choice((-1, 1))) if self.chance(0.05) else number
        return data | {"generation": number} if number or self.chance(0.1) else data

    def task_restart(self) -> tuple[str, Json]:
        data = self.of_generation(self.held())
        promise = self.oracle.promises.get(data["id"])
        count = 0 if promise is None else self.oracle.count(promise, "in")
        least = 0 if promise is None else generation(promise)["read"]
        if count:
            data["read"] = count if self.chance(0.6) else self.rng.randint(min(least, count), count)
        elif self.chance(0.05):
            data["read"] = 1
        if self.chance(0.7):
            data["param"] = self.payload()
        if self.chance(0.6):
            below_it = [
                key for key in self.oracle.promises if key.startswith(data["id"]) and key != data["id"]
            ]
            data["forget"] = [*self.rng.sample(below_it, min(len(below_it), 4)), self.any_id()]
        return "task.restart", data

    def task_heartbeat(self) -> tuple[str, Json]:
        first = self.task_id("acquired")
        ids = [first] + [self.task_id("acquired", "pending") for _ in range(self.rng.randrange(3))]
        pairs = [{"id": task_id, "version": self.version_of(task_id)} for task_id in ids]
        data: Json = {"pid": self.pid_of(first), "tasks": [] if self.chance(0.3) else pairs}
        if data["tasks"] and self.chance(0.4):
            data["progress"] = [self.progress(pair["id"]) for pair in data["tasks"]]
        return "task.heartbeat", data | {"checkWoken": True} if self.chance(0.5) else data

    def progress(self, task_id: str) -> Json:
        told: Json = {"id": task_id if self.chance(0.9) else "ghost"}
        if self.chance(0.8):
            told["step"] = f"{below(task_id)}{self.rng.randint(1, 3)}"
        if self.chance(0.7):
            told["fraction"] = self.rng.choice((0, 0.25, 1, 1.0, 1.5) if self.chance(0.05) else (0, 0.5, 1))
        if self.chance(0.4):
            told["data"] = self.rng.choice(("{}", '{"rows":17}') if self.chance(0.95) else ("no object",))
        return told

    def with_version(self, task_id: str) -> Json:
        return {"id": task_id, "version": self.version_of(task_id)} if self.chance(0.3) else {"id": task_id}

    def task_halt(self) -> tuple[str, Json]:
        states = self.rng.choice(HALTABLE)
        data = self.with_version(self.task_id(*states))
        if self.chance(0.5):
            data |= {"reason": self.rng.choice(("", "other code", "by hand"))}
            data |= {"code": "HF5101"} if self.chance(0.5) else {}
        return "task.halt", data

    def task_continue(self) -> tuple[str, Json]:
        return "task.continue", self.with_version(self.task_id("halted"))

    def task_search(self) -> tuple[str, Json]:
        data: Json = {}
        if self.chance(0.5):
            data["state"] = self.rng.choice(("pending", "acquired", "suspended", "halted", "fulfilled"))
        if self.chance(0.2):
            data["target"] = self.rng.choice(TARGETS)
        if self.chance(0.2):
            data["group"] = self.rng.choice(GROUPS)
        if self.chance(0.2):
            data["pid"] = self.rng.choice(PIDS)
        if self.chance(0.2):
            data["tags"] = {"resonate:branch": "a"}
        return "task.search", self.search(data)

    # -------------------------------------------------------------------------------------------- streams

    def execution_id(self) -> str:
        if self.chance(0.15):
            return self.task_id("fulfilled")
        return self.task_id(*OPEN_STATES)

    def event_name(self) -> str:
        return self.rng.choice(("e", "e", "e", "f.g"))

    def attributes(self) -> Json:
        return {name: self.rng.choice(("1", "2")) for name in ("x", "y") if self.chance(0.5)}

    def event_send(self) -> tuple[str, Json]:
        sent: Json = {"name": self.event_name(), "match": self.attributes()}
        if self.chance(0.4):
            sent["id"] = self.rng.choice(("k1", "k2", "k.3", "k4"))
        if self.chance(0.6):
            sent["value"] = self.payload()
        if self.chance(0.3):
            return "task.fence", {**self.held(), "action": self.action("event.send", sent)}
        return "event.send", sent

    def event_await(self) -> tuple[str, Json]:
        data = self.held()
        wait = f"{below(data['id'])}w{self.rng.randint(1, 9)}"
        asked: Json = {"id": wait, "name": self.event_name(), "timeoutAt": self.timeout_at()}
        if self.chance(0.7):
            asked["match"] = self.attributes()
        if self.chance(0.3):
            asked["lookBack"] = self.rng.choice((0, 1, 1_000, 60_000))
        if self.chance(0.3):
            asked |= {"param": self.payload(), "tags": {"resonate:branch": "a"}}
        return "task.fence", {**data, "action": self.action("event.await", asked)}

    def event_subscribe(self) -> tuple[str, Json]:
        tags = self.tags(2**53, target=self.chance(0.95))
        tags.pop("resonate:delay", None)
        made = {"name": self.event_name(), "id": self.rng.choice(("s1", "s2")), "workflow": "pay"}
        return "event.subscribe", {**made, "promiseTags": tags, "promiseTimeout": self.rng.choice((0, 9_000))}

    def event_unsubscribe(self) -> tuple[str, Json]:
        return "event.unsubscribe", {"name": self.event_name(), "id": self.rng.choice(("s1", "s2"))}

    def event_search(self) -> tuple[str, Json]:
        data: Json = {"name": self.event_name()}
        if self.chance(0.4):
            data["before"] = self.rng.randint(0, 5)
        if self.chance(0.4):
            data["limit"] = self.rng.choice((1, 2, 256))
        return "event.search", data

    def lock_name(self) -> str:
        return self.rng.choice(("l", "l", "l", "l", "l", "l", "l", "l", "m", "l.1"))

    def ticket_of(self, execution: str, *parts: str) -> Json | None:
        """One of its tickets, held or waiting, with the name of the lock."""
        found = [
            {"name": lock.name, "id": ticket.id}
            for lock in self.oracle.locks.values()
            for part in parts
            for ticket in getattr(lock, part)
            if ticket.execution == execution
        ]
        return self.rng.choice(found) if found else None

    def lock_acquire(self) -> tuple[str, Json]:
        data = self.held()
        name = self.lock_name()
        known = self.oracle.locks.get(name)
        limit = (
            known.limit if known is not None and not self.chance(0.05) else self.rng.choice((1, 1, 1, 2, 3))
        )
        ticket = f"{below(data['id'])}k{self.rng.randint(1, 9)}"
        asked: Json = {"id": ticket, "name": name, "timeoutAt": self.timeout_at()}
        if limit > 1 or self.chance(0.2):
            asked["limit"] = limit
        if limit > 1 and self.chance(0.4):
            asked["count"] = self.rng.randint(1, limit + self.chance(0.05))
        if (held := self.ticket_of(data["id"], "holders")) is not None and self.chance(0.7):
            asked["holding"] = [held["id"]]
        if self.chance(0.3):
            asked["param"] = self.payload()
        if self.chance(0.3):
            asked["tags"] = {"resonate:branch": "a"}
        return "task.fence", {**data, "action": self.action("lock.acquire", asked)}

    def execution_tag(self) -> tuple[str, Json]:
        changes: Json = {self.rng.choice(("colour", "stage")): self.rng.choice(("red", "blue", None))}
        if self.chance(0.03):
            changes = self.rng.choice(({}, {"resonate:target": "x"}, {"": "x"}, {"stage": 5}))
        data = self.held()
        asked = {"id": data["id"] if self.chance(0.97) else "ghost", "tags": changes}
        return "task.fence", {**data, "action": self.action("execution.tag", asked)}

    def lock_let_go(self) -> tuple[str, Json]:
        data = self.held()
        found = self.ticket_of(data["id"], "holders", "waiters")
        if found is None or self.chance(0.1):
            found = {"name": self.lock_name(), "id": f"{below(data['id'])}k{self.rng.randint(1, 9)}"}
        return "task.fence", {**data, "action": self.action("lock.release", found)}

    def lock_release(self) -> tuple[str, Json]:
        ticket = self.ticket_of(self.task_id(*OPEN_STATES), "holders", "waiters")
        found = ticket or {"name": self.lock_name(), "id": self.any_id()}
        if self.chance(0.3):
            found["id"] = self.task_id(*OPEN_STATES)
        return "lock.release", found if self.chance(0.1) else {**found, "reason": "stuck"}

    def lock_get(self) -> tuple[str, Json]:
        return "lock.get", {"name": self.lock_name() if self.chance(0.9) else "nobody"}

    def lock_search(self) -> tuple[str, Json]:
        data: Json = {"used": self.chance(0.5)} if self.chance(0.5) else {}
        if self.chance(0.5):
            data["limit"] = self.rng.choice((1, 2, 5))
        if self.chance(0.3):
            data["cursor"] = self.rng.choice(("lock@l", "lock@l.1", "lock@z"))
        if self.chance(0.3):
            data["prefix"] = self.rng.choice(("l", "m", ""))
        return "lock.search", data

    def stream_append(self) -> tuple[str, Json]:
        execution = self.execution_id()
        data: Json = {"id": execution, "stream": "in" if self.chance(0.6) else self.rng.choice(STREAMS)}
        if self.chance(0.8):
            data["value"] = self.payload()
            if self.chance(0.05):
                data["value"]["headers"] = {"holdfast:answer": "a", "x": "y"}
        if self.chance(0.4):
            data["key"] = self.rng.choice(("k1", "k2", "k3"))
        if self.chance(0.4):
            answer: Json = {"timeoutAt": self.timeout_at()}
            if self.chance(0.3):
                answer["id"] = self.rng.choice(("q.1", "q.2", "q.3", "a:1"))
            if self.chance(0.2):
                answer |= {"param": self.payload(), "tags": {"resonate:branch": "a"}}
            data["answer"] = answer
        if self.chance(0.1):
            data["expect"] = self.rng.choice(({}, {"colour": "red"}))
        return "stream.append", data

    def number_of(self, execution: str, stream: str) -> int:
        """Mostly the next number, or one that is there."""
        promise = self.oracle.promises.get(execution)
        count = 0 if promise is None else self.oracle.count(promise, stream)
        if self.chance(0.08):
            return count + 2
        return count + 1 if self.chance(0.6) else self.rng.randint(1, count + 1)

    def stream_next(self) -> tuple[str, Json]:
        execution, stream = self.execution_id(), self.rng.choice(STREAMS)
        data: Json = {"id": execution, "stream": stream, "number": self.number_of(execution, stream)}
        if self.chance(0.2):
            data["peek"] = True
        return "stream.next", data

    def stream_read(self) -> tuple[str, Json]:
        data: Json = {"id": self.execution_id(), "stream": self.rng.choice(STREAMS)}
        if self.chance(0.5):
            data["after"] = self.rng.choice((0, 1, 2, 5))
        elif self.chance(0.5):
            data["last"] = True
        if self.chance(0.3):
            data["limit"] = self.rng.choice((1, 2, 256))
        return "stream.read", data

    def stream_list(self) -> tuple[str, Json]:
        return "stream.list", {"id": self.execution_id()}

    # ----------------------------------------------------------------------------------------- executions

    def execution_get(self) -> tuple[str, Json]:
        return "execution.get", {
            "id": self.any_id()
            if self.chance(0.1)
            else self.task_id("pending", "suspended", "halted", "fulfilled")
        }

    def execution_filters(self) -> Json:
        data: Json = {}
        if self.chance(0.6):
            data["status"] = self.rng.sample(STATUSES, self.rng.choice((1, 1, 2, 5)))
        if self.chance(0.2):
            data["kind"] = self.rng.choice(("execution", "execution", "task"))
        if self.chance(0.3):
            data["name"] = self.rng.choice(("pay", "ship", "no such"))
        if self.chance(0.2):
            data["tags"] = self.rng.choice(({"colour": "red"}, {"resonate:branch": "a"}))
        if self.chance(0.2):
            data["queue"] = self.rng.choice(GROUPS)
        if self.chance(0.15):
            data["code"] = self.rng.choice(("BROKEN", "ODD"))
        if self.chance(0.2):
            data["prefix"] = self.rng.choice(("a", "a:", "b.", ""))
        if self.chance(0.2):
            data[self.rng.choice(("since", "until"))] = self.now - self.rng.randrange(100_000)
        return data

    def execution_search(self) -> tuple[str, Json]:
        data = self.execution_filters()
        if self.chance(0.6):
            data["limit"] = self.rng.choice((1, 2, 3, 5, 1_000))
        if self.chance(0.4):
            instant = self.now - self.rng.randrange(30_000)
            known = [promise for promise in self.oracle.promises.values() if promise.id in self.oracle.tasks]
            if known and self.chance(0.8):
                chosen = self.rng.choice(known)
                data["cursor"] = f"{chosen.created_at}/{chosen.id}"
            else:
                data["cursor"] = self.rng.choice((str(instant), f"{instant}/a", "", "x", "12/"))
        return "execution.search", data

    def execution_count(self) -> tuple[str, Json]:
        return "execution.count", self.execution_filters()

    def ended_id(self) -> str:
        """Mostly of an execution that failed."""
        promises = self.oracle.promises
        failed = [
            name
            for name in self.oracle.tasks
            if not self.live(promises[name]) and promises[name].state != "resolved"
        ]
        if failed and not self.blind and self.chance(0.85):
            return self.rng.choice(failed)
        return self.task_id("fulfilled", "pending", "acquired", "suspended")

    def execution_start(self) -> tuple[str, Json]:
        name = self.ended_id() if self.chance(0.5) else self.execution_id()
        if name not in IDS:  # what a schedule has made, and may replace, stays its own
            name = self.any_id()
        creation = self.create_data(name, target=self.chance(0.95), plain=self.chance(0.5))
        if self.chance(0.95):
            creation.pop("settle", None)
        data: Json = {"action": self.action("promise.create", creation)}
        if self.chance(0.9):
            data["onExisting"] = self.rng.choice(
                ("return", "reject", "again_if_failed", "replace", "replace")
            )
        return "execution.start", data

    def execution_cancel(self) -> tuple[str, Json]:
        data: Json = {"id": self.execution_id() if self.chance(0.8) else self.promise_id()}
        if self.chance(0.3) and (called := self.named_calls()):
            data["id"], _ = self.rng.choice(called)
        if self.chance(0.6):
            data["now"] = self.chance(0.8)
        return "execution.cancel", data

    def execution_retry(self) -> tuple[str, Json]:
        data: Json = {"id": self.ended_id()}
        if self.chance(0.3):
            data["timeoutAt"] = self.timeout_at()
        return "execution.retry", data

    def execution_fork(self) -> tuple[str, Json]:
        source = self.task_id("fulfilled", *OPEN_STATES)
        parents = [parent_of(name) for name in self.oracle.promises]
        sources = [name for name in parents if name in self.oracle.tasks]
        if sources and self.chance(0.7):
            source = str(self.rng.choice(sources))
        before = self.rng.choice(
            ("pay", "ship", "step pay", f"{below(source)}1", f"{below(source)}2", "nothing")
        )
        data: Json = {"id": source, "newId": self.new_id(), "before": before}
        if self.chance(0.2):
            data["param"] = self.payload()
        if self.chance(0.2):
            data["timeoutAt"] = self.timeout_at()
        return "execution.fork", data

    # ------------------------------------------------------------------------------------------ schedules

    def schedule_id(self) -> str:
        known = list(self.oracle.schedules)
        if known and not self.blind and self.chance(0.8):
            return self.rng.choice(known)
        return self.rng.choice(SCHEDULE_IDS)

    def schedule_get(self) -> tuple[str, Json]:
        return "schedule.get", {"id": self.schedule_id()}

    def schedule_create(self) -> tuple[str, Json]:
        data: Json = {
            "id": self.rng.choice(SCHEDULE_IDS),
            "cron": self.rng.choice(CRONS),
            "promiseId": self.rng.choice(TEMPLATES),
            "promiseTimeout": self.rng.choice((0, 1_000, 60_000, 1_000_000, 2**53 - 1)),
            "catchUp": self.rng.choice((0, 1, 2, 3)),
        }
        if self.chance(0.04):
            del data["catchUp"]
        if self.chance(0.6):
            data["overlap"] = self.rng.choice(("allow", "skip", "skip", "replace", "replace"))
        if self.chance(0.3):
            data["timezone"] = self.rng.choice(ZONES)
        if self.chance(0.5):
            data["promiseParam"] = self.payload()
        if self.chance(0.6):
            data["promiseTags"] = self.tags(2**53, target=self.chance(0.7))
            if self.chance(0.95):
                data["promiseTags"].pop("resonate:delay", None)
        return "schedule.create", data

    def schedule_delete(self) -> tuple[str, Json]:
        return "schedule.delete", {"id": self.schedule_id()}

    def schedule_update(self) -> tuple[str, Json]:
        _, data = self.schedule_create()
        kept = {name: value for name, value in data.items() if self.chance(0.3)}
        return "schedule.update", kept | {"id": self.schedule_id()}

    def schedule_pause(self) -> tuple[str, Json]:
        return "schedule.pause", {"id": self.schedule_id(), "paused": self.chance(0.4)}

    def schedule_trigger(self) -> tuple[str, Json]:
        return "schedule.trigger", {"id": self.schedule_id()}

    def schedule_backfill(self) -> tuple[str, Json]:
        """Mostly a few minutes; rarely so many that they do not fit, or what lies ahead."""
        until = self.now - self.rng.choice((0, 0, 1, 30_000, 60_000, -1, -60_000, -60_001))
        since = until - self.rng.choice((0, 60_000, 120_000, 120_000, -1))
        if self.chance(0.02):
            since = until - 7_000_000
        return "schedule.backfill", {"id": self.schedule_id(), "since": since, "until": until}

    def schedule_search(self) -> tuple[str, Json]:
        data: Json = {"tags": {"colour": "red"}} if self.chance(0.2) else {}
        return "schedule.search", self.search(data)

    # ---------------------------------------------------------------------------------------------- debug

    def debug_tick(self) -> tuple[str, Json]:
        return "debug.tick", {"time": self.now if not self.chance(0.02) else self.now + 1}
