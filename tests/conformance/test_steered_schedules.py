"""Schedules from outside: update, pause, trigger, backfill."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import DAY, HOUR, INT_MAX, MINUTE, SECOND, T0, WORKERS, Answer, Json, Wire, ids


def stored(wire: Wire) -> Json:
    return wire.send("schedule.get", {"id": "s"}).schedule


def update(wire: Wire, **given: Any) -> Answer:
    return wire.send("schedule.update", {"id": "s", **given})


def pause(wire: Wire, paused: bool = True) -> Answer:
    return wire.send("schedule.pause", {"id": "s", "paused": paused})


def trigger(wire: Wire) -> Answer:
    return wire.send("schedule.trigger", {"id": "s"})


def backfill(wire: Wire, since: int, until: int) -> Answer:
    return wire.send("schedule.backfill", {"id": "s", "since": since, "until": until})


@pytest.mark.parametrize("kind", ["update", "pause", "trigger", "backfill"])
def test_a_schedule_that_does_not_exist_cannot_be_steered(wire: Wire, kind: str) -> None:
    data = {"id": "s"} | ({"since": 0, "until": 1} if kind == "backfill" else {})
    assert (wire.send(f"schedule.{kind}", data).status, wire.snap()["schedules"]) == (404, [])


# -- update ------------------------------------------------------------------------------------------------


def test_an_update_changes_what_it_names_and_nothing_else(wire: Wire) -> None:
    before = wire.schedule("s", promiseTags={"k": "v"}, catchUp=3).schedule
    after = update(wire, catchUp=0, overlap="skip").schedule
    assert after == before | {"catchUp": 0, "overlap": "skip"} == stored(wire)


def test_an_update_that_names_nothing_changes_nothing(wire: Wire) -> None:
    before = wire.schedule("s").schedule
    assert update(wire).schedule == before == stored(wire)


@pytest.mark.parametrize(
    ("given", "next_run_at"),
    [
        ({"cron": "0 * * * *"}, T0 + HOUR),
        ({"cron": "0 0 * * *", "timezone": "Asia/Kolkata"}, T0 + 18 * HOUR + 30 * MINUTE),
    ],
)
def test_a_new_rhythm_counts_from_now(wire: Wire, given: Json, next_run_at: int) -> None:
    wire.schedule("s")
    wire.now = T0 + SECOND
    assert update(wire, **given).schedule["nextRunAt"] == next_run_at


def test_what_was_due_before_an_update_is_fired_by_the_old_definition(wire: Wire) -> None:
    wire.schedule("s")
    wire.now = T0 + MINUTE
    changed = update(wire, cron="0 * * * *", promiseTags={"k": "new"}).schedule
    assert (changed["lastRunAt"], changed["nextRunAt"]) == (T0 + MINUTE, T0 + HOUR)
    assert "k" not in wire.get(f"s-{T0 + MINUTE}").promise["tags"]


def test_runs_after_an_update_have_what_it_said(wire: Wire) -> None:
    wire.schedule("s")
    update(wire, promiseId="r-{{.timestamp}}", promiseTimeout=5, promiseParam={"data": "eA=="})
    wire.tick(T0 + MINUTE)
    run = wire.get(f"r-{T0 + MINUTE}").promise
    assert (run["timeoutAt"], run["param"]["data"]) == (T0 + MINUTE + 5, "eA==")


def test_a_paused_schedule_can_be_updated_and_stays_paused(wire: Wire) -> None:
    wire.schedule("s")
    pause(wire)
    assert update(wire, cron="0 * * * *").schedule["nextRunAt"] == INT_MAX
    assert pause(wire, False).schedule["nextRunAt"] == T0 + HOUR


@pytest.mark.parametrize(
    "given",
    [
        {"cron": "0 0 30 2 *"},
        {"promiseId": "x" * 1_020 + "{{.timestamp}}"},
        {"promiseTags": {"resonate:target": WORKERS, "resonate:delay": str(T0)}},
        {"promiseTags": {"resonate:target": "nowhere"}},
        {"catchUp": 1_001},
    ],
)
def test_what_cannot_be_created_cannot_be_made_by_an_update(wire: Wire, given: Json) -> None:
    before = wire.schedule("s").schedule
    assert (update(wire, **given).status, stored(wire)) == (400, before)


# -- pause -------------------------------------------------------------------------------------------------


def test_a_paused_schedule_fires_nothing(wire: Wire) -> None:
    wire.schedule("s")
    paused = pause(wire).schedule
    wire.tick(T0 + HOUR)
    assert (paused["pausedAt"], paused["nextRunAt"]) == (T0, INT_MAX)
    assert (wire.snap()["promises"], stored(wire)) == ([], paused)


def test_what_was_due_before_a_pause_is_fired(wire: Wire) -> None:
    wire.schedule("s")
    wire.now = T0 + MINUTE
    assert pause(wire).schedule["lastRunAt"] == T0 + MINUTE
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + MINUTE}"]


def test_what_was_missed_during_a_pause_is_not_made_up_for(wire: Wire) -> None:
    wire.schedule("s")
    pause(wire)
    wire.now = T0 + HOUR
    resumed = pause(wire, False).schedule
    assert ("pausedAt" in resumed, resumed["nextRunAt"]) == (False, T0 + HOUR + MINUTE)
    wire.tick(T0 + HOUR + MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + HOUR + MINUTE}"]


def test_pausing_twice_is_pausing_once(wire: Wire) -> None:
    wire.schedule("s")
    once = pause(wire).schedule
    wire.now = T0 + SECOND
    assert pause(wire).schedule == once


def test_what_is_not_paused_can_be_resumed(wire: Wire) -> None:
    before = wire.schedule("s").schedule
    assert pause(wire, False).schedule == before


# -- trigger -----------------------------------------------------------------------------------------------


def test_a_trigger_makes_a_run_now_and_leaves_the_rhythm_alone(wire: Wire) -> None:
    wire.schedule("s", promiseTags={"resonate:target": WORKERS}, promiseTimeout=HOUR)
    wire.now = T0 + SECOND
    run = trigger(wire).promise
    assert (run["id"], run["createdAt"], run["timeoutAt"]) == (
        f"s-{T0 + SECOND}",
        T0 + SECOND,
        T0 + SECOND + HOUR,
    )
    assert run["tags"]["resonate:schedule"] == "s"
    assert wire.offers(run["id"]) == [0]
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + SECOND, T0 + MINUTE)


def test_a_paused_schedule_can_be_triggered_and_stays_paused(wire: Wire) -> None:
    wire.schedule("s")
    pause(wire)
    assert trigger(wire).promise["id"] == f"s-{T0}"
    assert stored(wire)["pausedAt"] == T0


def test_two_triggers_at_one_instant_are_one_run(wire: Wire) -> None:
    wire.schedule("s")
    assert trigger(wire).promise == trigger(wire).promise
    assert len(wire.snap()["promises"]) == 1


def test_a_trigger_at_an_occurrence_is_the_run_of_that_occurrence(wire: Wire) -> None:
    wire.schedule("s")
    wire.now = T0 + MINUTE
    assert trigger(wire).promise["id"] == f"s-{T0 + MINUTE}"
    wire.tick()
    assert len(wire.snap()["promises"]) == 1


def test_with_skip_the_answer_to_a_trigger_is_the_run_that_is_not_over(wire: Wire) -> None:
    wire.schedule("s", overlap="skip")
    first = trigger(wire).promise
    wire.now = T0 + SECOND
    assert trigger(wire).promise == first
    wire.tick(T0 + MINUTE)
    assert ids(wire.snap()["promises"]) == [first["id"]]


def test_with_replace_a_trigger_cancels_the_run_before(wire: Wire) -> None:
    wire.schedule("s", overlap="replace")
    first = trigger(wire).promise
    wire.now = T0 + SECOND
    assert trigger(wire).promise["state"] == "pending"
    assert wire.get(first["id"]).promise["state"] == "rejected_canceled"


# -- backfill ----------------------------------------------------------------------------------------------


def test_a_backfill_makes_the_runs_from_since_to_until_both_included(wire: Wire) -> None:
    wire.schedule("s", "0 * * * *", promiseTimeout=HOUR)
    answer = backfill(wire, T0 - 3 * HOUR, T0 - HOUR)
    expected = [f"s-{T0 - hours * HOUR}" for hours in (3, 2, 1)]
    assert answer.data == {"ids": expected}
    runs = wire.snap()["promises"]
    assert [(run["createdAt"], run["timeoutAt"], run["state"]) for run in runs] == [
        (T0, T0 + HOUR, "pending")
    ] * 3


def test_an_occurrence_is_one_run_however_often_it_is_asked_for(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    assert backfill(wire, T0, T0 + MINUTE).data["ids"] == [f"s-{T0}"]
    before = wire.snap()
    assert backfill(wire, T0, T0 + MINUTE).data == {"ids": []}
    assert wire.snap() == before


def test_a_backfill_leaves_the_schedule_as_it_is(wire: Wire) -> None:
    before = wire.schedule("s", overlap="skip").schedule
    assert len(backfill(wire, T0 - 5 * MINUTE, T0).data["ids"]) == 6
    assert stored(wire) == before


def test_a_long_backfill_says_where_to_go_on(wire: Wire) -> None:
    wire.schedule("s")
    first = backfill(wire, T0 - DAY, T0).data
    assert (len(first["ids"]), first["nextAt"]) == (100, T0 - DAY + 100 * MINUTE)
    again = backfill(wire, T0 - DAY, T0).data
    assert again == {"ids": [], "nextAt": first["nextAt"]}
    rest = backfill(wire, T0 - 99 * MINUTE, T0).data
    assert (len(rest["ids"]), "nextAt" in rest) == (100, False)


@pytest.mark.parametrize(("since", "until"), [(T0, T0 + MINUTE + 1), (T0, T0 - 1), (-1, T0), (0, INT_MAX)])
def test_what_lies_ahead_or_runs_backwards_is_no_backfill(wire: Wire, since: int, until: int) -> None:
    wire.schedule("s")
    assert (backfill(wire, since, until).status, wire.snap()["promises"]) == (400, [])


def test_an_end_that_lies_ahead_by_as_much_as_clocks_may_differ_is_now(wire: Wire) -> None:
    wire.schedule("s")
    assert backfill(wire, T0 - MINUTE, T0 + MINUTE).data == {"ids": [f"s-{T0 - MINUTE}", f"s-{T0}"]}


def test_a_paused_schedule_can_be_backfilled(wire: Wire) -> None:
    wire.schedule("s")
    pause(wire)
    assert backfill(wire, T0, T0).data == {"ids": [f"s-{T0}"]}
