"""Many at once: the rules hold for hundreds of records in one request, one array or one sweep."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.conformance.wire import (
    CLIENT,
    DAY,
    FAR,
    MINUTE,
    RETRY_MS,
    SECOND,
    T0,
    WORKERS,
    Json,
    Wire,
    creation,
    ids,
    suspension,
)

MANY = 300


def names(letter: str, count: int = MANY) -> list[str]:
    return [f"{letter}{number:04}" for number in range(count)]


def create_all(wire: Wire, wanted: list[str], **more: Any) -> None:
    for start in range(0, len(wanted), 1_000):
        requests: list[tuple[str, Json]] = [
            ("promise.create", creation(name, **more)) for name in wanted[start : start + 1_000]
        ]
        assert {answer.status for answer in wire.batch(*requests)} == {200}


def states(wire: Wire, table: str, letter: str) -> set[str]:
    found = [record for record in wire.snap()[table] if record["id"].startswith(letter)]
    assert len(found) >= MANY
    return {record["state"] for record in found}


def test_many_promises_expire_in_one_sweep(wire: Wire) -> None:
    create_all(wire, names("t"), target=WORKERS, timeout_at=T0 + 10)
    wire.tick(T0 + 10)
    assert states(wire, "promises", "t") == {"rejected_timedout"}
    assert states(wire, "tasks", "t") == {"fulfilled"}


def test_many_leases_lapse_in_one_sweep(wire: Wire) -> None:
    create_all(wire, names("t"), target=WORKERS)
    assert len(wire.claim(count=MANY)) == MANY
    wire.tick(T0 + MINUTE)
    assert states(wire, "tasks", "t") == {"pending"}
    assert {row["timeout"] for row in wire.snap()["taskTimeouts"]} == {T0 + MINUTE + RETRY_MS}


def test_many_retries_fall_due_in_one_sweep(wire: Wire) -> None:
    create_all(wire, names("t"), target=WORKERS)
    wire.tick(T0 + RETRY_MS)
    assert {row["timeout"] for row in wire.snap()["taskTimeouts"]} == {T0 + 2 * RETRY_MS}


def test_one_settlement_wakes_many(wire: Wire) -> None:
    wire.create("dep")
    create_all(wire, names("t"), target=WORKERS)
    wire.claim(count=MANY)
    requests: list[tuple[str, Json]] = [("task.suspend", suspension(name, "dep")) for name in names("t")]
    assert {answer.status for answer in wire.batch(*requests)} == {200}
    wire.settle("dep")
    assert states(wire, "tasks", "t") == {"pending"}
    assert wire.snap()["callbacks"] == []


def test_one_settlement_tells_many(wire: Wire) -> None:
    wire.create("p")
    addresses = [f"poll://uni@clients/{number}" for number in range(MANY)]
    requests: list[tuple[str, Json]] = [
        ("promise.register_listener", {"awaited": "p", "address": address}) for address in addresses
    ]
    wire.batch(*requests)
    wire.settle("p")
    assert sorted(row["address"] for row in wire.snap()["messages"]) == sorted(addresses)


def test_one_task_awaits_many_and_any_of_them_wakes_it(wire: Wire) -> None:
    awaited = names("p", 2_000)
    create_all(wire, awaited)
    wire.acquired("t")
    assert wire.suspend("t", *awaited).status == 200
    assert len(wire.snap()["callbacks"]) == 2_000
    wire.settle(awaited[-1])
    assert wire.task("t")["state"] == "pending"
    assert len(wire.snap()["callbacks"]) == 1_999


def test_many_awaited_promises_of_one_task_expire_in_one_sweep(wire: Wire) -> None:
    create_all(wire, names("p"), timeout_at=T0 + 10)
    wire.acquired("t")
    wire.suspend("t", *names("p"))
    wire.tick(T0 + 10)
    task = wire.task("t")
    assert (task["state"], task["resumes"]) == ("pending", MANY)


def test_a_long_chain_of_awaiters_that_expire_together_ends_quietly(wire: Wire) -> None:
    chain = names("t")
    create_all(wire, chain, target=WORKERS, timeout_at=T0 + 10)
    wire.claim(count=MANY)
    requests: list[tuple[str, Json]] = [
        ("task.suspend", suspension(waiter, waited)) for waiter, waited in pairwise(chain)
    ]
    wire.batch(*requests)
    before = len(wire.messages())
    wire.tick(T0 + 10)
    assert states(wire, "tasks", "t") == {"fulfilled"}
    assert len(wire.messages()) == before


def test_one_array_may_build_and_settle_a_long_chain(wire: Wire) -> None:
    requests: list[tuple[str, Json]] = []
    for name in names("t"):
        requests.append(("promise.create", creation(name, target=WORKERS)))
        requests.append(("task.acquire", {"id": name, "version": 0, "pid": "p", "ttl": MINUTE}))
        requests.append(("promise.settle", {"id": name, "state": "resolved"}))
    assert {answer.status for answer in wire.batch(*requests)} == {200}
    assert states(wire, "tasks", "t") == {"fulfilled"}


@pytest.mark.slow
def test_one_heartbeat_keeps_thousands(wire: Wire) -> None:
    wanted = names("t", 2_000)
    create_all(wire, wanted, target=WORKERS)
    wire.claim(count=1_000)
    wire.claim(count=1_000)
    wire.now = T0 + SECOND
    assert wire.heartbeat(*((name, 1) for name in wanted)).data == {}
    assert {row["timeout"] for row in wire.snap()["taskTimeouts"]} == {T0 + SECOND + MINUTE}


def test_an_empty_heartbeat_keeps_thousands(wire: Wire) -> None:
    create_all(wire, names("t", 1_000), target=WORKERS)
    wire.claim(count=1_000)
    wire.now = T0 + SECOND
    wire.heartbeat()
    assert {row["timeout"] for row in wire.snap()["taskTimeouts"]} == {T0 + SECOND + MINUTE}


def test_a_large_branch_is_preloaded_whole(wire: Wire) -> None:
    create_all(wire, names("t"), tags={"resonate:branch": "root"})
    wire.create("root", target=WORKERS, tags={"resonate:branch": "root"})
    assert ids(wire.acquire("root").data["preload"]) == names("t")


@pytest.mark.slow
def test_one_claim_is_given_hundreds_that_have_continued_as_new(wire: Wire) -> None:
    """Each shows a branch of its own, and beside that whether it was asked to cancel."""
    wanted = names("t", 600)
    made = [
        ("promise.create", creation(name, target=WORKERS, tags={"resonate:branch": name})) for name in wanted
    ]
    assert {answer.status for answer in wire.batch(*made)} == {200}
    assert len(wire.claim(count=1_000)) == len(wanted)
    again: list[tuple[str, Json]] = []
    for name in wanted:
        again.append(("task.restart", {"id": name, "version": 1, "generation": 0, "param": {}}))
        again.append(("task.release", {"id": name, "version": 1}))
    answers = [answer for start in (0, 600) for answer in wire.batch(*again[start : start + 600])]
    assert {answer.status for answer in answers} == {200}
    wire.tick(T0 + MINUTE)
    assert sorted(each["task"]["id"] for each in wire.claim(count=1_000)) == wanted


def test_several_schedules_catch_up_in_one_sweep(wire: Wire) -> None:
    for number in range(3):
        wire.schedule(f"s{number}", promiseTimeout=DAY)
    wire.tick(T0 + 120 * MINUTE)
    assert len(wire.snap()["promises"]) == 300


def test_a_sweep_does_everything_else_beside_a_long_catch_up(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=DAY, catchUp=1_000)
    wire.create("p", timeout_at=T0 + MINUTE, target=WORKERS)
    wire.listen("p", CLIENT)
    wire.tick(T0 + 1_000 * MINUTE)
    assert len(wire.snap()["promises"]) == 1_001
    assert wire.stored("promises", "p")["state"] == "rejected_timedout"


def test_a_long_catch_up_with_replace_leaves_one_pending(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=DAY, overlap="replace")
    wire.tick(T0 + 100 * MINUTE)
    found = [promise["state"] for promise in wire.snap()["promises"]]
    assert found == ["rejected_canceled"] * 99 + ["pending"]


def test_pages_through_a_thousand_promises_miss_none(wire: Wire) -> None:
    wanted = names("p", 1_000)
    create_all(wire, wanted, timeout_at=FAR)
    seen: list[str] = []
    query: Json = {"limit": 333}
    while True:
        data = wire.send("promise.search", query).data
        seen += ids(data["promises"])
        if "cursor" not in data:
            break
        query = {"limit": 333, "cursor": data["cursor"]}
    assert seen == wanted
