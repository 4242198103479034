"""Lanes: how many tasks a worker asks for, when, and that no priority waits forever."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.host.slots import SlotGroup, TaskSettings, queue_slots
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.task import TaskDefinition, TaskOptions
from holdfast.protocol.requests import TaskClaim


def lane(slots: int = 10, prefetch: int = 0, seed: int = 1) -> SlotGroup:
    return SlotGroup(["queue.mail"], slots, prefetch, chance=random.Random(seed))


def claims(asking: SlotGroup) -> list[TaskClaim]:
    return [intent.claim for intent in asking.claim_intents("worker-1", 20_000)]


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
    asking = SlotGroup(["queue.mail"], 10, 0, left_behind=lambda: 4)
    [claim] = claims(asking)
    assert claim.count == 6


def test_after_a_short_claim_a_lane_waits_for_a_sign() -> None:
    asking = lane(slots=10)
    [intent] = asking.claim_intents("worker-1", 20_000)
    asking.answered(intent, [0, 0])
    assert claims(asking) == []


def test_after_a_full_claim_there_may_be_more() -> None:
    asking = lane(slots=2)
    [intent] = asking.claim_intents("worker-1", 20_000)
    asking.answered(intent, [0, 0])
    [claim] = claims(asking)
    assert claim.count == 2


def test_a_claim_of_unknown_fate_is_made_again() -> None:
    asking = lane(slots=2)
    [intent] = asking.claim_intents("worker-1", 20_000)
    asking.answered(intent, None)
    assert len(claims(asking)) == 1


def test_no_priority_starves_however_much_there_is_of_the_higher_ones() -> None:
    """An endless supply of five priorities, and a lane of one slot: each of them gets its share."""
    asking, granted = lane(slots=1), Counter[int]()
    for _ in range(20_000):
        asking.may_have_work = True
        for intent in asking.claim_intents("worker-1", 20_000):
            ceiling = intent.claim.ceiling
            best = [p for p in (9, 7, 5, 3, 1, -5) if ceiling is None or p <= ceiling][:1]
            granted.update(best)
            asking.answered(intent, best)
    assert set(granted) == {9, 7, 5, 3, 1, -5}
    assert min(granted.values()) >= 100
    assert granted[9] >= 18_000


def test_no_priority_starves_where_tasks_are_claimed_ahead() -> None:
    """The one slot is always taken, so that every task is claimed ahead, and started from there."""
    asking, granted = lane(slots=1, prefetch=1), Counter[int]()
    asking.running = 1
    for _ in range(20_000):
        asking.may_have_work = True
        for intent in asking.claim_intents("worker-1", 20_000):
            assert not intent.claim.start
            ceiling = intent.claim.ceiling
            best = [p for p in (9, 5, 1) if ceiling is None or p <= ceiling][:1]
            granted.update(best)
            asking.answered(intent, best)
    assert set(granted) == {9, 5, 1}
    assert min(granted.values()) >= 100
    assert granted[9] >= 18_000


@pytest.mark.parametrize("priorities", [range(150, 0, -1), [10**6, *range(100, 0, -1)]])
def test_no_priority_starves_where_there_are_more_than_are_remembered(priorities: Sequence[int]) -> None:
    asking, granted = lane(slots=1), Counter[int]()
    for _ in range(60_000):
        asking.may_have_work = True
        for intent in asking.claim_intents("worker-1", 20_000):
            ceiling = intent.claim.ceiling
            best = [next((p for p in priorities if ceiling is None or p <= ceiling), None)]
            found = [p for p in best if p is not None]
            granted.update(found)
            asking.answered(intent, found)
    assert set(granted) == set(priorities)
    assert granted[max(priorities)] >= 50_000


def test_one_claim_in_ten_has_a_ceiling_and_leaves_half_of_its_slots_to_the_best() -> None:
    asking = lane(slots=8)
    seen: list[list[int | None]] = []
    for _ in range(20):
        asking.may_have_work = True
        claim_intents = asking.claim_intents("worker-1", 20_000)
        seen.append([intent.claim.ceiling for intent in claim_intents])
        assert sum(intent.claim.count for intent in claim_intents) == 8
        for intent in claim_intents:
            asking.answered(intent, [4] * intent.claim.count)
    assert [ceilings for ceilings in seen if len(ceilings) == 2] == [[3, None]] * 2


def test_where_only_one_priority_is_used_hardly_any_claim_looks_below_it() -> None:
    asking, below = lane(slots=1), 0
    for _ in range(1_000):
        asking.may_have_work = True
        for intent in asking.claim_intents("worker-1", 20_000):
            below += intent.claim.ceiling is not None
            asking.answered(intent, [0] if intent.claim.ceiling is None else [])
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


def polls(asking: SlotGroup, count: int, got: list[int] | None) -> list[float]:
    """When the lane would look again after each of so many claims, but for the spread."""
    found: list[float] = []
    for _ in range(count):
        asking.may_have_work = True
        for intent in asking.claim_intents("worker-1", 20_000):
            asking.answered(intent, got)
        found.append(asking.poll_s)
    return found


def nothing() -> None:
    pass


def registered(**queues: Any) -> TaskRegistry:
    registry = TaskRegistry()
    for queue, mode in queues.items():
        registry.add(TaskDefinition(nothing, f"of {queue}", TaskOptions(queue=queue, mode=mode)))
    return registry


def test_queues_with_tasks_for_processes_have_no_more_slots_than_processes() -> None:
    registry = registered(mail="auto", images="process", reports="async")
    wide, deep = queue_slots(registry, TaskSettings(concurrency=50, processes=2), lambda: 0)
    assert (wide.groups, wide.slots) == (["queue.mail", "queue.reports"], 50)
    assert (deep.groups, deep.slots) == (["queue.images"], 2)


def test_a_worker_may_be_told_its_queues_also_some_that_no_task_here_names() -> None:
    registry = registered(mail="auto", images="process")
    [only] = queue_slots(registry, TaskSettings(queues=("mail", "other")), lambda: 0)
    assert only.groups == ["queue.mail", "queue.other"]
