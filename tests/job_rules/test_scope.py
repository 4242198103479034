"""A caller whose token covers a prefix is given nothing else, and learns of nothing else."""

from __future__ import annotations

import pytest

from tests.conformance.wire import WORKERS
from tests.job_rules.wire import JobWire, job_creation

NAMES = ["b:1", "admin:1", "a:1", "a", "ab", "a-x", "b:a", "a.1", "a/1"]


@pytest.mark.parametrize(
    ("scope", "covered"),
    [("a", ["a:1", "a", "a-x", "a.1", "a/1"]), ("a:", ["a:1"]), ("b", ["b:1", "b:a"]), ("c", [])],
)
def test_a_claim_is_granted_only_what_its_scope_covers(wire: JobWire, scope: str, covered: list[str]) -> None:
    for number, name in enumerate(NAMES):
        wire.now += 1
        wire.enqueue(name, key=str(number))
    with wire.within(scope):
        assert wire.take(9) == covered
    assert wire.take(9) == [name for name in NAMES if name not in covered]


def test_what_is_foreign_does_not_stand_in_the_way_of_a_claim(wire: JobWire) -> None:
    for number in range(30):
        wire.enqueue(f"b:{number}", priority=1)
    wire.enqueue("a:1")
    with wire.within("a"):
        assert wire.take(1) == ["a:1"]


def test_a_scope_holds_beside_the_limits_of_a_queue(wire: JobWire) -> None:
    wire.limit(keyConcurrency=1)
    for name in ("a:1", "a:2", "b:1", "a:3"):
        wire.now += 1
        wire.enqueue(name, key="k" if name < "a:3" else "l")
    with wire.within("a"):
        assert wire.take(9) == ["a:1", "a:3"]


@pytest.mark.parametrize("policy", ["existing", "reject", "replace", "debounce"])
@pytest.mark.parametrize("running", [False, True])
def test_a_foreign_holder_of_a_unique_key_is_neither_shown_nor_touched(
    wire: JobWire, policy: str, running: bool
) -> None:
    wire.enqueue("b:secret", unique="k")
    if running:
        wire.take(start=True)
    before = wire.task("b:secret")
    with wire.within("a"):
        answer = wire.enqueue("a:1", unique="k", onUnique=policy)
    assert (answer.status, "[HF1204]" in answer.data, "secret" in answer.data) == (409, True, False)
    assert wire.task("b:secret") == before
    assert wire.send("promise.get", {"id": "a:1"}).status == 404


def test_a_holder_within_the_scope_is_treated_as_ever(wire: JobWire) -> None:
    wire.enqueue("a:1", unique="k")
    with wire.within("a"):
        assert wire.enqueue("a:2", unique="k").promise["id"] == "a:1"
        assert wire.enqueue("a:3", unique="k", onUnique="replace").promise["id"] == "a:3"


def test_inside_a_fence_a_foreign_holder_is_not_shown_either(wire: JobWire) -> None:
    wire.enqueue("b:secret", unique="k")
    wire.create("a:0", target=WORKERS)
    wire.send("task.acquire", {"id": "a:0", "version": 0, "pid": "p", "ttl": 1_000})
    action = {"kind": "promise.create", "head": {}, "data": job_creation("a:1", unique="k")}
    with wire.within("a"):
        inner = wire.send("task.fence", {"id": "a:0", "version": 1, "action": action}).data["action"]
    assert (inner["head"]["status"], "secret" in inner["data"]) == (409, False)
