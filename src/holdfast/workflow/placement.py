"""Where and when an execution begins: its queue, its place there, and before which instant nobody claims it.

All of it travels in the tags of its promise. In a queue, the queue's name becomes the group of workers that
it is offered to, as for a background task.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.payloads.durations import Duration, instant_ms, seconds
from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import KeyOverlap, check_queue
from holdfast.protocol.text import check_text
from holdfast.workflow.errors import BadStartOption

OVERLAPS: Final = get_args(KeyOverlap)


class Ends(NamedTuple):
    """So long after its start an execution is ended, and the tag that says when it is told before."""

    after_ms: int
    entries: dict[str, str]


class Placement(Struct, frozen=True, kw_only=True):
    """What the options of a workflow say about it; None is what they leave open."""

    queue: str | None = None
    priority: int | None = None
    limit_key: str | None = None
    overlap: KeyOverlap = "wait"
    delay_s: float | None = None
    at_ms: int | None = None
    crashes: int | None = None  # in a row, without progress: then it is halted

    grace_s: float | None = None  # after its deadline, to clean up

    def ends(self, timeout_ms: int, at_most_ms: int = limits.instant_ms_max) -> "Ends":
        """When an execution ends that has so much time: it is told then, and ended after the grace."""
        grace_ms = limits.grace_ms if self.grace_s is None else round(self.grace_s * 1000)
        after_ms = min(timeout_ms + grace_ms, at_most_ms)
        if after_ms <= timeout_ms:
            return Ends(after_ms, {})
        return Ends(after_ms, {tags.GRACE: str(after_ms - timeout_ms)})

    @property
    def is_later(self) -> bool:
        return self.delay_s is not None or self.at_ms is not None

    def entries(self) -> dict[str, str]:
        """The tags that say so, but for the instant."""
        found: dict[str, str] = {}
        if self.queue is not None:
            found |= tags.queued(self.queue, self.limit_key, self.overlap)
        if self.crashes is not None:
            found[tags.CRASHES] = str(self.crashes)
        if self.priority:
            found[tags.PRIORITY] = str(self.priority)
        return found

    def delay(self, now: int) -> dict[str, str]:
        """The tag that says when it may begin, if that is not now."""
        begins_at = self.at_ms if self.delay_s is None else now + round(self.delay_s * 1000)
        if begins_at is None:
            return {}
        return {tags.DELAY: str(min(begins_at, limits.instant_ms_max - 1))}

    def refined(
        self,
        *,
        queue: str | None,
        priority: int | None,
        limit_key: str | None,
        overlap: KeyOverlap | None,
        delay: Duration | None,
        at: datetime | None,
        grace: Duration | None = None,
    ) -> "Placement":
        """The same with what is given on top; raises BadStartOption for what makes no sense."""
        if delay is not None and at is not None:
            raise BadStartOption("delay and at both say when it starts: give one of them")
        changes: dict[str, Any] = {}
        if queue is not None:
            changes["queue"] = _checked("queue", queue, check_queue)
        if priority is not None:
            changes["priority"] = _priority(priority)
        if limit_key is not None:
            changes["limit_key"] = _checked("limit_key", limit_key, _check_key)
        if overlap is not None:
            if overlap not in OVERLAPS:
                raise BadStartOption(f"overlap must be one of {', '.join(OVERLAPS)}, not {overlap!r}")
            changes["overlap"] = overlap
        if delay is not None:
            changes |= {"delay_s": seconds("delay", delay), "at_ms": None}
        if at is not None:
            changes |= {"at_ms": _checked("at", at, instant_ms), "delay_s": None}
        if grace is not None:
            changes["grace_s"] = read_grace(grace)
        found = replace(self, **changes)
        if found.limit_key is not None and found.queue is None:
            raise BadStartOption("limit_key is what the limits of a queue count by: give queue=, too")
        if found.overlap != "wait" and found.limit_key is None:
            raise BadStartOption("overlap is about others with the same key: give limit_key=, too")
        return found


def read_crashes(crashes: Any) -> int:
    most = limits.crashes_max
    if isinstance(crashes, bool) or not isinstance(crashes, int) or not 1 <= crashes <= most:
        raise BadStartOption(f"crashes must be a whole number from 1 to {most}, not {crashes!r}")
    return crashes


def read_grace(grace: Duration) -> float:
    """None at all, if it is to be ended at its deadline."""
    grace_s, most_s = 0.0 if grace == 0 else seconds("grace", grace) or 0.0, limits.grace_ms_max / 1000
    if grace_s > most_s:
        raise BadStartOption(f"grace must be at most {most_s:g} s, not {grace!r}")
    return grace_s


def _check_key(key: str) -> None:
    check_text("limit_key", key, limits.job_key_bytes_max)


def _priority(priority: Any) -> int:
    most = limits.priority_max
    if isinstance(priority, bool) or not isinstance(priority, int) or not -most <= priority <= most:
        raise BadStartOption(f"priority must be a whole number from -{most} to {most}, not {priority!r}")
    return priority


def _checked(name: str, given: Any, check: Any) -> Any:
    try:
        found = check(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadStartOption(f"{name}={str(given)[:80]!r} cannot be used: {error}") from None
    return given if found is None else found
