"""Everything that the management API answers, in one table: paths, handlers, and what they take.

A handler is given nothing that the table does not name: a parameter or a field of the body that is not listed
here is refused. So the description that is made of the table (openapi.py) cannot say less than what is there.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from msgspec import Struct

from holdfast.server.management import (
    audit,
    bulk,
    changes,
    executions,
    locks,
    messages,
    overview,
    promises,
    queues,
    schedules,
    sent_events,
    session,
    streams,
    tasks,
    tickets,
    timeline,
    workers,
)  # fmt: skip
from holdfast.server.management.call import Call, Json
from holdfast.server.management.events import Feed
from holdfast.server.management.parameters import CHECK, SEND, START, WORKER, Parameter as Parameter

Handler = Callable[[Call], Awaitable[Json]]
Follow = Callable[[Call], Awaitable[Feed | None]]  # None: it is over, and the reader has had everything


class Route(Struct, frozen=True):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    about: str
    handler: Handler
    query: tuple[Parameter, ...] = ()
    body: tuple[Parameter, ...] = ()
    content: str | None = None  # the body is any JSON, and what it means
    follow: Follow | None = None  # the same as server-sent events
    reads: bool = False  # it changes nothing, though it is no GET
    audited: bool = True

    @property
    def parts(self) -> list[str]:
        return self.path.strip("/").split("/")

    @property
    def changes(self) -> bool:
        return self.method != "GET" and not self.reads


_PAGING: Final = (
    Parameter("limit", "integer", "how many on a page, at most"),
    Parameter("cursor", "string", "continue where a page ended"),
)
_PREFIX: Final = Parameter("prefix", "string", "only ids that begin with it")
_TAG: Final = Parameter("tag", "string", "only with this tag, name:value; may be given several times")
_SCHEDULE: Final = Parameter("schedule", "string", "only started by this schedule")
_FILTERS: Final = (
    Parameter("status", "string", "only with one of these, separated by commas"),
    Parameter("name", "string", "only of this workflow or background task"),
    _TAG,
    Parameter("queue", "string", "only of this queue or group of workers"),
    Parameter("error", "string", "only failed with this code"),
    _SCHEDULE,
    _PREFIX,
    Parameter("since", "integer", "only created at or after this instant, in milliseconds"),
    Parameter("until", "integer", "only created before this instant, in milliseconds"),
)
_VERSION: Final = Parameter("version", "integer", "only started for this version of the workflow")
_EXECUTIONS: Final = (*_FILTERS, _VERSION, *_PAGING)
_AFTER: Final = Parameter("after", "integer", "only what follows this number")
_TICKET: Final = Parameter("ticket", "string", "in place of a token, for events: POST /v1/tickets gives one")
_BULK: Final = (
    Parameter("action", "string", "cancel, retry, halt, resume or fork", required=True),
    Parameter("kind", "string", "execution or task; both without it"),
    Parameter("status", "array", "only with one of these; without it those for which the action makes sense"),
    Parameter("tags", "object", "only with these tags"),
    *(each for each in _FILTERS if each.name not in ("status", "tag", "schedule")),
    Parameter("all", "boolean", "everything: needed if no filter is given"),
    Parameter("now", "boolean", "of cancel: end them at once"),
    Parameter("reason", "string", "of halt: why, for people"),
    Parameter("before", "string", "of fork: the name of a step, or the id of an operation"),
    Parameter("id", "string", "the id of the operation; a new one without it"),
)
_LIMITS: Final = (
    Parameter("concurrency", "integer", "how many run at a time"),
    Parameter("keyConcurrency", "integer", "how many of one key run at a time"),
    Parameter("rate", "object", "{count, perMs}: how many start in this time"),
    Parameter("keyRate", "object", "{count, perMs}: the same for one key"),
    Parameter("fair", "boolean", "its keys take turns"),
    Parameter("weights", "object", "{key: weight}: how many turns a key of a fair queue gets"),
    Parameter("running", "integer", "how many are claimed at a time; executions that wait do not count"),
)
_RHYTHM: Final = (
    Parameter("cron", "string", "when: five fields, or six with seconds in front"),
    Parameter("every", "integer", "instead of `cron`: the interval in seconds"),
    Parameter("timezone", "string", "an IANA name like Europe/Paris; UTC without it"),
    Parameter("overlap", "string", "if the last run is not over: allow, skip or replace"),
    Parameter("catchUp", "integer", "after downtime, run at most this many missed occurrences"),
    Parameter("workflow", "string", "the name of the workflow that is run"),
    Parameter("task", "string", "instead of `workflow`: the name of a background task"),
    Parameter("args", "array", "its arguments by position, as plain JSON"),
    Parameter("kwargs", "object", "its arguments by name, as plain JSON"),
    Parameter("version", "integer", "of the workflow; 0, the newest, without it"),
    Parameter("group", "string", "of the workers that run the workflow; `default` without it"),
    Parameter(
        "queue",
        "string",
        "where its runs wait, instead of `group`; without it that which the background task declares",
    ),
    Parameter("priority", "integer", "higher ones first"),
    Parameter("limitKey", "string", "the key for limits and turns of the queue"),
    Parameter("retry", "object", "of the background task: {retries, delays} or {retries, base, factor, max}"),
    Parameter("tags", "object", "texts to find the runs by"),
    Parameter("timeout", "number", "seconds in which each run must be over"),
    CHECK,
)

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/executions", "Find executions, newest first", executions.find, _EXECUTIONS),
    Route("POST", "/v1/executions", "Start an execution", executions.start, body=START),
    Route("GET", "/v1/executions/{id}", "Look at an execution", executions.get),
    Route(
        "GET",
        "/v1/executions/{id}/steps",
        "What an execution has recorded: its operations, a page by id",
        executions.steps,
        (Parameter("results", "boolean", "with the result of each"), *_PAGING),
    ),
    Route(
        "GET",
        "/v1/executions/{id}/timeline",
        "What an execution did and when: a row for each operation, thousands at a time",
        timeline.timeline,
        _PAGING,
    ),
    Route(
        "GET",
        "/v1/executions/{id}/history",
        "All that an execution has recorded, as it is stored",
        executions.history,
        _PAGING,
    ),
    Route(
        "POST",
        "/v1/executions/{id}/cancel",
        "Ask an execution to cancel itself",
        executions.cancel,
        body=(Parameter("now", "boolean", "end it at once, with what it called; its code cannot clean up"),),
    ),
    Route(
        "POST",
        "/v1/executions/{id}/retry",
        "Continue an execution that failed, timed out or was cancelled from where it failed",
        executions.retry,
        body=(Parameter("timeout", "number", "seconds it may take; by default as long as before"),),
    ),
    Route(
        "POST",
        "/v1/executions/{id}/fork",
        "A new execution that has the records of this one before a step",
        executions.fork,
        body=(
            Parameter("before", "string", "the name of a step, or the id of an operation", required=True),
            Parameter("id", "string", "of the new execution; a new one without it"),
            Parameter("args", "array", "other arguments by position, as plain JSON"),
            Parameter("kwargs", "object", "other arguments by name, as plain JSON"),
            Parameter("timeout", "number", "seconds in which it must be over"),
        ),
    ),
    Route(
        "POST",
        "/v1/executions/{id}/halt",
        "Let nobody take an execution up until it is resumed",
        executions.halt,
        body=(
            Parameter("reason", "string", "why, for people"),
            Parameter("code", "string", "which kind of reason it is"),
        ),
    ),
    Route("POST", "/v1/executions/{id}/resume", "Resume a halted execution", executions.resume),
    Route("POST", "/v1/bulk", "Do something to all that a filter finds", bulk.begin, body=_BULK),
    Route("GET", "/v1/bulk", "Bulk operations, newest first", bulk.find, _PAGING),
    Route("GET", "/v1/bulk/{id}", "How far a bulk operation has come", bulk.get),
    Route("POST", "/v1/bulk/{id}/cancel", "Stop a bulk operation; what is done stays done", bulk.cancel),
    Route(
        "GET",
        "/v1/executions/{id}/messages",
        "What an execution was sent: read or not, answered, set aside",
        messages.find,
        (
            _AFTER,
            Parameter(
                "setAside", "boolean", "only what could not be read as what the code asked for, and why"
            ),
            *_PAGING,
        ),
    ),
    Route(
        "POST",
        "/v1/executions/{id}/messages",
        "Send a message to an execution, or ask it something",
        messages.send,
        (
            Parameter(
                "key",
                "string",
                "a message with this key is sent once; the header Idempotency-Key does the same",
            ),
            Parameter("ask", "boolean", "wait for the answer"),
            Parameter("timeout", "number", "seconds to wait for it; by default 30, at most 300"),
        ),
        content="the message",
    ),
    Route("GET", "/v1/executions/{id}/streams", "What it emits: the length of each stream", streams.find),
    Route(
        "GET",
        "/v1/executions/{id}/streams/{name}",
        "A stream, in the order of its numbers",
        streams.read,
        (_AFTER, Parameter("limit", "integer", "how many on a page, at most"), _TICKET),
        follow=streams.follow,
    ),
    Route(
        "GET",
        "/v1/executions/{id}/published",
        "What it has published: the last value under each name",
        streams.published,
    ),
    Route(
        "GET",
        "/v1/executions/{id}/published/{name}",
        "The last value that it has published under a name; as events this one and every later one",
        streams.published_value,
        (Parameter("after", "integer", "as events: what was published after this number"), _TICKET),
        follow=streams.follow_published,
    ),
    Route(
        "POST",
        "/v1/tickets",
        "A ticket for an EventSource, which can send no token",
        tickets.give,
        body=(
            Parameter("path", "string", "of the events, without the query", required=True),
            Parameter("seconds", "integer", "how long it can be used; 600 without it, 3600 at most"),
        ),
        reads=True,
    ),
    Route(
        "GET",
        "/v1/promises",
        "Find promises, by id",
        promises.find,
        (Parameter("state", "string", "only in this state"), _TAG, _PREFIX, *_PAGING),
    ),
    Route("GET", "/v1/promises/{id}", "Look at a promise", promises.get),
    Route(
        "POST",
        "/v1/promises/{id}/resolve",
        "Settle a promise that a workflow waits for",
        promises.resolve,
        body=(Parameter("value", "any", "plain JSON"),),
    ),
    Route(
        "POST",
        "/v1/promises/{id}/reject",
        "Settle it with an error, which is raised where the workflow awaits it",
        promises.reject,
        body=(
            Parameter("message", "string", "the error message"),
            Parameter("name", "string", "the name of its class"),
            Parameter("type", "string", "module:Class, if the workflow knows it"),
        ),
    ),
    Route("GET", "/v1/tasks", "Find background tasks, newest first", tasks.find, (*_FILTERS, *_PAGING)),
    Route("POST", "/v1/tasks", "Send a background task", tasks.send, body=SEND),
    Route("GET", "/v1/tasks/{id}", "Look at a background task and its attempts", tasks.get),
    Route(
        "POST",
        "/v1/tasks/{id}/cancel",
        "End a background task",
        tasks.cancel,
        body=(Parameter("force", "boolean", "also while it runs"),),
    ),
    Route(
        "POST",
        "/v1/tasks/{id}/promote",
        "Start a background task now that is delayed or waits for its next attempt",
        tasks.promote,
    ),
    Route(
        "POST",
        "/v1/tasks/{id}/reschedule",
        "Let a background task that has not begun begin at another instant",
        tasks.reschedule,
        body=(Parameter("at", "integer", "when, in milliseconds since 1970", required=True),),
    ),
    Route("POST", "/v1/tasks/{id}/rerun", "Run a failed one again, under a new id", tasks.rerun),
    Route(
        "GET",
        "/v1/queues",
        "Queues: how much waits and runs, and their limits",
        queues.find,
        (_PREFIX, *_PAGING),
    ),
    Route("GET", "/v1/queues/{name}", "Look at a queue", queues.get),
    Route(
        "PUT",
        "/v1/queues/{name}",
        "Set the limits of a queue; one left out is lifted",
        queues.set_limits,
        body=_LIMITS,
    ),
    Route("POST", "/v1/queues/{name}/pause", "Let none of its tasks begin", queues.pause),
    Route("POST", "/v1/queues/{name}/resume", "Let them begin again", queues.resume),
    Route(
        "GET",
        "/v1/locks",
        "Locks that executions hold or wait for, by name",
        locks.find,
        (Parameter("all", "boolean", "also those that nobody uses at present"), _PREFIX, *_PAGING),
    ),
    Route(
        "POST",
        "/v1/events",
        "Send an event: it wakes every execution that waits for it",
        sent_events.send,
        body=(
            Parameter("name", "string", "the name of the event", required=True),
            Parameter("attributes", "object", "what executions match it by, and get"),
            Parameter("id", "string", "under the same id it is sent once"),
        ),
    ),
    Route(
        "GET",
        "/v1/events",
        "The events of one name, newest first",
        sent_events.find,
        (
            Parameter("name", "string", "of which events", required=True),
            Parameter("before", "integer", "only with a smaller number"),
            Parameter("limit", "integer", "how many on a page, at most"),
        ),
    ),
    Route("GET", "/v1/locks/{name}", "Look at a lock: who holds it, who waits", locks.get),
    Route(
        "POST",
        "/v1/locks/{name}/release",
        "End a hold or a wait by force; the holder is not told",
        locks.release,
        body=(
            Parameter("id", "string", "the execution, or one ticket of it", required=True),
            Parameter("reason", "string", "why; it is kept with the lock", required=True),
        ),
    ),
    Route("GET", "/v1/schedules", "Schedules, by id", schedules.find, (_TAG, _PREFIX, *_PAGING)),
    Route(
        "POST",
        "/v1/schedules",
        "Create a schedule",
        schedules.create,
        body=(Parameter("id", "string", "its id", required=True), *_RHYTHM),
    ),
    Route(
        "GET", "/v1/schedules/{id}", "Look at a schedule, its next five and its last five runs", schedules.get
    ),
    Route(
        "PUT",
        "/v1/schedules/{id}",
        "Change a schedule; what is not given stays as it is",
        schedules.update,
        body=_RHYTHM,
    ),
    Route("POST", "/v1/schedules/{id}/pause", "Fire no more runs until it is resumed", schedules.pause),
    Route("POST", "/v1/schedules/{id}/resume", "Fire runs again, from now on", schedules.resume),
    Route("POST", "/v1/schedules/{id}/trigger", "Make one run now", schedules.trigger),
    Route(
        "POST",
        "/v1/schedules/{id}/backfill",
        "Make the runs of past occurrences, some at a time",
        schedules.backfill,
        body=(
            Parameter("since", "integer", "from this instant, in milliseconds", required=True),
            Parameter("until", "integer", "to this instant", required=True),
        ),
    ),
    Route(
        "DELETE", "/v1/schedules/{id}", "Delete a schedule; runs that have started continue", schedules.delete
    ),
    Route("GET", "/v1/workers", "Workers, by id: what each is, holds and knows", workers.find, _PAGING),
    Route("GET", "/v1/workers/{id}", "Look at a worker", workers.get),
    Route(
        "POST",
        "/v1/workers/{id}",
        "For workers: tell what this one is and what it knows to run",
        workers.tell,
        body=WORKER,
        audited=False,  # nobody has asked for it
    ),
    Route("POST", "/v1/workers/{id}/drain", "Let a worker finish and claim nothing more", workers.drain),
    Route("POST", "/v1/workers/{id}/undrain", "Let a drained worker claim again", workers.undrain),
    Route(
        "GET",
        "/v1/declarations",
        "What workers know to run: names, versions, and what each takes, as JSON schema",
        workers.declarations,
        (
            Parameter("kind", "string", "only of this kind: workflow, task, entity"),
            Parameter("name", "string", "only with this name"),
            *_PAGING,
        ),
    ),
    Route(
        "GET",
        "/v1/changes",
        "As events: what changes from now on; otherwise the id to continue from later",
        changes.get,
        (Parameter("after", "string", "as events: continue after the one with this id"), _TICKET),
        follow=changes.follow,
    ),
    Route(
        "GET",
        "/v1/overview",
        "How everything is doing: counts, rates, failures, problems, the oldest, queues, schedules, the node",
        overview.get,
        (
            Parameter("minutes", "integer", "how far back rates and failures go; 60 without it"),
            Parameter("buckets", "integer", "in how many stretches of time; 60 without it"),
        ),
    ),
    Route("GET", "/v1/session", "Who you are here, and what answers", session.get),
    Route(
        "GET",
        "/v1/audit",
        "Who changed what through this API, newest first",
        audit.find,
        (
            Parameter("who", "string", "only by this one"),
            Parameter("target", "string", "only about this id or name"),
            *_PAGING,
        ),
    ),
    Route("GET", "/v1/counts", "How many there are of each status", executions.count, _FILTERS),
)


def find_route(path: list[str], method: str) -> tuple[Route | None, list[str], list[str]]:
    """The route, what its path leaves open, and the methods that the path answers to."""
    methods: list[str] = []
    found: Route | None = None
    given: list[str] = []
    for route in ROUTES:
        parts = route.parts
        if len(parts) == len(path) and all(
            fixed == part or fixed.startswith("{") for fixed, part in zip(parts, path, strict=True)
        ):
            methods.append(route.method)
            if route.method == method:
                found = route
                given = [part for fixed, part in zip(parts, path, strict=True) if fixed.startswith("{")]
    return found, given, methods
