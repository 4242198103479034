"""Retry policies: what may be written, and which rule it stands for."""

from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.protocol.jobs import RetryRule
from holdfast.tasks.order import retry_rule

fixed, exponential = hf.RetryPolicy.fixed, hf.RetryPolicy.exponential


def test_attempts_count_the_first_try() -> None:
    policy = exponential(base=1, attempts=5, retry_for=["SMTP_DOWN"])
    rule = retry_rule(policy)
    assert rule == RetryRule(
        retries=4, base=1_000, factor=2.0, max=3_600_000, codes=("SMTP_DOWN",), jitter=True
    )


def test_a_fixed_list_is_one_retry_each() -> None:
    rule = retry_rule(fixed([1, "5s", "1m"], jitter=False))
    assert rule == RetryRule(retries=3, delays=(1_000, 5_000, 60_000))


def test_without_codes_every_failure_counts() -> None:
    assert fixed([1]).covers("WORKER_CRASHED")
    assert fixed([1], retry_for=["A"]).covers("A")
    assert not fixed([1], retry_for=["A"]).covers("WORKER_CRASHED")


def test_one_attempt_is_no_retry() -> None:
    assert retry_rule(exponential(attempts=1)) is None
    assert retry_rule(None) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: fixed([]),
        lambda: fixed("5s"),
        lambda: fixed(["soon"]),
        lambda: fixed([0]),
        lambda: fixed(["31d"]),
        lambda: fixed([1] * 101),
        lambda: exponential(attempts=0),
        lambda: exponential(attempts=102),
        lambda: exponential(attempts=True),
        lambda: exponential(base=-1),
        lambda: exponential(base=0),
        lambda: exponential(factor=0.5),
        lambda: exponential(factor=11),
        lambda: exponential(factor=cast(Any, "2")),
        lambda: exponential(retry_for=[]),
        lambda: exponential(retry_for="SMTP_DOWN"),
        lambda: exponential(retry_for=["smtp"]),
        lambda: exponential(retry_for=cast(Any, [ValueError])),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_where_it_is_written(make: Any) -> None:
    with pytest.raises(hf.BadPolicy):
        make()


def test_any_policy_that_can_be_written_is_a_rule_of_the_protocol() -> None:
    assert retry_rule(fixed([0.001] * 100)) is not None
    assert retry_rule(exponential(base="30d", attempts=101, factor=10, longest="30d")) is not None
