"""The properties of every step from one state to the next: 46 to 97. invariants.py says which are bent."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.deadline_properties import deadline_steps, execution_asked_by
from tests.model.lock_properties import has_left_lock, is_kept_record, lock_steps, was_granted
from tests.model.restart_properties import generation_in, may_vanish, restart_steps
from tests.model.snapshot import (
    Json,
    Snapshot,
    is_empty,
    is_timer,
    possible_target,
    same_record,
    state_at_timeout,
)
from tests.model.stream_properties import ended_with_execution, has_left, stream_steps
from tests.model.version_properties import version_steps

EDGES = {
    "pending": ("pending", "acquired", "halted", "fulfilled"),
    "acquired": ("pending", "acquired", "suspended", "halted", "fulfilled"),
    "suspended": ("pending", "suspended", "halted", "fulfilled"),
    "halted": ("pending", "halted", "fulfilled"),
    "fulfilled": ("fulfilled",),
}
BACKGROUND_EDGES = {
    "pending": ("pending", "fulfilled"),
    "acquired": ("acquired", "pending", "fulfilled"),
    "suspended": ("suspended", "pending", "fulfilled"),
    "halted": ("halted", "fulfilled"),
    "fulfilled": ("fulfilled",),
}
DEFINITION = ("param", "tags", "timeoutAt", "createdAt", "ikc")
SCHEDULE_DEFINITION = (
    "cron",
    "promiseId",
    "promiseTimeout",
    "promiseParam",
    "promiseTags",
    "createdAt",
    "timezone",
    "overlap",
    "catchUp",
)

RESTS_MS = {min(600_000, 1_000 * 2**power) for power in range(12)}


def step_violations(
    a: Snapshot,
    b: Snapshot,
    now: int,
    retry_ms: int,
    *,
    background: bool,
    delivering: bool,
    mending: bool = False,
) -> Iterator[str]:
    again = frozenset(key for key in begun_again(a, b) if mending or is_superseded(a.promises[key]))
    yield from _beginnings(a, b, again, now, retry_ms)
    yield from _promise_steps(a, b, again, now)
    yield from _task_steps(a, b, again, now, retry_ms, background=background)
    renewed = again | {key for key in b.promises if again and execution_asked_by(b, key) in again}
    yield from _consumption_steps(a, b, renewed, now)
    yield from _message_steps(a, b, again, now, delivering=delivering)
    yield from _schedule_steps(a, b, background=background)
    if background:
        yield from _background_steps(a, b)
    yield from stream_steps(a, b, again, now)
    yield from restart_steps(a, b, lambda key: key in again or _is_below(key, again))
    yield from lock_steps(a, b)
    yield from deadline_steps(a, b, again, now)
    yield from version_steps(a, b)


def is_superseded(promise: Json) -> bool:
    """Is it only kept for its version, until it is created again?"""
    return bool(promise["value"] == {"headers": {"holdfast:superseded": "true"}})


def _was_superseded(a: Snapshot, promise_id: str) -> bool:
    promise = a.promises.get(promise_id)
    return promise is not None and is_superseded(promise)


def begun_again(a: Snapshot, b: Snapshot) -> frozenset[str]:
    """Executions whose version rose though nobody has acquired them."""
    return frozenset(
        task_id
        for task_id, new in b.tasks.items()
        if (old := a.tasks.get(task_id)) is not None
        and new["state"] == "pending"
        and new["version"] > old["version"]
    )


def _beginnings(a: Snapshot, b: Snapshot, again: frozenset[str], now: int, retry_ms: int) -> Iterator[str]:
    for task_id in again:
        new, promise = b.tasks[task_id], b.promises[task_id]
        retry, delay = b.retries.get(task_id), int(promise["tags"].get("resonate:delay", 0))
        due = (now + retry_ms, delay, promise["timeoutAt"])
        fresh = promise["state"] == "pending" and is_empty(promise["value"]) and now < promise["timeoutAt"]
        if (
            not fresh
            or new["version"] != a.tasks[task_id]["version"] + 1
            or retry not in due
            or new["resumes"]
        ):
            yield f"109 execution {task_id}: begun again in an impossible shape"
        if "pid" in new or "error" in new or "retries" in new or "startedAt" in new:
            yield f"109 execution {task_id}: it kept something of its former life"


def _is_below(name: str, roots: frozenset[str]) -> bool:
    return any(name.startswith((f"{root}:", f"{root}.")) for root in roots)


def _mended_change(who: str, old: Json, new: Json) -> Iterator[str]:
    """A record of an execution that begins again loses its place, or waits as long as that one may go on."""
    given: dict[str, str] = old["value"].get("headers") or {}
    headers = {key: text for key, text in given.items() if key != "holdfast:place"}
    placeless = {key: each for key, each in old["value"].items() if key != "headers"}
    if headers:
        placeless["headers"] = headers
    longer = old["state"] == new["state"] == "pending" and new == {**old, "timeoutAt": new["timeoutAt"]}
    if new != {**old, "value": placeless} and not longer:
        yield f"110 {who}: changed in another way than by losing its place or getting more time"


def _promise_steps(a: Snapshot, b: Snapshot, again: frozenset[str], now: int) -> Iterator[str]:
    for name, key in b.twice:
        yield f"56 {name}: {key} is there twice after the step"
    for promise_id, old in a.promises.items():
        new = b.promises.get(promise_id)
        who = f"promise {promise_id}"
        if promise_id in again or is_superseded(old):
            continue
        if new is None:
            if not (_is_below(promise_id, again) or may_vanish(a, b, promise_id)):
                yield f"48 {who}: vanished"
        elif new is not old and new != old and execution_asked_by(b, promise_id) in again:
            yield from _promise_birth(b, new, now)  # the deadline of one that begins again is another one
        elif new is not old and new != old:
            if (
                _is_below(promise_id, again)
                and not is_superseded(new)
                and (old["state"] != "pending" or new["state"] == "pending")
            ):
                yield from _mended_change(who, old, new)
            elif not (is_superseded(new) and (_is_below(promise_id, again) or may_vanish(a, b, promise_id))):
                yield from _promise_change(who, old, new, now)
    for promise_id, new in b.promises.items():
        if promise_id not in a.promises:
            yield from _promise_birth(b, new, now)


def _same_own_tags(old: Json, new: Json) -> bool:
    """Those that the protocol reads; an execution may change the others while it is held."""
    own = [
        {name: text for name, text in each["tags"].items() if name.startswith(("resonate:", "holdfast:"))}
        for each in (old, new)
    ]
    return own[0] == own[1]


def _promise_change(who: str, old: Json, new: Json, now: int) -> Iterator[str]:
    changed = [name for name in DEFINITION if old.get(name) != new.get(name)]
    if changed and not (changed == ["tags"] and new["state"] == "pending" and _same_own_tags(old, new)):
        yield f"46 {who}: its definition changed"
    was, became = old["state"], new["state"]
    stamp_changed = old.get("settledAt") != new.get("settledAt")
    if was != "pending" and (
        was != became or stamp_changed or old["value"] != new["value"] or old.get("iku") != new.get("iku")
    ):
        yield f"47 {who}: its settled record changed"
    if was != "pending" and became not in (was, "pending"):
        yield f"52 {who}: from {was} to {became}"
    if was != "pending" and became == "pending":
        yield f"53 {who}: back to pending"
    if stamp_changed != (was != became):
        yield f"54 {who}: settledAt and state did not change together"
    kept = generation_in(new)["number"] != generation_in(old)["number"] or is_kept_record(new)
    if became == "pending" and old["value"] != new["value"] and not kept:
        yield f"55 {who}: value changed while pending"
    if was != "pending" and was != became:
        yield f"61 {who}: the edge {was} to {became}"
    if was == "pending" and became != "pending":
        yield from _settlement(who, new, now)


def _settlement(who: str, new: Json, now: int) -> Iterator[str]:
    settled, deadline = new.get("settledAt"), new["timeoutAt"]
    by_client = settled == now < deadline and new["state"] != "rejected_timedout"
    by_deadline = (
        settled == deadline <= now and new["state"] == state_at_timeout(new) and is_empty(new["value"])
    )
    if not (by_client or by_deadline):
        yield f"87 {who}: settled neither by a client now nor by its deadline"
    if new["state"] == "rejected_timedout" and not by_deadline:
        yield f"88 {who}: timed out but not by its deadline"


def _promise_birth(b: Snapshot, new: Json, now: int) -> Iterator[str]:
    promise_id = new["id"]
    who = f"promise {promise_id}"
    scheduled = "resonate:schedule" in new["tags"]
    state, created, deadline, settled = new["state"], new["createdAt"], new["timeoutAt"], new.get("settledAt")
    registered = any(awaited == promise_id for awaited, _ in (*b.callbacks, *b.listeners))
    registered = registered and "holdfast:bucket" not in new["tags"]
    if (execution := execution_asked_by(b, promise_id)) is not None:
        others = {awaiter for awaited, awaiter in b.callbacks if awaited == promise_id} - {execution}
        registered = registered and bool(others)
    pending = state == "pending" and (created == now or scheduled) and now < deadline
    dead = (
        state == state_at_timeout(new) and settled == deadline <= now and (created == deadline or scheduled)
    )
    replaced = scheduled and state == "rejected_canceled" and settled == now
    recorded = created == settled == now < deadline and state not in ("pending", "rejected_timedout")
    is_plain = is_empty(new["value"]) or is_kept_record(new)
    if registered or not (recorded or (is_plain and (pending or dead or replaced))):
        yield f"89 {who}: an impossible birth"
    if registered and any(awaited == promise_id for awaited, _ in b.callbacks):
        yield f"57 {who}: born with callbacks"


def _task_steps(
    a: Snapshot, b: Snapshot, again: frozenset[str], now: int, retry_ms: int, *, background: bool
) -> Iterator[str]:
    for task_id, old in a.tasks.items():
        new = b.tasks.get(task_id)
        if task_id in again or is_superseded(a.promises[task_id]):
            continue
        if new is None:
            if not _is_below(task_id, again):
                yield f"49 task {task_id}: vanished"
            continue
        timers_same = a.retries.get(task_id) == b.retries.get(task_id) and a.leases.get(
            task_id
        ) == b.leases.get(task_id)
        if (new is not old and new != old) or not timers_same:
            yield from _task_change(a, b, old, new, now, retry_ms, background=background)
        yield from _settled_together(a, b, task_id, old, new)
    for task_id, new in b.tasks.items():
        if task_id not in a.tasks:
            yield from _task_birth(a, b, new, now, retry_ms)
    for promise_id in b.promises:
        if promise_id not in a.promises and promise_id in a.tasks:
            yield f"73 task {promise_id}: older than its promise"


def _settled_together(a: Snapshot, b: Snapshot, task_id: str, old: Json, new: Json) -> Iterator[str]:
    was, became = a.promises.get(task_id), b.promises.get(task_id)
    settles = bool(was and became and was["state"] == "pending" and became["state"] != "pending")
    if settles and new["state"] != "fulfilled":
        yield f"66 task {task_id}: {new['state']} though its promise settled in this step"
    if old["state"] != "fulfilled" and new["state"] == "fulfilled" and not settles:
        yield f"67 task {task_id}: fulfilled though its promise did not settle in this step"


def _task_change(
    a: Snapshot, b: Snapshot, old: Json, new: Json, now: int, retry_ms: int, *, background: bool
) -> Iterator[str]:
    task_id, was, became = old["id"], old["state"], new["state"]
    who = f"task {task_id}"
    raised = new["version"] - old["version"]
    retry, lease = b.retries.get(task_id), b.leases.get(task_id)
    promise = b.promises.get(task_id)
    if raised != (was == "pending" and became == "acquired"):
        yield f"50 {who}: version by {raised} from {was} to {became}"
    if was == "fulfilled":
        yield f"51 {who}: changed after it was fulfilled"
    if became not in EDGES[was]:
        yield f"62 {who}: the edge {was} to {became}"
    if became == "acquired" and was not in ("pending", "acquired"):
        yield f"63 {who}: acquired from {was}"
    if became == "suspended" and was not in ("acquired", "suspended"):
        yield f"64 {who}: suspended from {was}"
    if was == "halted" and became not in ("halted", "pending", "fulfilled"):
        yield f"65 {who}: halted to {became}"
    if was == "acquired" != became and ("pid" in new or "ttl" in new or lease is not None or raised):
        yield f"80 {who}: left acquired but kept a lease or changed its version"
    if was == became == "acquired" and not raised:
        same_holder = old.get("pid") == new.get("pid") and old.get("ttl") == new.get("ttl")
        if not same_holder:
            yield f"81 {who}: another holder at the same version"
        if not same_holder and lease == a.leases.get(task_id):
            yield f"82 {who}: holder changed without the lease"
        if same_holder and (lease or 0) < a.leases.get(task_id, 0):
            yield f"82 {who}: lease shortened"
    if lease is not None and lease != a.leases.get(task_id) and lease != now + new.get("ttl", 0):
        yield f"91 {who}: lease {lease} is not now + ttl"
    if new["resumes"] < old["resumes"] and new["resumes"]:
        yield f"83 {who}: resumes shrank to {new['resumes']}"
    if old["resumes"] and not new["resumes"] and became not in ("acquired", "suspended", "fulfilled"):
        yield f"84 {who}: resumes emptied while {became}"
    if became == "acquired" and was != "acquired":
        full = "pid" in new and "ttl" in new and lease == now + new["ttl"]
        if was != "pending" or raised != 1 or not full or retry is not None or new["resumes"]:
            yield f"90 {who}: acquired in an impossible way"
    awaits = any(awaiter == task_id and b.live(awaited, now) for awaited, awaiter in b.callbacks)
    if became == "suspended" != was and not awaits:
        yield f"72 {who}: suspended without a callback on a pending promise"
    if became == "pending" and was != "pending" and promise is not None:
        yield from _enters_pending(a, b, old, new, promise, now, retry_ms, background=background)
    if was == became == "pending" and retry != a.retries.get(task_id):
        if a.retries.get(task_id, now) > now:
            yield f"93 {who}: retry changed before it was due"
        if retry is None or retry <= now:
            yield f"94 {who}: re-armed at {retry}, not in the future"


def _enters_pending(
    a: Snapshot,
    b: Snapshot,
    old: Json,
    new: Json,
    promise: Json,
    now: int,
    retry_ms: int,
    *,
    background: bool,
) -> Iterator[str]:
    task_id = old["id"]
    who = f"task {task_id}"
    retry = b.retries.get(task_id)
    if promise["timeoutAt"] <= now:
        yield f"85 {who}: pending past its deadline"
    if is_timer(promise):
        armed = retry == promise["timeoutAt"]
    elif old["state"] == "acquired" and not background:
        armed = retry is not None and retry > now  # released: perhaps parked
    else:
        armed = retry == now + retry_ms and _offered(b, new)
        if old["state"] == "acquired" and _counts_crashes(promise):  # perhaps not its first: it rests
            armed = armed or (retry is not None and retry - now in RESTS_MS)
    if not armed:
        yield f"92 {who}: entered pending with retry {retry} and no offer to match"
    if old["state"] == "suspended":
        consumed = any(awaiter == task_id for _, awaiter in a.callbacks.keys() - b.callbacks.keys())
        if not consumed and not _was_asked_to_cancel(a, b, task_id):
            yield f"71 {who}: woken without a consumed callback"
        if new["resumes"] < 1 or retry is None or new["version"] != old["version"]:
            yield f"95 {who}: woken without resumes, retry or at another version"


def _was_asked_to_cancel(a: Snapshot, b: Snapshot, task_id: str) -> bool:
    """In this step: the promise that asks is awaited and resolved at once."""
    name = f"{task_id}{'.' if ':' in task_id else ':'}cancel"
    was, became = a.promises.get(name, {"state": "pending"}), b.promises.get(name, {"state": "pending"})
    return bool(was["state"] == "pending" != became["state"])


def _offered(b: Snapshot, task: Json) -> bool:
    entry = b.offers.get(task["id"])
    return entry is not None and entry["message"]["data"]["task"]["version"] == task["version"]


def _task_birth(a: Snapshot, b: Snapshot, new: Json, now: int, retry_ms: int) -> Iterator[str]:
    task_id, state, version = new["id"], new["state"], new["version"]
    who = f"task {task_id}"
    promise = b.promises.get(task_id)
    if state == "suspended":
        yield f"64 {who}: born suspended"
    versions = {"pending": version == 0, "acquired": version >= 1, "fulfilled": version == 0}
    if task_id in a.promises or promise is None or not versions.get(state, False):
        yield f"73 {who}: born {state} at version {version}, or apart from its promise"
    retry, lease = b.retries.get(task_id), b.leases.get(task_id)
    held = "pid" in new and "ttl" in new and lease == now + new["ttl"]
    bare = "pid" not in new and "ttl" not in new and lease is None
    shapes = {
        "pending": bare and retry is not None and retry > now,
        "acquired": held and retry is None,
        "fulfilled": bare and retry is None,
    }
    if new["resumes"] or not shapes.get(state, False):
        yield f"79 {who}: born {state} in an impossible shape"
    if state == "pending" and promise is not None:
        if promise["timeoutAt"] <= now:
            yield f"85 {who}: born pending past its deadline"
        delay = int(promise["tags"].get("resonate:delay", 0))
        if is_timer(promise):
            armed = retry == promise["timeoutAt"]
        elif delay > now:
            armed = retry == delay
        else:
            armed = retry == now + retry_ms and _offered(b, new)
        if not armed:
            yield f"92 {who}: born pending with retry {retry} and no offer to match"


def _consumption_steps(a: Snapshot, b: Snapshot, again: frozenset[str], now: int) -> Iterator[str]:
    consumed: dict[str, int] = {}
    for awaited, awaiter in a.callbacks:
        if (awaited, awaiter) in b.callbacks:
            continue
        if awaiter in again or _is_below(awaiter, again) or _was_superseded(a, awaiter):
            continue  # it waits for nothing any more
        consumed[awaiter] = consumed.get(awaiter, 0) + 1
        left = has_left(a, b, awaiter) or has_left_lock(a, b, awaited, awaiter)
        if awaited not in again and _pending(b, awaited) and not left:
            yield f"57 callback {awaiter} on {awaited}: lost while pending"
            yield f"68 callback {awaiter} on {awaited}: removed from a pending promise"
    for awaiter, count in consumed.items():
        old, new = a.tasks.get(awaiter), b.tasks.get(awaiter)
        if awaiter in again:
            continue
        if old and new and b.live(awaiter, now) and new["resumes"] != old["resumes"] + count:
            yield f"69 task {awaiter}: {count} consumed, resumes {old['resumes']} to {new['resumes']}"
    for awaited, awaiter in b.callbacks:
        if (awaited, awaiter) not in a.callbacks and not _pending(b, awaited):
            yield f"58 callback {awaiter} on {awaited}: added to a settled promise"
    for promise_id, address in a.listeners:
        if (promise_id, address) in b.listeners:
            continue
        if promise_id.endswith("cancel") and (promise_id not in b.promises or promise_id in again):
            continue  # as above: nobody is to be told of what was not asked
        if promise_id not in again and _pending(b, promise_id):
            yield f"59 listener {address} of {promise_id}: lost while pending"
            yield f"68 listener {address} of {promise_id}: removed from a pending promise"
        elif (promise_id, address) not in b.notices:
            yield f"70 listener {address} of {promise_id}: consumed without its unblock"
    for promise_id, address in b.listeners:
        if (promise_id, address) not in a.listeners and not _pending(b, promise_id):
            yield f"60 listener {address} of {promise_id}: added to a settled promise"


def _pending(s: Snapshot, promise_id: str) -> bool:
    promise = s.promises.get(promise_id)
    return promise is not None and promise["state"] == "pending"


def _message_steps(
    a: Snapshot, b: Snapshot, again: frozenset[str], now: int, *, delivering: bool
) -> Iterator[str]:
    if not delivering:
        for key in (*(a.offers.keys() - b.offers.keys()), *(a.notices.keys() - b.notices.keys())):
            yield f"74 message {key}: vanished"
    for task_id, entry in b.offers.items():
        old = a.offers.get(task_id)
        if old is entry or old == entry:
            continue
        task, promise = b.tasks.get(task_id), b.promises.get(task_id)
        if task is None or promise is None:
            yield f"39 execute {task_id}: no such task"
            continue
        if entry["message"]["data"]["task"]["version"] != task["version"] or (
            entry["address"] != possible_target(promise)
        ):
            yield f"75 execute {task_id}: not the task's version and target"
        if promise["timeoutAt"] <= now:
            yield f"86 execute {task_id}: sent past the deadline"
    for (promise_id, address), entry in b.notices.items():
        if (promise_id, address) in a.notices:
            continue
        promise = b.promises.get(promise_id)
        if promise_id in again or _is_below(promise_id, again):
            continue  # it has ended, and begins again or is gone
        if promise is None and promise_id in a.promises and may_vanish(a, b, promise_id):
            continue
        if promise is None or promise["state"] == "pending":
            yield f"42 unblock {promise_id}: not about a settled promise"
        elif not same_record(promise, entry["message"]["data"]["promise"]):
            yield f"76 unblock {promise_id}: not the stored record"
        if (promise_id, address) not in a.listeners or (promise_id, address) in b.listeners:
            yield f"77 unblock {promise_id} to {address}: no listener was consumed"


def _schedule_steps(a: Snapshot, b: Snapshot, *, background: bool) -> Iterator[str]:
    for schedule_id, old in a.schedules.items():
        new = b.schedules.get(schedule_id)
        if new is None:
            continue
        kept = SCHEDULE_DEFINITION if background else ("createdAt",)
        if any(old.get(name) != new.get(name) for name in kept):
            yield f"78 schedule {schedule_id}: its definition changed"
        if background and (old.get("pausedAt") != new.get("pausedAt") or ("pausedAt" in old and old != new)):
            yield f"106 schedule {schedule_id}: a background step paused, resumed or fired a paused one"
        if new.get("lastRunAt", 0) < old.get("lastRunAt", 0):
            yield f"107 schedule {schedule_id}: its last run lies before the one it had"


def _counts_crashes(promise: Json) -> bool:
    return "holdfast:crashes" in promise["tags"] or "holdfast:workflow" in promise["tags"]


def _is_stuck(b: Snapshot, task_id: str) -> bool:
    """An execution of a workflow whose worker died too often is halted by the node itself."""
    return _counts_crashes(b.promises[task_id]) and b.tasks[task_id].get("halted", {}).get("code") == "HF1408"


def _background_steps(a: Snapshot, b: Snapshot) -> Iterator[str]:
    for task_id, new in b.tasks.items():
        old = a.tasks.get(task_id)
        allowed = ("pending", "fulfilled") if old is None else BACKGROUND_EDGES[old["state"]]
        if old is not None and old["state"] == "acquired" and _is_stuck(b, task_id):
            allowed = (*allowed, "halted")
        if new["state"] not in allowed or (old is not None and old["version"] != new["version"]):
            yield f"96 task {task_id}: a background step made it {new['state']}"
    for promise_id, new in b.promises.items():
        old = a.promises.get(promise_id)
        if new["state"] == "pending" or (old is not None and old["state"] != "pending"):
            continue
        replaced = new["state"] == "rejected_canceled" and (
            "resonate:schedule" in new["tags"] or ended_with_execution(a, b, new)
        )
        if new.get("settledAt") != new["timeoutAt"] and not (replaced or was_granted(new)):
            yield f"97 promise {promise_id}: settled in the background before its deadline"
