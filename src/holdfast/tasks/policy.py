"""When a failed task is tried again. The engine applies the rule; this is how people write it.

1. `attempts` counts every try, the first included; so does the length of a fixed list plus one.
2. A policy is part of what is sent: it travels with the task, also through schedules and workflow calls, and
   changing it in the code changes nothing for what is queued already.
3. Each wait is spread by a quarter up or down, unless `jitter=False`. A retry that would begin at or after
   `good_until` is not made.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.protocol import limits
from holdfast.tasks.codes import check_code
from holdfast.tasks.errors import BadPolicy, TasksError
from holdfast.tasks.findings import named_options, read_options
from holdfast.worker.durations import Duration, duration_s
from holdfast.worker.errors import BadDuration

attempts_max: Final = limits.job_retries_max + 1


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Made by `RetryPolicy.fixed` or `RetryPolicy.exponential`."""

    retries: int
    delays_ms: tuple[int, ...] = ()
    base_ms: int = 0
    factor: float = 2.0
    longest_ms: int = limits.job_retry_ms_max
    jitter: bool = True
    retry_for: tuple[str, ...] | None = None

    @staticmethod
    @named_options("a fixed retry policy")
    def fixed(
        delays: Sequence[Duration], *, retry_for: Iterable[str] | None = None, jitter: bool = True
    ) -> "RetryPolicy":
        """One try, then one after each of these waits: `fixed([1, 5, "1m"])` is four tries at most."""
        read = read_options(_policy, {"delays": delays, "retry_for": retry_for}, _readers)
        delays_ms = read.get("delays", ())
        return RetryPolicy(
            retries=len(delays_ms), delays_ms=delays_ms, jitter=jitter, retry_for=read.get("retry_for")
        )

    @staticmethod
    @named_options("an exponential retry policy")
    def exponential(
        base: Duration = 1,
        attempts: int = 5,
        *,
        factor: float = 2.0,
        longest: Duration = "1h",
        retry_for: Iterable[str] | None = None,
        jitter: bool = True,
    ) -> "RetryPolicy":
        """Waits of `base`, `base * factor`, ... up to `longest`. Without `retry_for` every failure counts."""
        given = {
            "attempts": attempts,
            "base": base,
            "factor": factor,
            "longest": longest,
            "retry_for": retry_for,
        }
        read = read_options(_policy, given, _readers)
        return RetryPolicy(
            retries=read.get("attempts", 0),
            base_ms=read.get("base", limits.job_retry_ms_min),
            factor=read.get("factor", 2.0),
            longest_ms=read.get("longest", limits.job_retry_ms_max),
            jitter=jitter,
            retry_for=read.get("retry_for"),
        )

    def covers(self, code: str) -> bool:
        """Does a failure with this code count?"""
        return self.retry_for is None or code in self.retry_for


def _delays(delays: Sequence[Duration]) -> tuple[int, ...]:
    if isinstance(delays, str) or not delays:
        raise BadPolicy("The delays of a fixed policy are a list with at least one length of time")
    _retries(len(delays) + 1)
    return tuple(_millis("delays", delay) for delay in delays)


def _factor(factor: float) -> float:
    most = limits.job_retry_factor_max
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= most:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadPolicy(f"factor is a number from 1 to {most:g}, not {factor!r}")
    return float(factor)


def _retries(attempts: int) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= attempts_max:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadPolicy(f"attempts counts the first try too and is from 1 to {attempts_max}, not {attempts}")
    return attempts - 1


def _millis(name: str, delay: Duration) -> int:
    try:
        span_ms = round(duration_s(delay) * 1000)
    except BadDuration as error:
        raise BadPolicy(f"{name}: {error.what}") from error
    if not limits.job_retry_ms_min <= span_ms <= limits.job_retry_ms_max:
        raise BadPolicy(f"{name}: {delay!r} is no time to wait for a retry: that is from 1 ms to 30 days")
    return span_ms


def _codes(codes: Iterable[str] | None) -> tuple[str, ...] | None:
    if codes is None:
        return None
    if isinstance(codes, str):
        raise BadPolicy("retry_for is a list of error codes, not one text")
    found: list[str] = []
    for code in cast(Iterable[object], codes):
        if isinstance(code, type):
            raise BadPolicy(
                f"retry_for names error codes: give {code.__name__} one by exception_codes, and name that"
            )
        try:
            found.append(str(check_code(cast(str, code))))
        except TasksError as error:
            raise BadPolicy(f"retry_for: {error.what}") from error
    if not found:
        raise BadPolicy("retry_for names no code, so nothing would be retried; leave the policy out instead")
    return tuple(found)


_policy: Final = "a retry policy"
_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "delays": _delays,
    "attempts": _retries,
    "base": partial(_millis, "base"),
    "factor": _factor,
    "longest": partial(_millis, "longest"),
    "retry_for": _codes,
}
