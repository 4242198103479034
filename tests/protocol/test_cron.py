"""Occurrences of schedules: POSIX cron, time zones, and long absences."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, product
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError

from holdfast.protocol.cron import check_cron, check_timezone, due_occurrences, next_occurrence
from holdfast.protocol.cron_walk import CronWalk
from tests.counts import rest_slow

NEW_YORK = "America/New_York"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_the_next_occurrence_lies_strictly_after_the_instant() -> None:
    noon = at("2026-03-01T12:00")
    assert next_occurrence("0 12 * * *", None, noon) == at("2026-03-02T12:00")
    assert next_occurrence("0 12 * * *", None, noon - 1) == noon


def test_day_of_month_and_day_of_week_are_joined_by_or() -> None:
    # The 13th, and every Friday. 2026-03-01 is a Sunday.
    found = due_occurrences("0 0 13 * 5", None, at("2026-03-01"), at("2026-03-20T01:00"), 100)
    assert found == [at("2026-03-06"), at("2026-03-13"), at("2026-03-20")]


@pytest.mark.parametrize("sunday", ["0", "7", "SUN", "sun"])
def test_sunday_has_four_names(sunday: str) -> None:
    assert next_occurrence(f"0 0 * * {sunday}", None, at("2026-03-02")) == at("2026-03-08")


@pytest.mark.parametrize("weekend", ["SAT-SUN", "sat-sun", "6-7", "SAT,SUN", "6,0"])
def test_a_week_may_end_on_sunday(weekend: str) -> None:
    found = due_occurrences(f"0 0 * * {weekend}", None, at("2026-03-02"), at("2026-03-09"), 9)
    assert found == [at("2026-03-07"), at("2026-03-08")]


def test_a_day_field_that_begins_with_a_star_is_not_restricted_so_both_must_match() -> None:
    found = due_occurrences("0 0 */2 * MON", None, at("2026-03-01"), at("2026-03-31"), 9)
    assert found == [at("2026-03-09"), at("2026-03-23")]


def test_a_sixth_leading_field_counts_seconds() -> None:
    assert next_occurrence("*/15 * * * * *", None, at("2026-03-01")) == at("2026-03-01T00:00:15")


def test_only_the_newest_missed_occurrences_are_due_and_oldest_comes_first() -> None:
    found = due_occurrences("* * * * *", None, at("2026-01-01"), at("2026-03-01T00:00:30"), 3)
    assert found == [at("2026-02-28T23:58"), at("2026-02-28T23:59"), at("2026-03-01")]


def test_the_first_and_the_last_occurrence_count() -> None:
    first, last = at("2026-03-01T00:00"), at("2026-03-01T00:02")
    assert due_occurrences("* * * * *", None, first, last, 100) == [first, first + 60_000, last]


@pytest.mark.parametrize("minute", range(0, 60, 7))
def test_a_year_of_minutes_is_not_walked_through(minute: int) -> None:
    until = at("2026-06-01") + minute * 60_000 + 500
    found = due_occurrences("* * * * *", None, at("2025-06-01"), until, 100)
    assert len(found) == 100
    assert found[-1] == until - 500


def test_a_time_that_the_clock_skips_still_happens_once_that_day() -> None:
    # On 2026-03-08 New York goes from 02:00 to 03:00.
    found = due_occurrences("30 2 * * *", NEW_YORK, at("2026-03-07T12:00"), at("2026-03-09T12:00"), 10)
    assert len(found) == 2
    assert found[0] == at("2026-03-08T07:00")


def test_a_time_that_the_clock_repeats_happens_once() -> None:
    # On 2026-11-01 New York goes from 02:00 back to 01:00.
    found = due_occurrences("30 1 * * *", NEW_YORK, at("2026-11-01T00:00"), at("2026-11-02T00:00"), 10)
    assert found == [at("2026-11-01T05:30")]


@pytest.mark.parametrize(
    "after", ["2026-11-01T05:30", "2026-11-01T06:10", "2026-11-01T06:30", "2026-11-01T06:50"]
)
def test_from_within_an_hour_that_the_clock_repeats_the_next_occurrence_lies_after_the_instant(
    after: str,
) -> None:
    assert next_occurrence("30 1 * * *", NEW_YORK, at(after)) == at("2026-11-02T06:30")
    assert due_occurrences("30 1 * * *", NEW_YORK, at(after) + 1, at("2026-11-02T06:00"), 9) == []


def test_nothing_recurs_at_the_end_of_time() -> None:
    end = 2**53 - 1
    assert next_occurrence("0 0 1 1 *", None, end) == end
    found = due_occurrences("0 0 1 1 *", None, at("2026-03-01"), end, 2)
    assert found == sorted(found)
    assert len(found) == 2


@pytest.mark.parametrize(("since", "until"), [("2026-03-01", "2026-04-10"), ("2026-10-01", "2026-11-05")])
@pytest.mark.parametrize("zone", [None, NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 0 1 * *", "15 1,3 * * SUN", "0 */7 * * *"])
def test_stepping_forward_and_catching_up_agree(zone: str | None, cron: str, since: str, until: str) -> None:
    walked: list[int] = []
    instant = next_occurrence(cron, zone, at(since) - 1)
    while instant <= at(until):
        walked.append(instant)
        instant = next_occurrence(cron, zone, instant)
    for most in (1, 7, 100):
        assert due_occurrences(cron, zone, walked[0], at(until), most) == walked[-most:]


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "*/0 * * * *", "a b c d e", "@daily", "0 0 31 4,6 *"]
)
def test_an_expression_that_means_nothing_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(cron)


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/passwd",
        "Europe",
        "\0",
        "localtime",
        "right/Europe/Berlin",
    ],
)
def test_a_place_without_a_clock_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="timezone"):
        check_timezone(zone)


def _calls(work: Callable[[], object]) -> int:
    """How many functions were entered: a measure of work that does not depend on the machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with suppress(ValueError):
            work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("cron", ["*/59 */59 */31 * 6L", "0 0 */31 * 1#2"])
def test_an_expression_that_never_matches_is_refused_after_few_steps_and_remembered(
    cron: str,
) -> None:
    with pytest.raises(ValueError, match="never matches"):
        check_cron(cron + " ")
    assert _calls(lambda: check_cron(cron)) < 2_000
    assert _calls(lambda: check_cron(cron)) < 10


@pytest.mark.parametrize("cron", ["0 0 */28 2 1#5", "0 0 29 2 *", "0 0 */30 * 3#5"])
def test_a_rare_occurrence_is_found_in_few_steps(cron: str) -> None:
    start = at("2080-03-01")  # 2100 is no leap year
    assert start < next_occurrence(cron, None, start) < at("2125-01-01")
    assert _calls(lambda: next_occurrence(cron, None, start)) < 8_000
    assert _calls(lambda: due_occurrences(cron, None, start, start + 1, 10)) < 16_000


def test_an_unknown_time_zone_is_remembered() -> None:
    assert _calls(lambda: check_timezone("Nowhere/At_All")) > 10
    assert _calls(lambda: check_timezone("Nowhere/At_All")) < 10


_DATES = ("*", "L", "LW", "31", "29", "1-7", "*/31", "*/28", "L,LW,15", "13", "*/2")
_WEEKDAYS = ("*", "1", "0", "7", "5L", "0L", "1#5", "3#1", "7#2", "1#5,3L,5", "*/6", "MON-FRI", "*/3")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("zone", rest_slow([NEW_YORK, "UTC"], quick=1))
def test_months_are_stepped_through_to_the_same_days_that_cronsim_finds(zone: str, reverse: bool) -> None:
    start = datetime(2026, 3, 8, 6, 30, tzinfo=UTC if zone == "UTC" else ZoneInfo(zone))
    for dates, weekdays, months in product(_DATES, _WEEKDAYS, ("*", "2", "4,12")):
        cron = f"30 2 {dates} {months} {weekdays}"
        try:
            theirs = CronSim(cron, start, reverse)
        except CronSimError:
            continue
        ours = CronWalk(cron, start, reverse)
        expected = [*islice(theirs, 3)]
        assert [*islice(ours, 3)] == expected, cron
        assert ours.can_match == bool(expected), cron
