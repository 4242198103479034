"""Tasks and workflows that recur, as an app declares them.

A declaration is stored when a worker of the app starts. One that is there already, and the same, is left
alone; one that changed is replaced, in one commit. Everything about a task travels with each run: its retry
policy, its queue, its priority.

1. An interval counts from the epoch, a cron expression from the clock of its time zone; neither depends on
   when somebody looked, so nothing drifts.
2. Each run has an id made of the schedule's and its instant: firing twice makes one task.
3. What is no longer declared goes on until somebody deletes it: `holdfast schedules delete ID`.
"""

from typing import Any, Final, cast

from msgspec import Struct

from holdfast.protocol import limits, tags
from holdfast.protocol.cron import check_cron, check_timezone
from holdfast.protocol.records import Overlap, Schedule
from holdfast.protocol.requests import ScheduleCreate
from holdfast.tasks.errors import BadOption
from holdfast.tasks.options import PLAIN, millis
from holdfast.tasks.order import FINGERPRINT, SCOPE, job_tags
from holdfast.tasks.task import Task
from holdfast.worker.durations import Duration
from holdfast.worker.payload import Payloads
from holdfast.worker.registry import Workflow
from holdfast.worker.signature import signature_of

OVERLAPS: Final = ("allow", "skip", "replace")
RUN_ID: Final = "{{.id}}-{{.timestamp}}"


class Recurrence(Struct, frozen=True, kw_only=True):
    """One declaration of `@app.schedule`."""

    id: str
    work: Task[..., Any, Any, Any] | Workflow[..., Any]
    cron: str
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None
    good_for_ms: int | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}

    def request(self, payloads: Payloads, group: str, queue_priority: int | None) -> ScheduleCreate:
        work = self.work
        version = work.version if isinstance(work, Workflow) else 1
        signature = signature_of(work.function)
        entries = {SCOPE: "global", FINGERPRINT: payloads.digest(self.args, self.kwargs) or ""}
        timeout_ms = limits.instant_ms_max
        if isinstance(work, Workflow):
            entries[tags.TARGET] = f"poll://any@{work.group or group}"
            if work.timeout_s is not None:
                timeout_ms = round(work.timeout_s * 1000)
        else:
            entries |= job_tags(work, PLAIN, None, queue_priority, self.good_for_ms)
        param = payloads.encode_call(work.name, self.args, self.kwargs, version, signature)
        return ScheduleCreate(
            self.id, self.cron, RUN_ID, timeout_ms, param, entries, self.timezone, self.overlap, self.catch_up
        )


def is_same(wanted: ScheduleCreate, stored: Schedule) -> bool:
    """Does what is stored say what is wanted? (The arguments are compared by their fingerprint, a tag.)"""
    return (
        stored.cron == wanted.cron
        and stored.promise_id == wanted.promise_id
        and stored.promise_timeout == wanted.promise_timeout
        and stored.promise_tags == wanted.promise_tags
        and stored.timezone == wanted.timezone
        and stored.overlap == wanted.overlap
        and stored.catch_up == wanted.catch_up
    )


def declare_recurrence(
    work: Any,
    *,
    cron: str | None,
    every: Duration | None,
    timezone: str | None,
    overlap: Any,
    catch_up: Any,
    good_for: Duration | None,
    id: str | None,  # noqa: A002
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Recurrence:
    """Raises BadOption for what makes no sense."""
    if not isinstance(work, Task | Workflow):
        raise BadOption("@app.schedule goes above @app.task or @app.workflow")
    if overlap is not None and overlap not in OVERLAPS:
        raise BadOption(f"overlap is one of {', '.join(OVERLAPS)}, not {overlap!r}")
    if catch_up is not None and not (isinstance(catch_up, int) and 1 <= catch_up <= limits.catch_up_max):
        raise BadOption(f"catch_up is a whole number from 1 to {limits.catch_up_max}, not {catch_up!r}")
    if good_for is not None and isinstance(work, Workflow):
        raise BadOption("good_for is for tasks; give the workflow a timeout")
    expression = _expression(cron, every, timezone)
    return Recurrence(
        id=id or f"{work.name.translate(str.maketrans(':.', '__'))}-schedule",
        work=cast(Any, work),
        cron=expression,
        timezone=timezone,
        overlap=overlap,
        catch_up=catch_up,
        good_for_ms=None if good_for is None else millis("good_for", good_for),
        args=args,
        kwargs=kwargs,
    )


def _expression(cron: str | None, every: Duration | None, timezone: str | None) -> str:
    if (cron is None) == (every is None):
        raise BadOption("A schedule has either cron= or every=")
    if every is not None:
        span_ms = millis("every", every)
        if span_ms < limits.every_ms_min or span_ms % 1000:
            raise BadOption(f"every={every!r} must be whole seconds, at least one")
        if timezone is not None:
            raise BadOption("A time zone makes no sense with every=, which counts seconds")
        return f"@every {span_ms // 1000}s"
    assert cron is not None
    try:
        check_cron(cron)
        if timezone is not None:
            check_timezone(timezone)
    except ValueError as error:
        raise BadOption(str(error)) from None
    return cron
