"""What a `Retry` means for a task: which rule of the protocol it stands for, and what is refused."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.jobs.policy import rule_of
from holdfast.payloads.errors import WorkerError
from holdfast.protocol.jobs import RetryRule


def test_attempts_count_the_first_try() -> None:
    rule = rule_of(hf.Retry(delay=1, attempts=5, retry_for=["SMTP_DOWN"]))
    assert rule == RetryRule(
        retries=4, base=1_000, factor=2.0, max=3_600_000, codes=("SMTP_DOWN",), jitter=True
    )


def test_a_fixed_list_is_one_retry_each() -> None:
    rule = rule_of(hf.Retry.fixed([1, "5s", "1m"], jitter=0))
    assert rule == RetryRule(retries=3, delays=(1_000, 5_000, 60_000))


def test_a_crash_counts_unless_it_is_said_not_to() -> None:
    for retry, crashes in ((hf.Retry(retry_for=["A"]), True), (hf.Retry(retry_crashes=False), False)):
        rule = rule_of(retry)
        assert rule is not None
        assert rule.covers("WORKER_CRASHED") is crashes


def test_one_attempt_is_no_retry() -> None:
    assert rule_of(hf.Retry(attempts=1)) is None
    assert rule_of(hf.Retry.never()) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: hf.Retry.fixed([]),
        lambda: hf.Retry.fixed("5s"),
        lambda: hf.Retry.fixed(["soon"]),
        lambda: hf.Retry(attempts=0),
        lambda: hf.Retry(attempts=True),
        lambda: hf.Retry(delay=-1),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_where_it_is_written(make: Any) -> None:
    with pytest.raises(WorkerError):
        make()


@pytest.mark.parametrize(
    "retry",
    [
        hf.Retry.fixed([0]),
        hf.Retry.fixed(["31d"]),
        hf.Retry.fixed([1] * 101),
        hf.Retry(attempts=102),
        hf.Retry(attempts=None),
        hf.Retry(delay=0),
        hf.Retry(factor=0.5),
        hf.Retry(factor=11),
        hf.Retry(jitter=0.5),
        hf.Retry(time_limit="1h"),
        hf.Retry(retry_on=KeyError),
        hf.Retry(give_up_on=KeyError),
        hf.Retry(retry_for=["smtp"]),
        hf.Retry(retry_for=["A", "WORKER_CRASHED"], retry_crashes=False),
    ],
    ids=repr,
)
def test_what_a_task_cannot_have_is_refused_where_the_task_is_declared(retry: hf.Retry) -> None:
    def job() -> None: ...

    with pytest.raises(hf.errors.BadPolicy):
        hf.App("memory:").task(retry=retry)(job)


def test_what_is_no_retry_is_refused_where_the_task_is_declared() -> None:
    declare: Any = hf.App("memory:").task
    with pytest.raises(hf.errors.BadOption, match="retry must be a Retry, not int"):
        declare(retry=5)(print)


def test_the_longest_retry_is_a_rule_of_the_protocol() -> None:
    assert rule_of(hf.Retry.fixed([0.001] * 100)) is not None
    assert rule_of(hf.Retry(delay="30d", attempts=101, factor=10, delay_max="30d")) is not None
