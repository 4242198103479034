"""Whether a failed step is tried again, and when."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.payloads.errors import BadArguments, BadDuration, BadRetry, StepTimedOut
from holdfast.steps.retry import DELAY_S_MAX, GiveUp, Retry, RetryAfter, next_delay


def after(
    policy: Retry,
    attempt: int,
    error: BaseException | None = None,
    elapsed_s: float = 0.0,
    random: Callable[[], float] = lambda: 0.0,
) -> float | None:
    return next_delay(policy, attempt, elapsed_s, error or ValueError(), random)


class Busy(Exception):
    def __init__(self, retry_after: Any) -> None:
        self.retry_after = retry_after


def test_waits_grow_by_the_factor_up_to_the_largest() -> None:
    policy = Retry(attempts=None, delay="1s", factor=3, delay_max=20, jitter=0)
    assert [after(policy, attempt) for attempt in (1, 2, 3, 4, 5)] == [1, 3, 9, 20, 20]


def test_the_first_try_counts_as_an_attempt() -> None:
    policy = Retry(attempts=3)
    assert after(policy, 2) is not None
    assert after(policy, 3) is None


def test_jitter_spreads_a_wait_by_its_share_up_or_down() -> None:
    policy = Retry(delay=10, jitter=0.5)
    assert after(policy, 1, random=lambda: 0.0) == 5
    assert after(policy, 1, random=lambda: 0.5) == 10
    assert after(policy, 1, random=lambda: 1.0) == 15


def test_a_try_that_would_begin_after_the_time_limit_is_not_made() -> None:
    policy = Retry(delay=10, jitter=0, time_limit="1m")
    assert after(policy, 1, elapsed_s=50) == 10
    assert after(policy, 1, elapsed_s=51) is None


def test_only_the_named_errors_are_retried() -> None:
    policy = Retry(retry_on=(OSError, KeyError))
    assert after(policy, 1, ConnectionError()) is not None
    assert after(policy, 1, ValueError()) is None


def test_giving_up_beats_retrying() -> None:
    policy = Retry(retry_on=LookupError, give_up_on=KeyError)
    assert after(policy, 1, IndexError()) is not None
    assert after(policy, 1, KeyError()) is None


@pytest.mark.parametrize("error", [GiveUp("no such card"), KeyboardInterrupt(), BadArguments("f()")])
def test_some_errors_are_never_retried(error: BaseException) -> None:
    assert after(Retry(retry_on=BaseException), 1, error) is None


def test_a_timeout_is_retried() -> None:
    assert after(Retry(), 1, StepTimedOut("it took too long")) is not None


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(RetryAfter("2m"), 120), (RetryAfter(3, "busy"), 3), (Busy(7), 7), (Busy(0), 0), (Busy("1h"), 3600)],
)
def test_an_error_chooses_its_delay(error: Exception, seconds: float) -> None:
    assert after(Retry(delay=1, delay_max=5), 1, error) == seconds


@pytest.mark.parametrize("asked", [None, "Wed, 21 Oct 2026 07:28:00 GMT", -1, object()])
def test_a_wait_that_is_no_length_of_time_is_ignored(asked: Any) -> None:
    assert after(Retry(delay=1, jitter=0), 1, Busy(asked)) == 1


def test_a_chosen_delay_does_not_lift_the_limits() -> None:
    assert after(Retry(attempts=2), 2, RetryAfter(1)) is None
    assert after(Retry(time_limit=10), 1, RetryAfter(11)) is None


def test_fixed_waits_are_used_one_after_the_other() -> None:
    policy = Retry.fixed([1, 5, "1m"], jitter=0)
    assert [after(policy, attempt) for attempt in (1, 2, 3, 4)] == [1, 5, 60, None]


def test_never_is_one_try() -> None:
    assert after(Retry.never(), 1) is None


@pytest.mark.parametrize("delay_max", [None, "2h", "3d"])
def test_a_first_wait_of_hours_is_as_long_as_asked_for(delay_max: Any) -> None:
    assert after(Retry(delay="2h", delay_max=delay_max, jitter=0), 1) == 7_200
    assert after(Retry.fixed(["2h"], jitter=0), 1) == 7_200


def test_a_thousand_attempts_do_not_overflow() -> None:
    assert after(Retry(attempts=None, delay_max=None, jitter=0), 5000) == DELAY_S_MAX


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"factor": -1},
        {"factor": "2"},
        {"delays": "5s"},
        {"retry_for": []},
        {"retry_for": "SMTP_DOWN"},
        {"retry_for": [ValueError]},
        {"retry_crashes": "no"},
        {"delay": "2h"},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadRetry, match=next(iter(options))):
        Retry(**options)


def test_a_bad_duration_is_refused_when_the_policy_is_made() -> None:
    with pytest.raises(BadDuration, match="soon"):
        Retry(delay="soon")


def test_a_policy_is_a_value() -> None:
    assert Retry(delay=2) == Retry(delay=2)
    with pytest.raises(AttributeError):
        Retry().attempts = 3  # type: ignore[misc]
