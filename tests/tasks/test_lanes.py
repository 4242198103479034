"""Lanes: how many tasks a worker asks for, when, and that no priority waits for ever."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.protocol.requests import TaskClaim
from holdfast.tasks.lanes import Lane, TaskSettings, lanes_of
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.task import Task, TaskOptions


def lane(slots: int = 10, prefetch: int = 0, seed: int = 1) -> Lane:
    return Lane(["mail"], slots, prefetch, chance=random.Random(seed))


def claims(asking: Lane) -> list[TaskClaim]:
    return [wish.claim for wish in asking.wishes("worker-1", 20_000)]


def test_a_lane_asks_to_start_exactly_as_many_as_it_has_free_slots() -> None:
    asking = lane(slots=10)
    asking.running = 3
    [claim] = claims(asking)
    assert (claim.count, claim.start, claim.groups) == (7, True, ["queue.mail"])


def test_a_lane_does_not_ask_again_for_slots_it_has_asked_for() -> None:
    asking = lane(slots=10)
    claims(asking)
    asking.may_have_work = True
    assert claims(asking) == []


def test_prefetch_claims_ahead_without_starting() -> None:
    asking = lane(slots=4, prefetch=6)
    first, ahead = claims(asking)
    assert (first.count, first.start) == (4, True)
    assert (ahead.count, ahead.start) == (6, False)


def test_a_full_lane_with_prefetch_only_claims_ahead() -> None:
    asking = lane(slots=4, prefetch=6)
    asking.running = 4
    [ahead] = claims(asking)
    assert (ahead.count, ahead.start) == (6, False)


def test_threads_that_were_left_behind_take_slots() -> None:
    asking = Lane(["mail"], 10, 0, left_behind=lambda: 4)
    [claim] = claims(asking)
    assert claim.count == 6


def test_after_a_short_claim_a_lane_waits_for_a_sign() -> None:
    asking = lane(slots=10)
    [wish] = asking.wishes("worker-1", 20_000)
    asking.answered(wish, [0, 0])
    assert claims(asking) == []


def test_after_a_full_claim_there_may_be_more() -> None:
    asking = lane(slots=2)
    [wish] = asking.wishes("worker-1", 20_000)
    asking.answered(wish, [0, 0])
    [claim] = claims(asking)
    assert claim.count == 2


def test_a_claim_of_unknown_fate_is_made_again() -> None:
    asking = lane(slots=2)
    [wish] = asking.wishes("worker-1", 20_000)
    asking.answered(wish, None)
    assert len(claims(asking)) == 1


def test_no_priority_starves_however_much_there_is_of_the_higher_ones() -> None:
    """An endless supply of five priorities, and a lane of one slot: each of them gets its share."""
    asking, granted = lane(slots=1), Counter[int]()
    for _ in range(20_000):
        asking.may_have_work = True
        for wish in asking.wishes("worker-1", 20_000):
            ceiling = wish.claim.ceiling
            best = [p for p in (9, 7, 5, 3, 1, -5) if ceiling is None or p <= ceiling][:1]
            granted.update(best)
            asking.answered(wish, best)
    assert set(granted) == {9, 7, 5, 3, 1, -5}
    assert min(granted.values()) >= 100
    assert granted[9] >= 18_000


def test_no_priority_starves_where_tasks_are_claimed_ahead() -> None:
    """The one slot is always taken, so that every task is claimed ahead, and started from there."""
    asking, granted = lane(slots=1, prefetch=1), Counter[int]()
    asking.running = 1
    for _ in range(20_000):
        asking.may_have_work = True
        for wish in asking.wishes("worker-1", 20_000):
            assert not wish.claim.start
            ceiling = wish.claim.ceiling
            best = [p for p in (9, 5, 1) if ceiling is None or p <= ceiling][:1]
            granted.update(best)
            asking.answered(wish, best)
    assert set(granted) == {9, 5, 1}
    assert min(granted.values()) >= 100
    assert granted[9] >= 18_000


@pytest.mark.parametrize("priorities", [range(150, 0, -1), [10**6, *range(100, 0, -1)]])
def test_no_priority_starves_where_there_are_more_than_are_remembered(priorities: Sequence[int]) -> None:
    asking, granted = lane(slots=1), Counter[int]()
    for _ in range(60_000):
        asking.may_have_work = True
        for wish in asking.wishes("worker-1", 20_000):
            ceiling = wish.claim.ceiling
            best = [next((p for p in priorities if ceiling is None or p <= ceiling), None)]
            found = [p for p in best if p is not None]
            granted.update(found)
            asking.answered(wish, found)
    assert set(granted) == set(priorities)
    assert granted[max(priorities)] >= 50_000


def test_one_claim_in_ten_has_a_ceiling_and_leaves_half_of_its_slots_to_the_best() -> None:
    asking = lane(slots=8)
    seen: list[list[int | None]] = []
    for _ in range(20):
        asking.may_have_work = True
        wishes = asking.wishes("worker-1", 20_000)
        seen.append([wish.claim.ceiling for wish in wishes])
        assert sum(wish.claim.count for wish in wishes) == 8
        for wish in wishes:
            asking.answered(wish, [4] * wish.claim.count)
    assert [ceilings for ceilings in seen if len(ceilings) == 2] == [[3, None]] * 2


def test_where_only_one_priority_is_used_hardly_any_claim_looks_below_it() -> None:
    asking, below = lane(slots=1), 0
    for _ in range(1_000):
        asking.may_have_work = True
        for wish in asking.wishes("worker-1", 20_000):
            below += wish.claim.ceiling is not None
            asking.answered(wish, [0] if wish.claim.ceiling is None else [])
    assert below == 11  # the tenth, and each hundredth


def test_a_poll_comes_somewhat_spread_and_sooner_where_a_limit_held_something_back() -> None:
    asking = lane()
    assert all(7.5 <= asking.poll_after_s() <= 12.5 for _ in range(100))
    polls(asking, 4, [])
    assert all(67.5 <= asking.poll_after_s() <= 112.5 for _ in range(100))
    asking.is_limited = True
    assert all(0.75 <= asking.poll_after_s() <= 1.25 for _ in range(100))


@pytest.mark.parametrize("got", [[0], None])
def test_polls_become_rare_while_there_is_nothing_and_often_when_there_was(got: list[int] | None) -> None:
    asking = lane(slots=10)
    assert polls(asking, 4, []) == [20, 40, 80, 90]
    assert polls(asking, 1, got) == [10], "work was found, or nobody knows"


def polls(asking: Lane, count: int, got: list[int] | None) -> list[float]:
    """When the lane would look again after each of so many claims, but for the spread."""
    found: list[float] = []
    for _ in range(count):
        asking.may_have_work = True
        for wish in asking.wishes("worker-1", 20_000):
            asking.answered(wish, got)
        found.append(asking.poll_s)
    return found


def nothing() -> None:
    pass


def registered(**queues: Any) -> TaskRegistry:
    registry = TaskRegistry()
    for queue, mode in queues.items():
        registry.add(Task(nothing, f"of {queue}", TaskOptions(queue=queue, mode=mode)))
    return registry


def test_queues_with_tasks_for_processes_have_no_more_slots_than_processes() -> None:
    registry = registered(mail="auto", images="process", reports="async")
    wide, deep = lanes_of(registry, TaskSettings(concurrency=50, processes=2), lambda: 0)
    assert (wide.queues, wide.slots) == (["mail", "reports"], 50)
    assert (deep.queues, deep.slots) == (["images"], 2)


def test_a_worker_may_be_told_its_queues_also_some_that_no_task_here_names() -> None:
    registry = registered(mail="auto", images="process")
    [only] = lanes_of(registry, TaskSettings(queues=("mail", "other")), lambda: 0)
    assert only.queues == ["mail", "other"]
