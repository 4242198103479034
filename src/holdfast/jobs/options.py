"""The options of one send, checked where they are written."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.jobs.errors import BadOption
from holdfast.jobs.findings import read_options
from holdfast.jobs.policy import rule_of
from holdfast.payloads.durations import Duration, duration_s, instant_ms
from holdfast.payloads.errors import BadDuration
from holdfast.payloads.user_tags import check_user_tags
from holdfast.protocol import limits
from holdfast.protocol.jobs import OnUnique, RetryRule, check_queue
from holdfast.protocol.text import check_text

OnConflict = Literal["existing", "replace", "reject"]
ON_CONFLICT: Final = ("existing", "replace", "reject")


class SendOptions(Struct, frozen=True, kw_only=True):
    """What one send says beyond the arguments; None is what the task or its queue says."""

    id: str | None = None
    queue: str | None = None
    priority: int | None = None
    good_until_ms: int | None = None
    delay_ms: int | None = None
    at_ms: int | None = None
    timeout_ms: int | None = None
    key: str | None = None
    on_conflict: OnUnique = "existing"
    limit_key: str | None = None
    retry: RetryRule | None = None
    has_retry: bool = False  # `retry` counts, also None: one try
    time_limit_s: float | None = None
    tags: Mapping[str, str] = {}
    connection: Any = None


PLAIN: Final = SendOptions()


class WithOptions:
    """What `with_options` of a task gives: it is not the task itself, and cannot be called."""

    _task: Any
    _options: SendOptions


def parts_of(sent: WithOptions) -> tuple[Any, SendOptions]:
    """The task, and the options."""
    return sent._task, sent._options  # pyright: ignore[reportPrivateUsage]


def refine(options: SendOptions, given: dict[str, Any]) -> SendOptions:
    """These options with others on top; raises BadOption for what makes no sense."""
    wanted = {name: value for name, value in given.items() if value is not None}
    read = read_options("a send", wanted, _readers)
    debounce_ms = read.pop("debounce", None)
    changes: dict[str, Any] = {_fields.get(name, name): value for name, value in read.items()}
    if debounce_ms is not None:
        if "on_conflict" in read or "delay" in read or "at" in read:
            raise BadOption(
                "debounce already says when to start and what to replace: leave out delay, at and on_conflict"
            )
        changes |= {"delay_ms": debounce_ms, "on_conflict": "debounce"}
    if "delay" in read and "at" in read:
        raise BadOption("delay and at both say when it starts: give one of them")
    if "delay_ms" in changes or "at_ms" in changes:
        changes = {"delay_ms": None, "at_ms": None} | changes
    if "retry" in read:
        changes["has_retry"] = True
    if "tags" in read:
        changes["tags"] = {**options.tags, **read["tags"]}
    refined = replace(options, **changes)
    if refined.key is None and refined.on_conflict != "existing":
        raise BadOption("on_conflict and debounce need a key: give key=")
    return refined


def check_priority(priority: Any) -> int:
    most = limits.priority_max
    if isinstance(priority, bool) or not isinstance(priority, int) or not -most <= priority <= most:
        raise BadOption(f"priority must be a whole number from -{most} to {most}, not {priority!r}")
    return priority


def check_queue_name(name: Any) -> str:
    try:
        check_queue(name)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadOption(f"{name!r} cannot be the name of a queue: {error}") from None
    return cast(str, name)


def millis(name: str, duration: Duration) -> int:
    try:
        return round(duration_s(duration) * 1000)
    except BadDuration as error:
        raise BadOption(f"{name}: {error.what}") from None


def time_limit_s(limit: Duration | None) -> float | None:
    if limit is None:
        return None
    span_ms = millis("time_limit", limit)
    if not span_ms:
        raise BadOption(f"time_limit={limit!r} must be more than 0; leave it out for no limit")
    return span_ms / 1000


def keep_ms(keep: Duration | None) -> int | None:
    if keep is None:
        return None
    span_ms = millis("keep", keep)
    if span_ms < limits.keep_ms_min:
        raise BadOption(f"keep={keep!r} is too short; the shortest is 1s")
    return span_ms


def instant(name: str, given: Any) -> int:
    try:
        return instant_ms(given)
    except ValueError as error:
        raise BadOption(f"{name}={str(given)[:80]} cannot be used: {error}") from None


def _text(name: str, most: int, text: Any) -> str:
    if not isinstance(text, str):
        raise BadOption(f"{name}={text!r} is not a string")
    try:
        check_text(name, text, most)
    except ValueError as error:
        raise BadOption(f"{name}={text[:40]!r} cannot be used: {error}") from None
    return text


def _conflict(value: Any) -> OnUnique:
    if value not in ON_CONFLICT:
        raise BadOption(f"on_conflict must be one of {', '.join(ON_CONFLICT)}, not {value!r}")
    return cast(OnUnique, value)


def _as_it_is(value: Any) -> Any:
    return value


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "id": partial(_text, "id", limits.id_bytes_max),
    "queue": check_queue_name,
    "priority": check_priority,
    "good_until": partial(instant, "good_until"),
    "delay": partial(millis, "delay"),
    "at": partial(instant, "at"),
    "timeout": partial(millis, "timeout"),
    "debounce": partial(millis, "debounce"),
    "key": partial(_text, "key", limits.job_key_bytes_max),
    "on_conflict": _conflict,
    "limit_key": partial(_text, "limit_key", limits.job_key_bytes_max),
    "retry": rule_of,
    "time_limit": time_limit_s,
    "tags": check_user_tags,
    "connection": _as_it_is,
}
_fields: Final = {
    "good_until": "good_until_ms",
    "delay": "delay_ms",
    "at": "at_ms",
    "timeout": "timeout_ms",
    "time_limit": "time_limit_s",
}
