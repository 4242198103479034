"""Whether a failed step is tried again, and when. Pure: time and chance are parameters.

1. `attempts` counts every try, the first included. `time_limit` counts from the start of the first try;
   a try that would begin after it is not made.
2. An error may choose its own delay, by a `retry_after` attribute (a number of seconds, a duration text or a
   timedelta). That replaces the policy's delay, also past `delay_max`; the limits of 1 still hold.
3. `GiveUp`, an error whose `retryable` is False, and what is not an `Exception` are never tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Final

from msgspec import Struct

from holdfast.worker.durations import Duration, duration_s
from holdfast.worker.errors import BadRetry

ErrorClasses = type[BaseException] | tuple[type[BaseException], ...]

ATTEMPTS_DEFAULT: Final = 5
DELAY_S_MAX: Final = 365 * 86400.0


class GiveUp(Exception):
    """Raise this in a step to fail it for good, whatever its policy says: `raise GiveUp("no such card")`."""


class RetryAfter(Exception):
    """Raise this in a step to have it tried again after a delay of the step's choosing."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(delay if isinstance(delay, int | float | str) else delay.total_seconds(), message)
        self.retry_after = duration_s(delay)

    def __str__(self) -> str:
        return str(self.args[1]) or f"try again after {self.retry_after:g} s"


class Retry(Struct, frozen=True, kw_only=True):
    """How often and how patiently a step is tried.

    `Retry(attempts=5, delay="1s", give_up_on=CardRefused)`. The n-th wait is `delay * factor ** (n - 1)`, at
    most `delay_max`, less a random share of it: up to `jitter`, which is 0 (exact) to 1 (anything).

    The waits happen in the worker that performs the step, which keeps its lease meanwhile. After a crash
    the step begins again with its first attempt.
    """

    attempts: int | None = ATTEMPTS_DEFAULT
    delay: Duration = 1.0
    factor: float = 2.0
    delay_max: Duration | None = 60.0
    jitter: float = 0.2
    time_limit: Duration | None = None
    retry_on: ErrorClasses = Exception
    give_up_on: ErrorClasses = ()
    delays: tuple[Duration, ...] = ()

    def __post_init__(self) -> None:
        if self.attempts is not None and (type(self.attempts) is not int or self.attempts < 1):
            raise BadRetry(f"attempts counts the first try too, so it cannot be {self.attempts!r}")
        if not (isfinite(self.factor) and self.factor >= 0):
            raise BadRetry(f"factor cannot be {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise BadRetry(f"jitter is a share between 0 and 1, not {self.jitter}")
        for duration in (self.delay, self.delay_max, self.time_limit, *self.delays):
            if duration is not None:
                duration_s(duration)
        _check_classes("retry_on", self.retry_on)
        _check_classes("give_up_on", self.give_up_on)

    @staticmethod
    def never() -> Retry:
        """One try."""
        return NEVER

    @staticmethod
    def exponential(
        delay: Duration = 1.0,
        *,
        factor: float = 2.0,
        delay_max: Duration | None = 60.0,
        attempts: int | None = ATTEMPTS_DEFAULT,
        jitter: float = 0.2,
        time_limit: Duration | None = None,
    ) -> Retry:
        """Waits that grow by `factor`."""
        return Retry(
            attempts=attempts,
            delay=delay,
            factor=factor,
            delay_max=delay_max,
            jitter=jitter,
            time_limit=time_limit,
        )

    @staticmethod
    def fixed(delays: Sequence[Duration]) -> Retry:
        """One try, then one after each of these waits: `Retry.fixed([1, 5, "1m"])` is four tries at most."""
        return Retry(attempts=len(delays) + 1, delays=tuple(delays), jitter=0.0, delay_max=None)


def next_delay(
    policy: Retry, attempt: int, elapsed_s: float, error: BaseException, random: Callable[[], float]
) -> float | None:
    """Seconds to wait after the `attempt`-th try (from 1) failed with `error`, or None: give up."""
    if policy.attempts is not None and attempt >= policy.attempts:
        return None
    if not _worth_it(policy, error):
        return None
    chosen = chosen_by(error)
    delay = chosen if chosen is not None else _planned(policy, attempt) * (1.0 - policy.jitter * random())
    if policy.time_limit is not None and elapsed_s + delay > duration_s(policy.time_limit):
        return None
    return delay


def _check_classes(name: str, classes: ErrorClasses) -> None:
    if not all(map(_is_error_class, classes if isinstance(classes, tuple) else (classes,))):
        raise BadRetry(f"{name} is a class of errors or a tuple of them, not {classes!r}")


def _is_error_class(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)


def _worth_it(policy: Retry, error: BaseException) -> bool:
    if isinstance(error, GiveUp) or not isinstance(error, Exception):
        return False
    if wish_of(error, "retryable") is False:
        return False
    return isinstance(error, policy.retry_on) and not isinstance(error, policy.give_up_on)


def wish_of(error: BaseException, name: str) -> Any:
    """An attribute by which an error has a say, or None. A property that raises wishes for nothing."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def chosen_by(error: BaseException) -> float | None:
    """The delay that the error asks for."""
    wish = wish_of(error, "retry_after")
    if wish is None:
        return None
    try:
        return duration_s(wish)
    except Exception:  # some library's own notion of retry_after, such as an HTTP date
        return None


def _planned(policy: Retry, attempt: int) -> float:
    if policy.delays:
        return duration_s(policy.delays[min(attempt, len(policy.delays)) - 1])
    limit = DELAY_S_MAX if policy.delay_max is None else duration_s(policy.delay_max)
    first = duration_s(policy.delay)
    try:
        return min(limit, first * policy.factor ** (attempt - 1))
    except OverflowError:
        return limit


NEVER: Final = Retry(attempts=1)
