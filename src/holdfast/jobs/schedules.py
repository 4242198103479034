"""Recurring tasks and workflows, as an app declares them.

A declaration is stored when a worker of the app starts. One that is there already, and the same, is left
alone; one that changed is replaced, in one commit. Everything about a task travels with each run: its retry
policy, its queue, its priority.

1. An interval counts from the epoch, a cron expression from the clock of its time zone; neither depends on
   when somebody looked, so nothing drifts.
2. Each run has an id made of the schedule's and its instant: firing twice makes one task.
3. What is no longer declared goes on until somebody deletes it: `holdfast schedules delete ID`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.jobs.errors import BadOption
from holdfast.jobs.findings import read_options
from holdfast.jobs.options import PLAIN, millis
from holdfast.jobs.send_request import job_tags
from holdfast.jobs.task import TaskDefinition
from holdfast.payloads.durations import Duration
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.cron import check_cron, check_timezone
from holdfast.protocol.records import Overlap, Schedule
from holdfast.protocol.requests import ScheduleCreate
from holdfast.steps.providers import Providers
from holdfast.workflow.registry import WorkflowDefinition

OVERLAPS: Final = ("allow", "skip", "replace")
RUN_ID: Final = "{{.id}}-{{.timestamp}}"


class Recurrence(Struct, frozen=True, kw_only=True):
    """One declaration of `@app.schedule`."""

    id: str
    work: TaskDefinition[..., Any, Any, Any] | WorkflowDefinition[..., Any]
    cron: str
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None
    good_for_ms: int | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}

    def request(
        self, payloads: Payloads, group: str, queue_priority: int | None, providers: Providers
    ) -> ScheduleCreate:
        work = self.work
        supplied = providers.supplied_to(work.function, getattr(work, "mode", "async"))
        version = work.version if isinstance(work, WorkflowDefinition) else 1
        signature = signature_of(work.function)
        entries = {tags.SCOPE: "global", tags.FINGERPRINT: payloads.digest(self.args, self.kwargs) or ""}
        timeout_ms = limits.instant_ms_max
        if isinstance(work, WorkflowDefinition):
            entries[tags.TARGET] = f"poll://any@{work.group or group}"
            entries[tags.WORKFLOW] = work.name
            if work.timeout_s is not None:
                timeout_ms = round(work.timeout_s * 1000)
        else:
            entries |= job_tags(work, PLAIN, None, queue_priority, self.good_for_ms)
        param = payloads.encode_call(work.name, self.args, self.kwargs, version, signature, supplied)
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


def declare_recurrence(work: Any, given: Mapping[str, Any]) -> Recurrence | None:
    """Read the options of `app.schedule`. Raises BadOption for what makes no sense; None if that was noted
    and there is nothing to go by.
    """
    if not isinstance(work, TaskDefinition | WorkflowDefinition):
        raise BadOption("@app.schedule goes above @app.task or @app.workflow")
    every = given["every"]
    if (given["cron"] is None) == (every is None):
        raise BadOption("A schedule has either cron= or every=")
    wanted = {
        name: given[name] for name in ("cron", "every", "overlap", "catch_up") if given[name] is not None
    }
    wanted |= {"timezone": (given["timezone"], every), "good_for_ms": (given["good_for"], work)}
    read = read_options("a schedule", wanted, _readers, work.function)
    read["cron"] = read.get("cron", read.pop("every", None))
    if read["cron"] is None:
        return None
    own_id = f"{work.name.translate(str.maketrans(':.', '__'))}-schedule"
    args, kwargs = tuple(given["args"]), dict(given["kwargs"] or {})
    return Recurrence(id=given["id"] or own_id, work=cast(Any, work), args=args, kwargs=kwargs, **read)


def _cron(cron: str) -> str:
    try:
        check_cron(cron)
    except ValueError as error:
        raise BadOption(str(error)) from None
    return cron


def _every(every: Duration) -> str:
    span_ms = millis("every", every)
    if span_ms < limits.every_ms_min or span_ms % 1000:
        raise BadOption(f"every={every!r} must be whole seconds, at least one")
    return f"@every {span_ms // 1000}s"


def _timezone(given: tuple[str | None, Duration | None]) -> str | None:
    timezone, every = given
    if timezone is None:
        return None
    if every is not None:
        raise BadOption("A time zone makes no sense with every=, which counts seconds")
    try:
        check_timezone(timezone)
    except ValueError as error:
        raise BadOption(str(error)) from None
    return timezone


def _overlap(overlap: Any) -> Overlap:
    if overlap not in OVERLAPS:
        raise BadOption(f"overlap is one of {', '.join(OVERLAPS)}, not {overlap!r}")
    known: Overlap = overlap
    return known


def _catch_up(catch_up: Any) -> int:
    if not (isinstance(catch_up, int) and 1 <= catch_up <= limits.catch_up_max):
        raise BadOption(f"catch_up is a whole number from 1 to {limits.catch_up_max}, not {catch_up!r}")
    return catch_up


def _good_for(given: tuple[Duration | None, Any]) -> int | None:
    good_for, work = given
    if good_for is None:
        return None
    if isinstance(work, WorkflowDefinition):
        raise BadOption("good_for is for tasks; give the workflow a timeout")
    return millis("good_for", good_for)


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "cron": _cron,
    "every": _every,
    "timezone": _timezone,
    "overlap": _overlap,
    "catch_up": _catch_up,
    "good_for_ms": _good_for,
}
