"""Recurring tasks and workflows, as an app declares them.

A declaration is stored when a worker of the app starts. One that is there already, and the same, is left
alone; one that changed is updated: it stays paused if it was, and keeps its last run. Everything about a
task or a workflow travels with each run, also what `with_options` says: queue, priority, key, tags, retries.

1. An interval counts from the epoch, a cron expression from the clock of its time zone; neither depends on
   when somebody looked, so nothing drifts.
2. Each run has an id made of the schedule's and its instant: firing twice makes one task.
3. A declared schedule carries the group of its app as a tag. What that app no longer declares is an orphan:
   it goes on until somebody deletes it, or until the app starts with `orphan_schedules="remove"`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.jobs.errors import BadOption
from holdfast.jobs.findings import read_options
from holdfast.jobs.options import PLAIN, SendOptions, WithOptions, millis, parts_of
from holdfast.jobs.send_request import job_tags
from holdfast.jobs.task import TaskDefinition
from holdfast.payloads.durations import Duration
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.cron import check_cron, check_timezone
from holdfast.protocol.records import Overlap, Schedule
from holdfast.protocol.requests import ScheduleCreate, ScheduleUpdate
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
    options: SendOptions = PLAIN  # of a task
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    is_declared: bool = True  # by the code, and not made at run time

    def request(
        self, payloads: Payloads, group: str, queue_priority: int | None, providers: Providers
    ) -> ScheduleCreate:
        work = self.work
        supplied = providers.supplied_to(work.function, getattr(work, "mode", "async"))
        version = work.version if isinstance(work, WorkflowDefinition) else 1
        signature = signature_of(work.function)
        own = {tags.SCOPE: "global", tags.FINGERPRINT: payloads.digest(self.args, self.kwargs) or ""}
        if self.is_declared:
            own[tags.DECLARED_BY] = group
        timeout_ms = limits.instant_ms_max
        if isinstance(work, WorkflowDefinition):
            entries = {**work.tags, **own, tags.TARGET: target_of(work.group or group)}
            entries |= {tags.WORKFLOW: work.name, **work.placement.entries()}
            if work.timeout_s is not None:
                ends = work.placement.ends(round(work.timeout_s * 1000))
                timeout_ms, entries = ends.after_ms, entries | ends.entries
        else:
            entries = job_tags(work, self.options, None, queue_priority, self.good_for_ms) | own
            if self.options.timeout_ms is not None:
                timeout_ms = self.options.timeout_ms
        param = payloads.encode_call(work.name, self.args, self.kwargs, version, signature, supplied)
        return ScheduleCreate(
            self.id, self.cron, RUN_ID, timeout_ms, param, entries, self.timezone, self.overlap, self.catch_up
        )

    @property
    def queue(self) -> str | None:
        """The one in which its runs wait, unless they are for a group of workers."""
        work: Any = self.work
        if isinstance(work, TaskDefinition):
            return self.options.queue or work.queue
        queue: str | None = work.placement.queue
        return queue


def is_same(wanted: ScheduleCreate, stored: Schedule) -> bool:
    """Does what is stored say what is wanted? (The arguments are compared by their fingerprint, a tag.)"""
    return (
        stored.cron == wanted.cron
        and stored.promise_id == wanted.promise_id
        and stored.promise_timeout == wanted.promise_timeout
        and stored.promise_tags == wanted.promise_tags
        and (stored.timezone or "UTC") == (wanted.timezone or "UTC")
        and (stored.overlap or "allow") == (wanted.overlap or "allow")
        and _caught_up(stored) == _caught_up(wanted)
    )


def _caught_up(schedule: Schedule | ScheduleCreate) -> int:
    return limits.catch_up if schedule.catch_up is None else schedule.catch_up


def as_update(wanted: ScheduleCreate) -> ScheduleUpdate:
    """What makes of any schedule the wanted one: what is not given has its default, in so many words."""
    return ScheduleUpdate(
        wanted.id,
        wanted.cron,
        wanted.promise_id,
        wanted.promise_timeout,
        wanted.promise_param,
        wanted.promise_tags,
        wanted.timezone or "UTC",
        wanted.overlap or "allow",
        _caught_up(wanted),
    )


def declare_recurrence(work: Any, given: Mapping[str, Any], *, is_declared: bool = True) -> Recurrence | None:
    """Read the options of `app.schedule`. Raises BadOption for what makes no sense; None if that was noted
    and there is nothing to go by.
    """
    work, options = _work_of(work)
    if not isinstance(work, TaskDefinition | WorkflowDefinition):
        if not is_declared:
            raise BadOption(f"A schedule runs a task or a workflow of this app, not {work!r}")
        raise BadOption("@app.schedule goes above @app.task or @app.workflow")
    every = given["every"]
    if (given["cron"] is None) == (every is None):
        raise BadOption("A schedule has either cron= or every=")
    read = read_rhythm(given, work.function)
    read |= read_options(
        "a schedule", {"good_for_ms": (given["good_for"], work)}, {"good_for_ms": _good_for}, work.function
    )
    if read.get("cron") is None:
        return None
    own_id = f"{work.name.translate(str.maketrans(':.', '__'))}-schedule"
    args, kwargs = tuple(given["args"]), dict(given["kwargs"] or {})
    return Recurrence(
        id=given["id"] or own_id,
        work=cast(Any, work),
        options=options,
        args=args,
        kwargs=kwargs,
        is_declared=is_declared,
        **read,
    )


def _work_of(given: Any) -> tuple[Any, SendOptions]:
    """What is run, and under which options. Raises BadOption for those that are about one run only."""
    work, options = given, PLAIN
    wrong: list[str] = []
    if isinstance(given, WithOptions):
        work, options = parts_of(given)
        each = {"id": "id", "delay_ms": "delay", "at_ms": "at", "good_until_ms": "good_until"}
        each["connection"] = "connection"
        wrong = [name for field, name in each.items() if getattr(options, field) is not None]
    elif isinstance(given, WorkflowDefinition):
        placement = given.placement
        placed = {"id": given.id, "connection": given.connection}  # pyright: ignore[reportUnknownMemberType]
        placed |= {"delay": placement.delay_s, "at": placement.at_ms}
        wrong = [name for name, value in placed.items() if value is not None]
        if given.on_existing != "return":
            wrong.append("on_existing")
    if wrong:
        raise BadOption(f"{wrong[0]}= is for a single run, and a schedule makes many runs: leave it out")
    return work, options


def read_rhythm(given: Mapping[str, Any], function: Any = None) -> dict[str, Any]:
    """When it runs: of `cron`, `every`, `timezone`, `overlap` and `catch_up`, those that are given."""
    names = ("cron", "every", "overlap", "catch_up")
    wanted: dict[str, Any] = {name: given[name] for name in names if given[name] is not None}
    if given["timezone"] is not None:
        wanted["timezone"] = (given["timezone"], given["every"])
    read = read_options("a schedule", wanted, _readers, function)
    if "every" in read:
        read["cron"] = read.pop("every")
    return read


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


def _timezone(given: tuple[str, Duration | None]) -> str:
    timezone, every = given
    if every is not None:
        raise BadOption("timezone= cannot be used with every=, which counts seconds")
    try:
        check_timezone(timezone)
    except ValueError as error:
        raise BadOption(str(error)) from None
    return timezone


def _overlap(overlap: Any) -> Overlap:
    if overlap not in OVERLAPS:
        raise BadOption(f"overlap must be one of {', '.join(OVERLAPS)}, not {overlap!r}")
    known: Overlap = overlap
    return known


def _catch_up(catch_up: Any) -> Any:
    is_number = isinstance(catch_up, int) and not isinstance(catch_up, bool)
    if not (is_number and 0 <= catch_up <= limits.catch_up_max):
        raise BadOption(f"catch_up must be a whole number from 0 to {limits.catch_up_max}, not {catch_up!r}")
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
}
