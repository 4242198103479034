"""When a failed task is tried again: from a `Retry`, as people write it, to the rule that the engine applies.

1. A rule is part of what is sent: it travels with the task, also through schedules and workflow calls, and
   changing the `Retry` in the code changes nothing for what is queued already.
2. The engine knows nothing of Python's classes of errors: `retry_for` lists codes, and what is about classes
   is refused. So is every other option of a `Retry` that the rule has no place for.
3. `retry_for` is about what the function says. That its worker died is no answer of the function's: it is
   tried again whatever is listed, unless `retry_crashes=False`.
4. The engine spreads each wait by a quarter up or down, or not at all. A retry that would begin at or after
   `good_until` is not made.
"""

from typing import Any, Final

from holdfast.jobs.codes import check_code
from holdfast.jobs.errors import BadPolicy, TasksError
from holdfast.payloads.durations import Duration, duration_s
from holdfast.protocol import limits
from holdfast.protocol.jobs import WORKER_CRASHED, RetryRule
from holdfast.steps.retry import JITTER_DEFAULT, Retry

attempts_max: Final = limits.job_retries_max + 1


def rule_of(retry: Retry) -> RetryRule | None:
    """The rule of the protocol that a `Retry` stands for; None for one try."""
    _refuse_what_is_for_steps(retry)
    retries = _retries(retry.attempts)
    codes = _codes(retry)
    jitter = _jitter(retry.jitter)
    delays = tuple(_millis("delays", delay) for delay in retry.delays)
    factor, first_ms = _factor(retry.factor), _millis("delay", retry.delay)
    longest_ms = limits.job_retry_ms_max if retry.delay_max is None else _millis("delay_max", retry.delay_max)
    if not retries:
        return None
    common: dict[str, Any] = {"codes": codes, "jitter": jitter, "crashes": retry.retry_crashes}
    if delays:
        return RetryRule(retries=retries, delays=delays, **common)
    return RetryRule(retries=retries, base=first_ms, factor=factor, max=longest_ms, **common)


def _refuse_what_is_for_steps(retry: Retry) -> None:
    if retry.retry_on is not Exception or retry.give_up_on:
        raise BadPolicy(
            "retry_on and give_up_on are for steps: for a task, give the class a code with exception_codes, "
            "and list the code in retry_for"
        )
    if retry.time_limit is not None:
        raise BadPolicy("time_limit is for the retries of a step: for a task use attempts, or good_until")


def _retries(attempts: int | None) -> int:
    if attempts is None or attempts > attempts_max:
        raise BadPolicy(
            f"attempts, which counts the first try, must be 1 to {attempts_max} for a task, not {attempts}"
        )
    return attempts - 1


def _factor(factor: float) -> float:
    most = limits.job_retry_factor_max
    if not 1 <= factor <= most:
        raise BadPolicy(f"factor, for a task, is a number from 1 to {most:g}, not {factor!r}")
    return float(factor)


def _jitter(jitter: float) -> bool:
    if jitter not in (0, JITTER_DEFAULT):
        raise BadPolicy(f"jitter, for a task, is 0 or {JITTER_DEFAULT}, not {jitter!r}")
    return jitter != 0


def _millis(name: str, delay: Duration) -> int:
    span_ms = round(duration_s(delay) * 1000)
    if not limits.job_retry_ms_min <= span_ms <= limits.job_retry_ms_max:
        raise BadPolicy(f"{name}: a task waits from 1 ms to 30 days, not {delay!r}")
    return span_ms


def _codes(retry: Retry) -> tuple[str, ...] | None:
    if retry.retry_for is None:
        return None
    try:
        codes = tuple(str(check_code(code)) for code in retry.retry_for)
    except TasksError as error:
        raise BadPolicy(f"retry_for: {error.what}") from error
    if not retry.retry_crashes and WORKER_CRASHED in codes:
        raise BadPolicy(f"retry_for lists {WORKER_CRASHED}, which retry_crashes=False forbids: leave one out")
    return codes
