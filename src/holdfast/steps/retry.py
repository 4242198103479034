"""`Retry`, for steps and tasks, and whether a failed step is tried again, and when. Time and chance are
parameters. What a `Retry` means for a task is jobs/policy.py's.

1. `attempts` counts every try, the first included. `time_limit` counts from the start of the first try;
   a try that would begin after it is not made.
2. An error may choose its own delay, by a `retry_after` attribute (a number of seconds, a duration text or a
   timedelta). That replaces the policy's delay, also past `delay_max`; the limits of 1 still hold.
3. `GiveUp`, an error whose `retryable` is False, and what is not an `Exception` are never tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields, force_setattr

from holdfast.payloads.durations import Duration, duration_s, seconds
from holdfast.payloads.errors import BadRetry, WorkerError
from holdfast.payloads.findings import note

ErrorClasses = type[BaseException] | tuple[type[BaseException], ...]

ATTEMPTS_DEFAULT: Final = 5
JITTER_DEFAULT: Final = 0.25
DELAY_S_MAX: Final = 365 * 86400.0


class GiveUp(Exception):
    """Raise this in a step to fail it for good, whatever its policy says: `raise GiveUp("no such card")`."""


class RetryAfter(Exception):
    """Raise this in a step or a task to have it tried again after a delay that you choose.

    It counts as an attempt. `raise RetryAfter("2m")`
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(delay if isinstance(delay, int | float | str) else delay.total_seconds(), message)
        self.retry_after = duration_s(delay)

    def __str__(self) -> str:
        return str(self.args[1]) or f"try again after {self.retry_after:g} s"


class Snooze(Exception):
    """Raise this in a background task to be run again later: `raise hf.Snooze("10m")`.

    It is no failure: the attempt is not counted, and holds no worker meanwhile. At most 30 days; deadlines
    (`good_until`, `timeout`) still pass. In a step of a workflow it is an error like any other: use
    `hf.sleep` there.
    """

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay if isinstance(delay, int | float | str) else delay.total_seconds())
        self.delay_s = duration_s(delay)

    def __str__(self) -> str:
        return f"run again after {self.delay_s:g} s"


class Retry(Struct, frozen=True, kw_only=True):
    """How often a step or a background task is tried, and with which waits.

    `Retry(attempts=5, delay="1s")`. The n-th wait is `delay * factor ** (n - 1)`.

    `attempts`: how often it is tried; the first attempt counts. `delay`: the first wait. `factor`: by which
    each wait is longer than the one before. `delay_max`: the longest wait. `delays`: a list of waits instead;
    its last one is repeated. `jitter`: the share by which a wait varies up or down; 0 is exact.
    `time_limit`: of a step, for all its attempts together. `retry_on`, `give_up_on`: of a step, classes of
    errors. `retry_for`: of a task, error codes. `retry_crashes`: False: a task is not tried again after its
    worker died.

    Options for steps are refused for a task, and the other way round.

    A wait of a step of five seconds or more holds nothing: the attempts so far, their errors and the next
    instant are stored, and the execution is suspended. After a crash the count continues from there. The
    waits and the attempts of a task are always stored.
    """

    attempts: int | None = ATTEMPTS_DEFAULT
    delay: Duration = 1.0
    factor: float = 2.0
    delay_max: Duration | None = 3600.0
    delays: Sequence[Duration] = ()
    jitter: float = JITTER_DEFAULT
    time_limit: Duration | None = None
    retry_on: ErrorClasses = Exception
    give_up_on: ErrorClasses = ()
    retry_for: Sequence[str] | None = None
    retry_crashes: bool = True

    def __post_init__(self) -> None:
        for name, read in _readers.items():
            try:
                value = read(getattr(self, name))
            except WorkerError as error:
                note(error)
                value = _harmless[name]
            force_setattr(self, name, value)
        most = _harmless["delay_max"]
        if not self.delays and self.delay_max == most and duration_s(self.delay) > most:
            note(
                BadRetry(
                    f"delay={self.delay!r} is longer than the default delay_max, 1h: give delay_max, too"
                )
            )
            force_setattr(self, "delay", most)

    @staticmethod
    def never() -> Retry:
        """One try."""
        return NEVER

    @staticmethod
    def fixed(
        delays: Sequence[Duration],
        *,
        jitter: float = JITTER_DEFAULT,
        retry_on: ErrorClasses = Exception,
        give_up_on: ErrorClasses = (),
        retry_for: Sequence[str] | None = None,
        retry_crashes: bool = True,
    ) -> Retry:
        """One try, then one after each of these waits: `Retry.fixed([1, 5, "1m"])` is four tries at most."""
        if isinstance(delays, str) or not delays:
            note(BadRetry("The delays of a fixed Retry are a list with at least one duration"))
            return NEVER
        return Retry(
            attempts=len(delays) + 1,
            delays=delays,
            jitter=jitter,
            retry_on=retry_on,
            give_up_on=give_up_on,
            retry_for=retry_for,
            retry_crashes=retry_crashes,
        )


def check_for_step(retry: Retry) -> None:
    """Refuse what only a background task can have."""
    if retry.retry_for is not None:
        raise BadRetry(
            "retry_for lists error codes, which only tasks have: for a step name classes in retry_on"
        )
    if not retry.retry_crashes:
        raise BadRetry(
            "retry_crashes=False is for tasks: a step that a crash interrupts is always performed again"
        )


def next_delay(
    policy: Retry, attempt: int, elapsed_s: float, error: BaseException, random: Callable[[], float]
) -> float | None:
    """Seconds to wait after the `attempt`-th try (from 1) failed with `error`, or None: give up."""
    if policy.attempts is not None and attempt >= policy.attempts:
        return None
    if not _worth_it(policy, error):
        return None
    chosen = chosen_by(error)
    spread = 1.0 + policy.jitter * (2.0 * random() - 1.0) if policy.jitter else 1.0
    delay = chosen if chosen is not None else _planned(policy, attempt) * spread
    if policy.time_limit is not None and elapsed_s + delay > duration_s(policy.time_limit):
        return None
    return delay


def _attempts(attempts: int | None) -> int | None:
    if attempts is not None and (type(attempts) is not int or attempts < 1):
        raise BadRetry(f"attempts must be a whole number from 1 (the first try counts), not {attempts!r}")
    return attempts


def _factor(factor: float) -> float:
    if not _is_number(factor) or not (isfinite(factor) and factor >= 0):
        raise BadRetry(f"factor cannot be {factor!r}")
    return factor


def _delays(delays: Sequence[Duration]) -> tuple[Duration, ...]:
    if not isinstance(delays, list | tuple):
        raise BadRetry(f"delays is a list of lengths of time, not {delays!r}")
    for delay in delays:
        seconds("delays", delay)
    return tuple(delays)


def _jitter(jitter: float) -> float:
    if not _is_number(jitter) or not 0 <= jitter <= 1:
        raise BadRetry(f"jitter is a share between 0 and 1, not {jitter!r}")
    return jitter


def _duration(name: str, duration: Duration | None) -> Duration | None:
    seconds(name, duration)
    return duration


def _classes(name: str, classes: ErrorClasses) -> ErrorClasses:
    if not all(map(_is_error_class, classes if isinstance(classes, tuple) else (classes,))):
        raise BadRetry(f"{name} is a class of errors or a tuple of them, not {classes!r}")
    return classes


def _codes(codes: Any) -> tuple[str, ...] | None:
    if codes is None:
        return None
    if isinstance(codes, str) or not hasattr(codes, "__iter__"):
        raise BadRetry(f"retry_for is a list of error codes, not {codes!r}")
    found: tuple[Any, ...] = tuple(codes)
    if not found:
        raise BadRetry("retry_for names no code, so nothing would be retried: leave the Retry out instead")
    for code in found:
        if not isinstance(code, str):
            what = code.__name__ if isinstance(code, type) else repr(code)
            raise BadRetry(f"retry_for names error codes: give {what} one by exception_codes, and name that")
    return found


def _crashes(retry_crashes: bool) -> bool:
    if type(retry_crashes) is not bool:
        raise BadRetry(f"retry_crashes is True or False, not {retry_crashes!r}")
    return retry_crashes


def _is_number(given: object) -> bool:
    return isinstance(given, int | float)


def _is_error_class(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)


def _worth_it(policy: Retry, error: BaseException) -> bool:
    if isinstance(error, GiveUp) or not isinstance(error, Exception):
        return False
    if attribute_of(error, "retryable") is False:
        return False
    return isinstance(error, policy.retry_on) and not isinstance(error, policy.give_up_on)


def attribute_of(error: BaseException, name: str) -> Any:
    """An attribute by which an error chooses, or None. A property that raises chooses nothing."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def chosen_by(error: BaseException) -> float | None:
    """The delay that the error asks for."""
    chosen = attribute_of(error, "retry_after")
    if chosen is None:
        return None
    try:
        return duration_s(chosen)
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


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "attempts": _attempts,
    "delay": partial(_duration, "delay"),
    "factor": _factor,
    "delay_max": partial(_duration, "delay_max"),
    "delays": _delays,
    "jitter": _jitter,
    "time_limit": partial(_duration, "time_limit"),
    "retry_on": partial(_classes, "retry_on"),
    "give_up_on": partial(_classes, "give_up_on"),
    "retry_for": _codes,
    "retry_crashes": _crashes,
}
_harmless: Final[dict[str, Any]] = {field.name: field.default for field in fields(Retry)}
NEVER: Final = Retry(attempts=1)
