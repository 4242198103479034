"""Schedules: cron, time zones, templates, tags, catch-up and overlap."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tests.conformance.wire import (
    DAY,
    HOUR,
    INT_MAX,
    MINUTE,
    SECOND,
    T0,
    WORKERS,
    A,
    Json,
    Wire,
    ids,
)


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def stored(wire: Wire, name: str = "s") -> Json:
    return wire.send("schedule.get", {"id": name}).schedule


# -- cron --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "next_run"),
    [
        ("* * * * *", "2026-01-01T00:01"),
        ("0 * * * *", "2026-01-01T01:00"),
        ("0 0 * * *", "2026-01-02T00:00"),
        ("*/15 * * * *", "2026-01-01T00:15"),
        ("7-59/20 * * * *", "2026-01-01T00:07"),
        ("5,50 9-17 * * *", "2026-01-01T09:05"),
        ("30 6 15 * *", "2026-01-15T06:30"),
        ("0 0 1 * *", "2026-02-01T00:00"),
        ("0 0 1 3 *", "2026-03-01T00:00"),
        ("0 0 1 MAR *", "2026-03-01T00:00"),
        ("0 0 1 mar *", "2026-03-01T00:00"),
        ("0 0 * * 0", "2026-01-04T00:00"),
        ("0 0 * * 7", "2026-01-04T00:00"),
        ("0 0 * * SUN", "2026-01-04T00:00"),
        ("0 0 * * 1", "2026-01-05T00:00"),
        ("0 0 * * Mon", "2026-01-05T00:00"),
        ("0 0 * * 4", "2026-01-08T00:00"),
        ("0 0 * * 1-5", "2026-01-02T00:00"),
        ("0 0 * * MON-FRI", "2026-01-02T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 31 * *", "2026-01-31T00:00"),
    ],
)
def test_five_fields_are_read_as_posix_does_in_utc(wire: Wire, cron: str, next_run: str) -> None:
    assert wire.schedule("s", cron).schedule["nextRunAt"] == instant(next_run)


@pytest.mark.parametrize(
    ("cron", "next_run"),
    [
        ("0 0 13 * 5", "2026-01-02T00:00"),
        ("0 0 2 * 0", "2026-01-02T00:00"),
        ("0 0 13 * *", "2026-01-13T00:00"),
        ("0 0 * * 5", "2026-01-02T00:00"),
    ],
)
def test_day_of_month_and_day_of_week_are_joined_by_or_when_both_are_given(
    wire: Wire, cron: str, next_run: str
) -> None:
    assert wire.schedule("s", cron).schedule["nextRunAt"] == instant(next_run)


@pytest.mark.parametrize(
    ("cron", "ahead"),
    [
        ("* * * * * *", SECOND),
        ("*/10 * * * * *", 10 * SECOND),
        ("30 * * * * *", 30 * SECOND),
        ("0 0 * * * *", HOUR),
    ],
)
def test_a_leading_sixth_field_counts_seconds(wire: Wire, cron: str, ahead: int) -> None:
    assert wire.schedule("s", cron).schedule["nextRunAt"] == T0 + ahead


def test_the_next_run_lies_strictly_after_now(wire: Wire) -> None:
    assert wire.schedule("s", "0 0 1 1 *").schedule["nextRunAt"] == instant("2027-01-01T00:00")


def test_the_next_run_of_a_moment_inside_a_second_is_on_the_second(wire: Wire) -> None:
    wire.now = T0 + 500
    assert wire.schedule("s", "* * * * * *").schedule["nextRunAt"] == T0 + SECOND


@pytest.mark.parametrize(
    "cron",
    [
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * * *",
        "banana",
        "60 * * * *",
        "61 * * * *",
        "-1 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "1.5 * * * *",
        "a * * * *",
        "* * * FOO *",
        "* * * * FUNDAY",
        "1,, * * * *",
        "1- * * * *",
        "60 * * * * *",
    ],
)
def test_an_expression_that_is_not_cron_is_refused(wire: Wire, cron: str) -> None:
    assert wire.schedule("s", cron).status == 400
    assert wire.snap()["schedules"] == []


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 4 *"])
def test_an_expression_that_never_matches_is_refused(wire: Wire, cron: str) -> None:
    assert wire.schedule("s", cron).status == 400


def test_a_date_that_never_comes_but_a_weekday_that_does_is_accepted(wire: Wire) -> None:
    assert wire.schedule("s", "0 0 30 2 1").schedule["nextRunAt"] == instant("2026-02-02T00:00")


# -- time zones --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "next_run"),
    [
        ("UTC", "2026-01-01T09:00"),
        ("Europe/Berlin", "2026-01-01T08:00"),
        ("America/New_York", "2026-01-01T14:00"),
        ("Asia/Kolkata", "2026-01-01T03:30"),
        ("Pacific/Auckland", "2026-01-01T20:00"),
    ],
)
def test_a_schedule_reads_the_clock_of_its_time_zone(wire: Wire, zone: str, next_run: str) -> None:
    schedule = wire.schedule("s", "0 9 * * *", timezone=zone).schedule
    assert (schedule["nextRunAt"], schedule["timezone"]) == (instant(next_run), zone)


@pytest.mark.parametrize(
    ("now", "next_run"),
    [("2026-03-07T15:00", "2026-03-08T13:00"), ("2026-10-31T14:00", "2026-11-01T14:00")],
)
def test_nine_in_the_morning_stays_nine_in_the_morning_when_the_clocks_change(
    wire: Wire, now: str, next_run: str
) -> None:
    wire.now = instant(now)
    schedule = wire.schedule("s", "0 9 * * *", timezone="America/New_York").schedule
    assert schedule["nextRunAt"] == instant(next_run)


def test_an_hourly_schedule_fires_every_hour_when_an_hour_is_skipped(wire: Wire) -> None:
    """New York, 2026-03-08: two o'clock does not exist."""
    wire.now = instant("2026-03-08T04:30")
    wire.schedule("s", "0 * * * *", timezone="America/New_York")
    wire.tick(instant("2026-03-08T09:30"))
    fired = [promise["createdAt"] for promise in wire.snap()["promises"]]
    assert fired == [instant(f"2026-03-08T{hour:02}:00") for hour in range(5, 10)]


@pytest.mark.parametrize(
    ("cron", "day"),
    [("30 2 * * *", "2026-03-08"), ("30 1 * * *", "2026-11-01"), ("0 * * * *", "2026-11-01")],
)
def test_a_schedule_goes_on_through_an_hour_that_is_missing_or_comes_twice(
    wire: Wire, cron: str, day: str
) -> None:
    wire.now = instant(f"{day}T00:00") - DAY
    runs = [wire.schedule("s", cron, timezone="America/New_York").schedule["nextRunAt"]]
    while runs[-1] < instant(f"{day}T00:00") + 3 * DAY:
        wire.tick(runs[-1])
        runs.append(stored(wire)["nextRunAt"])
    assert all(0 < after - before <= 2 * DAY for before, after in pairwise(runs))


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "europe", "Europe", "../../etc/passwd", "/etc/localtime", "UTC\0", "é"]
)
def test_a_time_zone_that_does_not_exist_is_refused(wire: Wire, zone: str) -> None:
    assert wire.schedule("s", timezone=zone).status == 400


# -- the record --------------------------------------------------------------------------------------------


def test_a_schedule_record_has_only_the_optional_fields_that_were_given(wire: Wire) -> None:
    plain = wire.schedule("s").schedule
    assert set(plain) == {
        "id",
        "cron",
        "promiseId",
        "promiseTimeout",
        "promiseParam",
        "promiseTags",
        "createdAt",
        "nextRunAt",
    }
    full = wire.schedule("f", timezone="UTC", overlap="allow", catchUp=7).schedule
    assert (full["timezone"], full["overlap"], full["catchUp"]) == ("UTC", "allow", 7)


def test_param_and_tags_of_a_schedule_are_empty_by_default(wire: Wire) -> None:
    data = {"id": "s", "cron": "* * * * *", "promiseId": "x", "promiseTimeout": 1}
    schedule = wire.send("schedule.create", data).schedule
    assert (schedule["promiseParam"], schedule["promiseTags"]) == ({}, {})


def test_a_run_sets_the_last_run_and_the_next(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + MINUTE, T0 + 2 * MINUTE)


def test_a_schedule_does_not_fire_a_millisecond_early(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE - 1)
    assert wire.snap()["promises"] == []


# -- the promise -------------------------------------------------------------------------------------------


def test_an_occurrence_makes_exactly_this_promise(wire: Wire) -> None:
    wire.schedule("s", promiseParam={"data": "eA=="}, promiseTags={"k": "v"}, promiseTimeout=HOUR)
    wire.tick(T0 + MINUTE + 500)
    name = f"s-{T0 + MINUTE}"
    assert wire.get(name).promise == {
        "id": name,
        "state": "pending",
        "param": {"data": "eA=="},
        "value": {},
        "tags": {
            "k": "v",
            "resonate:schedule": "s",
            "resonate:origin": name,
            "resonate:branch": name,
            "resonate:parent": name,
            "resonate:prefix": name,
        },
        "createdAt": T0 + MINUTE,
        "timeoutAt": T0 + MINUTE + HOUR,
    }


def test_an_occurrence_with_a_target_makes_a_pending_task_and_offers_it(wire: Wire) -> None:
    wire.schedule("s", promiseTags={"resonate:target": WORKERS})
    wire.tick(T0 + MINUTE)
    name = f"s-{T0 + MINUTE}"
    assert wire.task(name) == {"id": name, "state": "pending", "version": 0, "resumes": 0}
    assert wire.offers(name) == [0]


@pytest.mark.parametrize("tag", ["origin", "branch", "parent", "prefix"])
def test_a_lineage_tag_that_was_given_is_kept(wire: Wire, tag: str) -> None:
    wire.schedule("s", promiseId="x", promiseTags={f"resonate:{tag}": "mine"})
    wire.tick(T0 + MINUTE)
    assert wire.get("x").promise["tags"][f"resonate:{tag}"] == "mine"


def test_the_schedule_tag_always_names_the_schedule(wire: Wire) -> None:
    wire.schedule("s", promiseId="x", promiseTags={"resonate:schedule": "other"})
    wire.tick(T0 + MINUTE)
    assert wire.get("x").promise["tags"]["resonate:schedule"] == "s"


def test_an_occurrence_whose_promise_exists_counts_as_fired(wire: Wire) -> None:
    before = wire.create("fixed").promise
    wire.schedule("s", promiseId="fixed")
    wire.tick(T0 + MINUTE)
    assert wire.get("fixed").promise == before
    assert stored(wire)["lastRunAt"] == T0 + MINUTE


def test_two_schedules_with_one_template_share_the_promise(wire: Wire) -> None:
    wire.schedule("s1", promiseId="at-{{.timestamp}}")
    wire.schedule("s2", promiseId="at-{{.timestamp}}")
    wire.tick(T0 + MINUTE)
    assert ids(wire.snap()["promises"]) == [f"at-{T0 + MINUTE}"]
    assert stored(wire, "s1")["lastRunAt"] == stored(wire, "s2")["lastRunAt"] == T0 + MINUTE


@pytest.mark.parametrize(("timer", "state"), [(None, "rejected_timedout"), ("true", "resolved")])
def test_an_occurrence_found_past_its_timeout_is_born_settled(
    wire: Wire, timer: str | None, state: str
) -> None:
    tags = {"resonate:target": WORKERS} | ({"resonate:timer": timer} if timer else {})
    wire.schedule("s", "0 * * * *", promiseTags=tags, promiseTimeout=MINUTE)
    wire.tick(T0 + HOUR + MINUTE)
    promise = wire.stored("promises", f"s-{T0 + HOUR}")
    assert (promise["state"], promise["settledAt"]) == (state, T0 + HOUR + MINUTE)
    assert wire.stored("tasks", f"s-{T0 + HOUR}")["state"] == "fulfilled"
    assert wire.messages() == []


def test_a_promise_timeout_of_zero_is_born_settled(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=0)
    wire.tick(T0 + MINUTE)
    assert wire.stored("promises", f"s-{T0 + MINUTE}")["state"] == "rejected_timedout"


def test_the_longest_promise_timeout_ends_at_the_largest_instant(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=INT_MAX)
    wire.tick(T0 + MINUTE)
    assert wire.get(f"s-{T0 + MINUTE}").promise["timeoutAt"] == INT_MAX


@pytest.mark.parametrize("target", ["", "nowhere", "poll://uni@group", "ftp://x"])
def test_a_bad_target_in_the_promise_tags_is_refused(wire: Wire, target: str) -> None:
    assert wire.schedule("s", promiseTags={"resonate:target": target}).status == 400


def test_a_delay_in_the_promise_tags_is_refused(wire: Wire) -> None:
    tags = {"resonate:target": WORKERS, "resonate:delay": str(T0 + HOUR)}
    assert wire.schedule("s", promiseTags=tags).status == 400


def test_deleting_a_schedule_leaves_the_promises_it_made(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    answer = wire.send("schedule.delete", {"id": "s"})
    assert (answer.status, answer.data) == (200, {})
    assert wire.get(f"s-{T0 + MINUTE}").status == 200


def test_a_schedule_may_be_made_anew_after_it_was_deleted(wire: Wire) -> None:
    wire.schedule("s")
    wire.send("schedule.delete", {"id": "s"})
    assert wire.schedule("s", "0 * * * *").schedule["nextRunAt"] == T0 + HOUR


# -- catch-up ----------------------------------------------------------------------------------------------


def test_every_missed_occurrence_fires_when_they_are_few(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + 5 * MINUTE + SECOND)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + minute * MINUTE}" for minute in range(1, 6)]
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + 5 * MINUTE, T0 + 6 * MINUTE)


def test_the_newest_hundred_missed_occurrences_fire_by_default(wire: Wire) -> None:
    wire.schedule("s", promiseTimeout=DAY)
    wire.tick(T0 + 150 * MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + minute * MINUTE}" for minute in range(51, 151)]


@pytest.mark.parametrize("catch_up", [1, 3, 1_000])
def test_a_schedule_says_how_many_missed_occurrences_fire(wire: Wire, catch_up: int) -> None:
    wire.schedule("s", promiseTimeout=DAY, catchUp=catch_up)
    wire.tick(T0 + 150 * MINUTE)
    fired = min(catch_up, 150)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + minute * MINUTE}" for minute in range(151 - fired, 151)]
    assert stored(wire)["nextRunAt"] == T0 + 151 * MINUTE


def test_a_year_of_absence_is_caught_up_in_one_sweep(wire: Wire) -> None:
    wire.schedule("s", "0 * * * *", promiseTimeout=DAY)
    wire.tick(T0 + 365 * DAY)
    assert len(wire.snap()["promises"]) == 100
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + 365 * DAY, T0 + 365 * DAY + HOUR)


def test_a_year_of_missed_seconds_costs_no_more_than_those_that_fire(wire: Wire, backend_name: str) -> None:
    if backend_name == "oracle":
        pytest.skip("the oracle walks through every missed second, on purpose")
    wire.schedule("s", "* * * * * *", promiseTimeout=DAY, catchUp=10)
    now = T0 + 365 * DAY
    wire.tick(now)
    assert ids(wire.snap()["promises"]) == [f"s-{now - second * SECOND}" for second in range(9, -1, -1)]
    assert stored(wire)["nextRunAt"] == now + SECOND


@pytest.mark.parametrize("catch_up", [-1, 1_001, 1.5, "1", True])
def test_a_catch_up_outside_its_limits_is_refused(wire: Wire, catch_up: object) -> None:
    assert wire.schedule("s", catchUp=catch_up).status == 400


def test_with_catch_up_zero_nothing_that_was_missed_is_fired(wire: Wire) -> None:
    wire.schedule("s", "0 * * * *", catchUp=0)
    wire.tick(T0 + 3 * HOUR + MINUTE + 1)
    schedule = stored(wire)
    assert wire.snap()["promises"] == []
    assert ("lastRunAt" in schedule, schedule["nextRunAt"]) == (False, T0 + 4 * HOUR)


@pytest.mark.parametrize("late", [0, 1, MINUTE])
def test_with_catch_up_zero_a_minute_late_is_not_missed(wire: Wire, late: int) -> None:
    wire.schedule("s", "0 * * * *", catchUp=0)
    wire.tick(T0 + 3 * HOUR + late)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + 3 * HOUR}"]
    assert stored(wire)["lastRunAt"] == T0 + 3 * HOUR


# -- overlap -----------------------------------------------------------------------------------------------


def test_occurrences_may_overlap_by_default(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    assert {promise["state"] for promise in wire.snap()["promises"]} == {"pending"}
    assert len(wire.snap()["promises"]) == 2


def test_skip_leaves_an_occurrence_out_while_the_last_one_is_pending(wire: Wire) -> None:
    wire.schedule("s", overlap="skip")
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + MINUTE}"]
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + MINUTE, T0 + 3 * MINUTE)


def test_skip_fires_again_once_the_last_one_is_settled(wire: Wire) -> None:
    wire.schedule("s", overlap="skip")
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    wire.settle(f"s-{T0 + MINUTE}")
    wire.tick(T0 + 3 * MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + MINUTE}", f"s-{T0 + 3 * MINUTE}"]


def test_skip_sees_a_timeout_nobody_wrote_down(wire: Wire) -> None:
    wire.schedule("s", overlap="skip", promiseTimeout=MINUTE)
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    assert len(wire.snap()["promises"]) == 2


def test_replace_cancels_the_last_one_that_is_still_pending(wire: Wire) -> None:
    wire.schedule("s", overlap="replace")
    wire.tick(T0 + MINUTE)
    wire.tick(T0 + 2 * MINUTE)
    states = {promise["id"]: promise["state"] for promise in wire.snap()["promises"]}
    assert states == {f"s-{T0 + MINUTE}": "rejected_canceled", f"s-{T0 + 2 * MINUTE}": "pending"}


def test_replace_leaves_a_settled_one_as_it_is(wire: Wire) -> None:
    wire.schedule("s", overlap="replace")
    wire.tick(T0 + MINUTE)
    settled = wire.settle(f"s-{T0 + MINUTE}").promise
    wire.tick(T0 + 2 * MINUTE)
    assert wire.get(f"s-{T0 + MINUTE}").promise == settled


def test_replace_settles_with_everything_a_settlement_brings(wire: Wire) -> None:
    wire.schedule("s", overlap="replace", promiseTags={"resonate:target": WORKERS})
    wire.tick(T0 + MINUTE)
    first = f"s-{T0 + MINUTE}"
    wire.task_create("t")
    wire.suspend("t", first)
    wire.listen(first)
    wire.tick(T0 + 2 * MINUTE)
    assert wire.task(first)["state"] == "fulfilled"
    assert wire.task("t")["state"] == "pending"
    assert [message["kind"] for message in wire.messages("poll://uni@clients/one")] == ["unblock"]


def test_catching_up_with_replace_leaves_one_pending(wire: Wire) -> None:
    wire.schedule("s", overlap="replace", promiseTimeout=DAY)
    wire.tick(T0 + 4 * MINUTE)
    states = [promise["state"] for promise in wire.snap()["promises"]]
    assert states == ["rejected_canceled"] * 3 + ["pending"]


def test_catching_up_with_skip_fires_the_oldest_of_those_due(wire: Wire) -> None:
    wire.schedule("s", overlap="skip", promiseTimeout=DAY)
    wire.tick(T0 + 4 * MINUTE)
    assert ids(wire.snap()["promises"]) == [f"s-{T0 + MINUTE}"]
    schedule = stored(wire)
    assert (schedule["lastRunAt"], schedule["nextRunAt"]) == (T0 + MINUTE, T0 + 5 * MINUTE)


@pytest.mark.parametrize("overlap", ["", "queue", "SKIP", 1, True])
def test_an_overlap_that_is_none_of_the_three_is_refused(wire: Wire, overlap: object) -> None:
    assert wire.schedule("s", overlap=overlap).status == 400


# -- search ------------------------------------------------------------------------------------------------


def test_a_schedule_search_finds_by_tags_and_prefix(wire: Wire) -> None:
    wire.schedule("a.1", promiseTags={"team": "red"})
    wire.schedule("a.2", promiseTags={"team": "blue"})
    wire.schedule("b.1", promiseTags={"team": "red"})

    def found(**query: object) -> list[str]:
        return ids(wire.send("schedule.search", query).data["schedules"])

    assert found() == ["a.1", "a.2", "b.1"]
    assert found(tags={"team": "red"}) == ["a.1", "b.1"]
    assert found(prefix="a.") == ["a.1", "a.2"]
    assert found(prefix="a.", tags={"team": "red"}) == ["a.1"]


def test_a_page_has_ten_schedules_by_default(wire: Wire) -> None:
    for number in range(11):
        wire.schedule(f"s{number:02}")
    first = wire.send("schedule.search", {})
    assert (len(first.data["schedules"]), first.data["cursor"]) == (10, "s09")
    last = wire.send("schedule.search", {"cursor": "s09"})
    assert ids(last.data["schedules"]) == ["s10"]
    assert "cursor" not in last.data


def test_a_schedule_search_shows_the_records_of_schedule_get(wire: Wire) -> None:
    wire.schedule("s", timezone="UTC")
    wire.tick(T0 + MINUTE)
    assert wire.send("schedule.search", {}, version=A).data["schedules"] == [stored(wire)]
