"""Locks that executions share. Each sentence of docs/reference/protocol.md about them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.conformance.test_streams import fenced, is_refused
from tests.conformance.wire import FAR, HOUR, MINUTE, T0, Answer, Json, Wire, sub, suspension

OVER = {"headers": {"holdfast-code": "HF1402"}}


def executions(wire: Wire, *names: str, **more: Any) -> None:
    for name in names:
        wire.acquired(name, **more)


def acquire(wire: Wire, execution: str, ticket: str, name: str = "printer", **more: Any) -> Answer:
    data = {"id": ticket, "name": name, "timeoutAt": FAR, **more}
    return fenced(wire, "lock.acquire", data, execution)


def hold(wire: Wire, execution: str, ticket: str, name: str = "printer", **more: Any) -> int:
    """Ask for a lock that is free; the token."""
    answer = acquire(wire, execution, ticket, name, **more)
    assert (answer.status, answer.promise["state"]) == (200, "resolved"), answer
    return int(answer.promise["value"]["headers"]["holdfast:token"])


def wait(wire: Wire, execution: str, ticket: str, name: str = "printer", **more: Any) -> None:
    answer = acquire(wire, execution, ticket, name, **more)
    assert (answer.status, answer.promise["state"]) == (200, "pending"), answer


def release(wire: Wire, execution: str, ticket: str, name: str = "printer") -> Answer:
    return fenced(wire, "lock.release", {"name": name, "id": ticket}, execution)


def lock(wire: Wire, name: str = "printer") -> Json:
    answer = wire.send("lock.get", {"name": name})
    assert answer.status == 200, answer
    found: Json = answer.data["lock"]
    return found


def tickets(wire: Wire, part: str, name: str = "printer") -> list[str]:
    return [ticket["id"] for ticket in lock(wire, name).get(part, [])]


def token_of(wire: Wire, ticket: str) -> int:
    return int(wire.get(ticket).promise["value"]["headers"]["holdfast:token"])


# -- holding ----------------------------------------------------------------------------------------------


def test_who_asks_for_a_free_lock_holds_it_at_once_and_gets_a_token(wire: Wire) -> None:
    executions(wire, "a")
    token = hold(wire, "a", "a:1")
    assert token >= T0
    holder = {"id": "a:1", "execution": "a", "since": T0, "token": token}
    assert lock(wire) == {"name": "printer", "limit": 1, "token": token, "holders": [holder]}


def test_a_second_execution_waits_and_is_granted_in_the_commit_of_the_release(wire: Wire) -> None:
    executions(wire, "a", "b")
    first = hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    assert wire.suspend("b", "b:1").status == 200
    assert release(wire, "a", "a:1").status == 200
    assert wire.get("b:1").promise["state"] == "resolved"
    assert token_of(wire, "b:1") > first
    assert tickets(wire, "holders") == ["b:1"]
    assert wire.task("b")["state"] == "pending"


def test_a_lock_is_granted_in_the_order_in_which_it_was_asked_for(wire: Wire) -> None:
    executions(wire, "h", "z", "m", "a")
    hold(wire, "h", "h:1")
    for name in ("z", "m", "a"):
        wait(wire, name, f"{name}:1")
    tokens = [token_of(wire, "h:1")]
    for leaves, next_one in (("h", "z"), ("z", "m"), ("m", "a")):
        release(wire, leaves, f"{leaves}:1")
        assert tickets(wire, "holders") == [f"{next_one}:1"]
        tokens.append(token_of(wire, f"{next_one}:1"))
    assert tokens == sorted(set(tokens))


def test_tokens_rise_within_one_instant(wire: Wire) -> None:
    executions(wire, "a")
    tokens: list[int] = []
    for number in range(5):
        tokens.append(hold(wire, "a", f"a:{number}"))
        release(wire, "a", f"a:{number}")
    assert tokens == sorted(set(tokens))


def test_asking_twice_with_one_ticket_is_asking_once(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    assert acquire(wire, "a", "a:1").promise == wire.get("a:1").promise
    wait(wire, "b", "b:1")
    wait(wire, "b", "b:1")
    assert tickets(wire, "waiters") == ["b:1"]


def test_a_ticket_cannot_have_the_id_of_another_promise(wire: Wire) -> None:
    executions(wire, "a")
    wire.create("other")
    assert is_refused(acquire(wire, "a", "other"), 409, "HF1202")
    hold(wire, "a", "a:1")
    assert is_refused(acquire(wire, "a", "a:1", "scanner"), 409, "HF1202")


def test_releasing_twice_is_releasing_once(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    release(wire, "a", "a:1")
    assert release(wire, "a", "a:1").status == 200
    assert tickets(wire, "holders") == ["b:1"]


def test_a_lock_that_is_taken_again_in_the_commit_of_its_release_ends_with_its_holder(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    fence = {"id": "a", "version": 1}
    again = {"id": "a:2", "name": "printer", "timeoutAt": FAR}
    wire.batch(
        ("task.fence", {**fence, "action": sub("lock.release", {"name": "printer", "id": "a:1"})}),
        ("task.fence", {**fence, "action": sub("lock.acquire", again)}),
    )
    wait(wire, "b", "b:1")
    wire.fulfill("a")
    assert tickets(wire, "holders") == ["b:1"]


def test_nobody_releases_the_lock_of_another_execution(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    assert is_refused(release(wire, "b", "a:1"), 409, "HF1504")
    assert tickets(wire, "holders") == ["a:1"]


def test_nobody_acquires_without_the_claim(wire: Wire) -> None:
    executions(wire, "a")
    data = {"id": "a:1", "name": "printer", "timeoutAt": FAR}
    assert wire.fence("a", "lock.acquire", data, version=2).status == 409
    assert wire.send("lock.get", {"name": "printer"}).status == 404


def test_a_suspended_and_a_reclaimed_holder_go_on_holding(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    wire.create("dep")
    wire.suspend("a", "dep")
    wait(wire, "b", "b:1")
    assert tickets(wire, "holders") == ["a:1"]
    wire.settle("dep")
    assert wire.acquire("a", 1).status == 200
    wire.tick(T0 + 10 * MINUTE)  # the lease lapses
    assert tickets(wire, "holders") == ["a:1"]


def test_a_halted_holder_goes_on_holding(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    wire.halt("a")
    wait(wire, "b", "b:1")
    assert tickets(wire, "holders") == ["a:1"]


# -- permits ----------------------------------------------------------------------------------------------


def test_as_many_hold_it_as_there_are_permits(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", limit=2)
    hold(wire, "b", "b:1", limit=2)
    wait(wire, "c", "c:1", limit=2)
    release(wire, "b", "b:1")
    assert tickets(wire, "holders") == ["a:1", "c:1"]


def test_who_wants_several_permits_is_not_passed_by_who_wants_one(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", limit=3)
    wait(wire, "b", "b:1", limit=3, count=3)
    wait(wire, "c", "c:1", limit=3)
    release(wire, "a", "a:1")
    assert tickets(wire, "holders") == ["b:1"]
    release(wire, "b", "b:1")
    assert tickets(wire, "holders") == ["c:1"]


def test_when_who_wants_several_gives_up_those_behind_are_granted(wire: Wire) -> None:
    executions(wire, "a", "b", "c", "d")
    hold(wire, "a", "a:1", limit=3)
    wait(wire, "b", "b:1", limit=3, count=3)
    wait(wire, "c", "c:1", limit=3)
    wait(wire, "d", "d:1", limit=3)
    release(wire, "b", "b:1")
    assert wire.get("b:1").promise["state"] == "rejected_canceled"
    assert tickets(wire, "holders") == ["a:1", "c:1", "d:1"]


def test_one_name_has_one_limit_while_it_is_used(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1", limit=2)
    assert is_refused(acquire(wire, "b", "b:1", limit=3), 409, "HF1501")
    release(wire, "a", "a:1")
    hold(wire, "b", "b:1", limit=3)
    assert lock(wire)["limit"] == 3


def test_nobody_wants_more_permits_than_there_are(wire: Wire) -> None:
    executions(wire, "a")
    data = {"id": "a:1", "name": "gpu", "timeoutAt": FAR, "limit": 2, "count": 3}
    assert wire.fence("a", "lock.acquire", data).status == 400


@pytest.mark.slow
def test_a_lock_has_so_many_waiters_and_no_more(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    for number in range(1_000):
        wait(wire, "b", f"b:{number}")
    assert is_refused(acquire(wire, "b", "b:one-more"), 409, "HF1502")
    assert len(tickets(wire, "waiters")) == 1_000


# -- endings ----------------------------------------------------------------------------------------------


def test_a_lock_is_released_when_its_holder_ends_however_it_ends(wire: Wire) -> None:
    executions(wire, "a", "b", "c", "d", "e", "f")
    hold(wire, "a", "a:1")
    for name in "bcdef":
        wait(wire, name, f"{name}:1")
    wire.fulfill("a")
    assert tickets(wire, "holders") == ["b:1"]
    wire.fulfill("b", state="rejected")
    assert tickets(wire, "holders") == ["c:1"]
    wire.settle("c", "rejected_canceled")
    assert tickets(wire, "holders") == ["d:1"]
    wire.halt("d")
    wire.settle("d", "rejected")
    assert tickets(wire, "holders") == ["e:1"]


def test_a_lock_is_released_at_the_deadline_of_its_holder(wire: Wire) -> None:
    executions(wire, "a", timeout_at=T0 + MINUTE)
    executions(wire, "b")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    wire.tick(T0 + MINUTE)
    assert tickets(wire, "holders") == ["b:1"]
    assert wire.get("b:1").promise["settledAt"] == T0 + MINUTE


def test_the_tickets_of_an_execution_that_ends_leave_the_queue(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    wait(wire, "c", "c:1")
    wire.fulfill("b")
    assert tickets(wire, "waiters") == ["c:1"]
    ended = wire.get("b:1").promise
    assert (ended["state"], ended["value"]) == ("rejected_canceled", OVER)


def test_an_execution_that_ends_lets_go_of_all_its_locks(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    for name in ("one", "two", "three"):
        hold(wire, "a", f"a:{name}", name)
    wait(wire, "b", "b:1", "one")
    wait(wire, "c", "c:1", "three")
    wire.fulfill("a")
    assert tickets(wire, "holders", "one") == ["b:1"]
    assert tickets(wire, "holders", "two") == []
    assert tickets(wire, "holders", "three") == ["c:1"]


def test_a_ticket_that_waits_too_long_times_out_and_leaves(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", limit=2)
    wait(wire, "b", "b:1", limit=2, count=2, timeoutAt=T0 + MINUTE)
    wait(wire, "c", "c:1", limit=2)
    wire.tick(T0 + MINUTE)
    assert wire.get("b:1").promise["state"] == "rejected_timedout"
    assert tickets(wire, "holders") == ["a:1", "c:1"]


def test_a_ticket_past_its_deadline_is_not_granted_though_nothing_was_swept(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1", timeoutAt=T0 + MINUTE)
    wait(wire, "c", "c:1")
    wire.now = T0 + MINUTE
    wire.acquire("a", 1)
    wire.settle("a")
    assert tickets(wire, "holders") == ["c:1"]
    assert wire.get("b:1").promise["state"] == "rejected_timedout"


def test_a_ticket_asked_for_after_its_deadline_is_born_timed_out(wire: Wire) -> None:
    executions(wire, "a")
    answer = acquire(wire, "a", "a:1", timeoutAt=T0)
    assert answer.promise["state"] == "rejected_timedout"
    assert wire.send("lock.get", {"name": "printer"}).status == 404


def test_a_ticket_never_outlives_its_execution(wire: Wire) -> None:
    executions(wire, "a")
    executions(wire, "b", timeout_at=T0 + HOUR)
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    assert wire.get("b:1").promise["timeoutAt"] == T0 + HOUR


def test_a_ticket_that_somebody_settles_leaves_the_queue(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    wait(wire, "c", "c:1")
    wire.settle("b:1", "rejected_canceled")
    release(wire, "a", "a:1")
    assert tickets(wire, "holders") == ["c:1"]


# -- rings ------------------------------------------------------------------------------------------------


def test_who_would_close_a_ring_is_refused_and_told_of_it(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1", "one")
    hold(wire, "b", "b:1", "two")
    wait(wire, "a", "a:2", "two", holding=["a:1"])
    answer = acquire(wire, "b", "b:2", "one", holding=["b:1"])
    assert is_refused(answer, 409, "HF1503")
    assert tickets(wire, "waiters", "one") == []
    assert wire.get("b:2").status == 404


def test_a_ring_may_go_through_several_locks(wire: Wire) -> None:
    names = ["a", "b", "c", "d"]
    executions(wire, *names)
    for name in names:
        hold(wire, name, f"{name}:1", f"lock-{name}")
    for name, following in pairwise(names):
        wait(wire, name, f"{name}:2", f"lock-{following}", holding=[f"{name}:1"])
    assert is_refused(acquire(wire, "d", "d:2", "lock-a", holding=["d:1"]), 409, "HF1503")


def test_who_holds_a_lock_cannot_wait_for_it(wire: Wire) -> None:
    executions(wire, "a")
    hold(wire, "a", "a:1")
    assert is_refused(acquire(wire, "a", "a:2", holding=["a:1"]), 409, "HF1503")
    wait(wire, "a", "a:3")  # another strand of its code, which holds nothing


def test_strands_that_wait_without_holding_close_no_ring(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1", "one")
    hold(wire, "b", "b:1", "two")
    wait(wire, "a", "a:2", "two")
    wait(wire, "b", "b:2", "one")
    release(wire, "a", "a:1", "one")
    assert tickets(wire, "holders", "one") == ["b:2"]


def test_a_permit_that_may_still_be_released_opens_the_ring(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", "pool", limit=2)
    hold(wire, "c", "c:1", "pool", limit=2)
    hold(wire, "b", "b:1", "two")
    wait(wire, "a", "a:2", "two", holding=["a:1"])
    wait(wire, "b", "b:2", "pool", limit=2, holding=["b:1"])
    release(wire, "c", "c:1", "pool")
    assert tickets(wire, "holders", "pool") == ["a:1", "b:2"]


def test_a_ring_over_all_permits_is_found(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", "pool", limit=2)
    hold(wire, "c", "c:1", "pool", limit=2)
    hold(wire, "b", "b:1", "two")
    wait(wire, "a", "a:2", "two", holding=["a:1"])
    wait(wire, "c", "c:2", "two", holding=["c:1"])
    assert is_refused(acquire(wire, "b", "b:2", "pool", limit=2, holding=["b:1"]), 409, "HF1503")


# -- rings through executions that wait for each other ----------------------------------------------------


def suspend(wire: Wire, execution: str, *awaited: str) -> Answer:
    """With a report of what it waits for, as our workers tell it."""
    data = suspension(execution, *awaited)
    return wire.send("task.suspend", {**data, "waits": [{"id": awaited[0], "what": "call"}]})


def deadlock_of(wire: Wire, ticket: str) -> str:
    """The sentence that the ticket failed with."""
    promise = wire.get(ticket).promise
    assert promise["state"] == "rejected", promise
    assert promise["value"]["headers"]["holdfast-code"] == "HF1503"
    sentence: str = promise["value"]["headers"]["holdfast:ring"]
    return sentence


def state_of(wire: Wire, task: str) -> str:
    state: str = wire.send("task.get", {"id": task}).data["task"]["state"]
    return state


def test_a_child_that_waits_for_a_lock_of_its_parent_is_told_when_it_suspends(wire: Wire) -> None:
    executions(wire, "parent", "child")
    hold(wire, "parent", "parent:1")
    assert suspend(wire, "parent", "child").status == 200
    wait(wire, "child", "child:1")
    assert suspend(wire, "child", "child:1").status == 300
    expected = "'child' waits for 'printer', which 'parent' holds; 'parent' waits for 'child'"
    assert deadlock_of(wire, "child:1") == expected
    assert state_of(wire, "child") == "acquired"
    assert tickets(wire, "waiters") == []
    assert wire.fulfill("child").status == 200
    assert state_of(wire, "parent") == "pending"


def test_a_parent_that_closes_the_ring_wakes_the_child_whose_ticket_fails(wire: Wire) -> None:
    executions(wire, "parent", "child")
    hold(wire, "parent", "parent:1")
    wait(wire, "child", "child:1")
    assert suspend(wire, "child", "child:1").status == 200
    assert suspend(wire, "parent", "child").status == 200
    expected = "'parent' waits for 'child'; 'child' waits for 'printer', which 'parent' holds"
    assert deadlock_of(wire, "child:1") == expected
    assert (state_of(wire, "child"), state_of(wire, "parent")) == ("pending", "suspended")


def test_a_ring_may_go_through_several_calls_and_locks(wire: Wire) -> None:
    executions(wire, "a", "b", "c", "d")
    hold(wire, "a", "a:1", "one")
    hold(wire, "c", "c:1", "two")
    assert suspend(wire, "a", "b").status == 200
    wait(wire, "b", "b:1", "two")
    assert suspend(wire, "b", "b:1").status == 200
    wait(wire, "d", "d:1", "one")
    assert suspend(wire, "d", "d:1").status == 200
    assert suspend(wire, "c", "d").status == 200
    assert deadlock_of(wire, "d:1").startswith("'c' waits for 'd'; 'd' waits for 'one', which 'a' holds")
    assert wire.get("b:1").promise["state"] == "pending"


def test_a_ring_through_a_call_is_found_when_the_lock_is_asked_for(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    hold(wire, "a", "a:1", "one")
    hold(wire, "b", "b:1", "two")
    wait(wire, "c", "c:1", "two")
    assert suspend(wire, "c", "c:1").status == 200
    assert suspend(wire, "a", "c").status == 200
    assert is_refused(acquire(wire, "b", "b:2", "one", holding=["b:1"]), 409, "HF1503")


def ask(wire: Wire, execution: str, answer: str, other: str, **more: Any) -> None:
    asked = {"id": other, "stream": "in", "answer": {"id": answer, "timeoutAt": FAR, **more}}
    assert wire.send("stream.append", asked).status == 200


def entity(wire: Wire, name: str, **more: Any) -> None:
    wire.acquired(name, tags={"holdfast:entity": "k"}, **more)


def test_a_call_of_an_entity_waits_for_that_entity(wire: Wire) -> None:
    executions(wire, "a")
    entity(wire, "Cart/k")
    hold(wire, "a", "a:1")
    ask(wire, "a", "a:2", "Cart/k")
    assert suspend(wire, "a", "a:2").status == 200
    wait(wire, "Cart/k", "Cart/k:1")
    assert suspend(wire, "Cart/k", "Cart/k:1").status == 300
    expected = "'Cart/k' waits for 'printer', which 'a' holds; 'a' waits for 'Cart/k'"
    assert deadlock_of(wire, "Cart/k:1") == expected
    assert wire.get("a:2").promise["state"] == "pending"


def test_a_ring_through_a_call_of_an_entity_is_found_from_the_caller_too(wire: Wire) -> None:
    executions(wire, "a")
    entity(wire, "Cart/k")
    hold(wire, "a", "a:1")
    wait(wire, "Cart/k", "Cart/k:1")
    assert suspend(wire, "Cart/k", "Cart/k:1").status == 200
    ask(wire, "a", "a:2", "Cart/k")
    assert suspend(wire, "a", "a:2").status == 200
    assert deadlock_of(wire, "Cart/k:1").startswith("'a' waits for 'Cart/k'; 'Cart/k' waits for 'printer'")
    assert state_of(wire, "Cart/k") == "pending"


def test_the_answer_to_a_question_may_come_from_somebody_else(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    ask(wire, "a", "a:2", "b")
    assert suspend(wire, "a", "a:2").status == 200
    wait(wire, "b", "b:1")
    assert suspend(wire, "b", "b:1").status == 200
    assert wire.get("b:1").promise["state"] == "pending"


def test_an_entity_or_an_answer_that_ends_by_itself_closes_no_ring(wire: Wire) -> None:
    executions(wire, "a", "b")
    entity(wire, "Cart/k")
    entity(wire, "Cart/l", timeout_at=T0 + HOUR)
    for name, other, until in (("a", "Cart/k", T0 + HOUR), ("b", "Cart/l", FAR)):
        hold(wire, name, f"{name}:1", name)
        ask(wire, name, f"{name}:2", other, timeoutAt=until)
        assert suspend(wire, name, f"{name}:2").status == 200
        wait(wire, other, f"{other}:1", name)
        assert suspend(wire, other, f"{other}:1").status == 200
        assert wire.get(f"{other}:1").promise["state"] == "pending"


def test_whoever_waits_for_something_else_too_closes_no_ring(wire: Wire) -> None:
    executions(wire, "parent", "child")
    wire.create("approval")
    hold(wire, "parent", "parent:1")
    assert suspend(wire, "parent", "child", "approval").status == 200
    wait(wire, "child", "child:1")
    assert suspend(wire, "child", "child:1").status == 200
    assert wire.get("child:1").promise["state"] == "pending"
    wire.settle("approval")
    assert state_of(wire, "parent") == "pending"


def test_a_wait_that_ends_before_its_execution_closes_no_ring(wire: Wire) -> None:
    executions(wire, "parent", "child")
    hold(wire, "parent", "parent:1")
    wait(wire, "child", "child:1", timeoutAt=T0 + MINUTE)
    assert suspend(wire, "parent", "child").status == 200
    assert suspend(wire, "child", "child:1").status == 200
    assert wire.get("child:1").promise["state"] == "pending"


def test_an_execution_that_somebody_runs_or_may_run_closes_no_ring(wire: Wire) -> None:
    executions(wire, "parent", "child")
    hold(wire, "parent", "parent:1")
    wait(wire, "child", "child:1")
    assert suspend(wire, "child", "child:1").status == 200  # its parent is at work
    wire.create("other", target="poll://any@workers")
    executions(wire, "third")
    hold(wire, "third", "third:1", "two")
    wait(wire, "parent", "parent:2", "two")
    assert suspend(wire, "third", "other").status == 200
    assert suspend(wire, "parent", "parent:2").status == 200  # that one is pending
    assert wire.get("parent:2").promise["state"] == "pending"


def test_a_permit_that_nobody_stuck_has_opens_the_ring(wire: Wire) -> None:
    executions(wire, "parent", "child", "third")
    hold(wire, "parent", "parent:1", limit=2)
    hold(wire, "third", "third:1", limit=2)
    assert suspend(wire, "parent", "child").status == 200
    wait(wire, "child", "child:1", limit=2)
    assert suspend(wire, "child", "child:1").status == 200
    release(wire, "third", "third:1")
    assert tickets(wire, "holders") == ["parent:1", "child:1"]


def test_executions_that_wait_for_each_other_without_a_lock_are_left_alone(wire: Wire) -> None:
    executions(wire, "a", "b")
    assert suspend(wire, "a", "b").status == 200
    assert suspend(wire, "b", "a").status == 200
    assert (state_of(wire, "a"), state_of(wire, "b")) == ("suspended", "suspended")


def test_what_a_report_of_waits_says_besides_is_not_shown(wire: Wire) -> None:
    executions(wire, "parent", "child")
    assert suspend(wire, "parent", "child").status == 200
    view = wire.send("execution.get", {"id": "parent"}).data["execution"]
    assert [sorted({*wait} - {"since", "dueAt"}) for wait in view["waits"]] == [["id", "what"]]


# -- looking and forcing -----------------------------------------------------------------------------------


def test_a_release_from_outside_needs_a_reason_which_is_kept(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    data = {"name": "printer", "id": "a"}
    assert is_refused(wire.send("lock.release", data), 409, "HF1504")
    answer = wire.send("lock.release", {**data, "reason": "its machine burnt"})
    assert answer.data["lock"]["forced"] == {"execution": "a", "at": T0, "reason": "its machine burnt"}
    assert tickets(wire, "holders") == ["b:1"]
    assert release(wire, "a", "a:1").status == 200
    assert tickets(wire, "holders") == ["b:1"]


def test_a_waiter_can_be_sent_away_from_outside(wire: Wire) -> None:
    executions(wire, "a", "b")
    hold(wire, "a", "a:1")
    wait(wire, "b", "b:1")
    wire.send("lock.release", {"name": "printer", "id": "b:1", "reason": "no"})
    assert wire.get("b:1").promise["state"] == "rejected_canceled"
    assert tickets(wire, "waiters") == []


def test_locks_are_listed_by_name(wire: Wire) -> None:
    executions(wire, "a")
    for name in ("x.2", "x.1", "y"):
        hold(wire, "a", f"a:{name}", name)
    release(wire, "a", "a:x.1", "x.1")
    names = [each["name"] for each in wire.send("lock.search", {}).data["locks"]]
    assert names == ["x.1", "x.2", "y"]
    found = wire.send("lock.search", {"prefix": "x", "used": True}).data["locks"]
    assert [each["name"] for each in found] == ["x.2"]
    page = wire.send("lock.search", {"limit": 2}).data
    rest = wire.send("lock.search", {"limit": 2, "cursor": page["cursor"]}).data
    assert [each["name"] for each in page["locks"] + rest["locks"]] == ["x.1", "x.2", "y"]
    assert "cursor" not in rest


def test_a_search_shows_only_locks_that_the_prefix_of_the_caller_covers(wire: Wire) -> None:
    executions(wire, "a")
    for name in ("acme", "acme.1", "acme2", "beta"):
        hold(wire, "a", f"a:{name}", name)
    with wire.within("acme"):
        found = wire.send("lock.search", {}).data["locks"]
    assert [each["name"] for each in found] == ["acme", "acme.1"]


def test_the_record_of_a_lock_is_not_settled_by_anybody(wire: Wire) -> None:
    executions(wire, "a")
    hold(wire, "a", "a:1")
    assert wire.settle("lock@printer").status == 400
    assert wire.create("x", tags={"holdfast:lock": "x"}).status == 400
    assert wire.create("x", tags={"holdfast:ticket": "x"}).status == 400


def test_a_promise_in_the_place_of_a_lock_is_left_alone(wire: Wire) -> None:
    executions(wire, "a")
    wire.create("lock@printer")
    assert is_refused(acquire(wire, "a", "a:1"), 409, "HF1505")
    assert is_refused(wire.send("lock.get", {"name": "printer"}), 409, "HF1505")


def test_a_lock_that_nobody_uses_says_since_when(wire: Wire) -> None:
    executions(wire, "a")
    hold(wire, "a", "a:1")
    assert "idleSince" not in lock(wire)
    wire.now = T0 + MINUTE
    wire.settle("a")
    assert lock(wire)["idleSince"] == T0 + MINUTE
