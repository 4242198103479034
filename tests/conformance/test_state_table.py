"""Every operation in every state of a task, in both dialects: the whole table, cell by cell.

The task stands at version 1 in each state. The last column is a task whose promise is past its timeout with
nobody having written that down: it behaves as fulfilled.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import FAR, MINUTE, T0, WORKERS, A, Answer, B, Wire, creation

STATES = ["absent", "pending", "acquired", "suspended", "halted", "fulfilled", "expired"]
DEADLINE = T0 + 10 * MINUTE


def begin(wire: Wire) -> None:
    """Nothing is stored, and the clock stands where it stood."""
    wire.now, wire.version = T0, A
    wire.send("debug.reset", {})


def reach(wire: Wire, state: str) -> None:
    wire.create("open")
    wire.create("done")
    wire.settle("done")
    if state == "absent":
        return
    wire.acquired("t", timeout_at=DEADLINE if state == "expired" else FAR)
    if state == "pending":
        wire.release("t")
    elif state == "suspended":
        wire.suspend("t", "open")
    elif state == "halted":
        wire.halt("t")
    elif state == "fulfilled":
        wire.fulfill("t")
    elif state == "expired":
        wire.heartbeat(("t", 1))
        wire.now = DEADLINE


OPERATIONS: dict[str, tuple[Callable[[Wire], Answer], list[int]]] = {
    "get": (lambda wire: wire.send("task.get", {"id": "t"}), [404, 200, 200, 200, 200, 200, 200]),
    "create": (lambda wire: wire.task_create("t"), [200, 200, 409, 409, 409, 200, 200]),
    "acquire, right version": (lambda wire: wire.acquire("t", 1), [404, 200, 409, 409, 409, 409, 409]),
    "acquire, old version": (lambda wire: wire.acquire("t", 0), [404, 409, 409, 409, 409, 409, 409]),
    "acquire, new version": (lambda wire: wire.acquire("t", 2), [404, 409, 409, 409, 409, 409, 409]),
    "suspend on an open one": (lambda wire: wire.suspend("t", "open"), [404, 409, 200, 409, 409, 409, 409]),
    "suspend on a settled one": (lambda wire: wire.suspend("t", "done"), [404, 409, 300, 409, 409, 409, 409]),
    "suspend on a missing one": (lambda wire: wire.suspend("t", "nope"), [404, 409, 422, 409, 409, 409, 409]),
    "suspend, wrong version": (
        lambda wire: wire.suspend("t", "open", version=2),
        [404, 409, 409, 409, 409, 409, 409],
    ),
    "fence": (
        lambda wire: wire.fence("t", "promise.create", creation("x")),
        [404, 409, 200, 409, 409, 409, 409],
    ),
    "fence, wrong version": (
        lambda wire: wire.fence("t", "promise.create", creation("x"), 0),
        [404, 409, 409, 409, 409, 409, 409],
    ),
    "fulfill": (lambda wire: wire.fulfill("t"), [404, 409, 200, 409, 409, 409, 409]),
    "fulfill, wrong version": (lambda wire: wire.fulfill("t", 0), [404, 409, 409, 409, 409, 409, 409]),
    "release": (lambda wire: wire.release("t"), [404, 409, 200, 409, 409, 409, 409]),
    "release, wrong version": (lambda wire: wire.release("t", 2), [404, 409, 409, 409, 409, 409, 409]),
    "release with a retry": (
        lambda wire: wire.release("t", retry={"delay": 5}),
        [404, 409, 200, 409, 409, 409, 409],
    ),
    "start": (lambda wire: wire.start("t"), [404, 409, 200, 409, 409, 409, 409]),
    "start, wrong version": (lambda wire: wire.start("t", 0), [404, 409, 409, 409, 409, 409, 409]),
    "heartbeat": (lambda wire: wire.heartbeat(("t", 1)), [200, 200, 200, 200, 200, 200, 200]),
    "halt": (lambda wire: wire.halt("t"), [404, 200, 200, 200, 200, 409, 409]),
    "continue": (lambda wire: wire.resume("t"), [404, 409, 409, 409, 200, 409, 409]),
    "settle": (lambda wire: wire.settle("t"), [404, 200, 200, 200, 200, 200, 200]),
}

SPECIFICATION_DIFFERS = {
    "create": [200, 200, 200, 200, 200, 200, 200],
    "fulfill": [404, 409, 200, 409, 409, 200, 200],
}

ROWS = [(dialect, operation) for dialect in (A, B) for operation in OPERATIONS]

CHANGES = {
    ("create", "absent"),
    ("create", "pending"),
    ("acquire, right version", "pending"),
    ("suspend on an open one", "acquired"),
    ("fence", "acquired"),
    ("fulfill", "acquired"),
    ("release", "acquired"),
    ("release with a retry", "acquired"),
    ("start", "acquired"),
    ("heartbeat", "acquired"),
    ("halt", "pending"),
    ("halt", "acquired"),
    ("halt", "suspended"),
    ("continue", "halted"),
    ("settle", "pending"),
    ("settle", "acquired"),
    ("settle", "suspended"),
    ("settle", "halted"),
}


@pytest.mark.parametrize(("dialect", "operation"), ROWS)
def test_each_operation_in_each_state_has_its_status_and_changes_something_or_nothing(
    wire: Wire, dialect: str, operation: str
) -> None:
    request, statuses = OPERATIONS[operation]
    if dialect == B:
        statuses = SPECIFICATION_DIFFERS.get(operation, statuses)
    for state, status in zip(STATES, statuses, strict=True):
        begin(wire)
        reach(wire, state)
        wire.now += state != "expired"
        wire.version = dialect
        before = wire.snap()
        assert request(wire).status == status, state
        expected = (operation, state) in CHANGES
        if dialect == B and (operation, state) == ("create", "pending"):
            expected = False
        assert (wire.snap() != before) == expected, state


TASK_AFTER = {
    "create": ("acquired", 2),
    "acquire, right version": ("acquired", 2),
    "suspend on an open one": ("suspended", 1),
    "suspend on a settled one": ("acquired", 1),
    "fence": ("acquired", 1),
    "fulfill": ("fulfilled", 1),
    "release": ("pending", 1),
    "release with a retry": ("pending", 1),
    "start": ("acquired", 1),
    "heartbeat": ("acquired", 1),
    "halt": ("halted", 1),
    "continue": ("pending", 1),
    "settle": ("fulfilled", 1),
}


@pytest.mark.parametrize(
    ("operation", "state"), sorted((operation, state) for operation, state in CHANGES if state != "absent")
)
def test_each_change_leads_to_one_state_and_version(wire: Wire, operation: str, state: str) -> None:
    reach(wire, state)
    OPERATIONS[operation][0](wire)
    task = wire.task("t")
    assert (task["state"], task["version"]) == TASK_AFTER[operation]


@pytest.mark.parametrize("state", STATES)
def test_a_claim_takes_only_a_pending_task(wire: Wire, state: str) -> None:
    reach(wire, state)
    taken = wire.claim("workers", count=10)
    assert [item["task"]["id"] for item in taken] == (["t"] if state == "pending" else [])


@pytest.mark.parametrize("state", STATES)
def test_an_empty_heartbeat_keeps_only_an_acquired_task(wire: Wire, state: str) -> None:
    reach(wire, state)
    wire.now += 1
    before = wire.snap()
    assert wire.heartbeat().data == {}
    assert (wire.snap() != before) == (state == "acquired")


def test_every_column_starts_at_version_one(wire: Wire) -> None:
    for state in STATES[1:]:
        begin(wire)
        reach(wire, state)
        assert wire.stored("tasks", "t")["version"] == 1
        assert wire.get("t").promise["tags"]["resonate:target"] == WORKERS
