"""Everything that the management API answers, in one table: paths, handlers, and what they take.

A handler is given nothing that the table does not name: a parameter or a field of the body that is not listed
here is refused. So the description that is made of the table (openapi.py) cannot say less than what is there.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from msgspec import Struct

from holdfast.server.management import executions, promises, queues, schedules, tasks, workers
from holdfast.server.management.call import Call, Json

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "any"]
Handler = Callable[[Call], Awaitable[Json]]


class Parameter(Struct, frozen=True):
    name: str
    kind: Kind
    about: str
    required: bool = False


class Route(Struct, frozen=True):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    about: str
    handler: Handler
    query: tuple[Parameter, ...] = ()
    body: tuple[Parameter, ...] = ()

    @property
    def parts(self) -> list[str]:
        return self.path.strip("/").split("/")


_PAGING: Final = (
    Parameter("limit", "integer", "at most so many on a page"),
    Parameter("cursor", "string", "go on where a page ended"),
)
_PREFIX: Final = Parameter("prefix", "string", "only ids that begin with it")
_TAG: Final = Parameter("tag", "string", "only with this tag, name:value; may be given several times")
_FILTERS: Final = (
    Parameter("status", "string", "only with one of these, separated by commas"),
    Parameter("name", "string", "only of this workflow or background task"),
    _TAG,
    Parameter("queue", "string", "only of this queue or group of workers"),
    Parameter("error", "string", "only failed with this code"),
    _PREFIX,
    Parameter("since", "integer", "only created at or after this instant, in milliseconds"),
    Parameter("until", "integer", "only created before this instant, in milliseconds"),
)
_START: Final = (
    Parameter("workflow", "string", "the name of the workflow", required=True),
    Parameter("args", "array", "its arguments by position, as plain JSON"),
    Parameter("kwargs", "object", "its arguments by name, as plain JSON"),
    Parameter("id", "string", "the id of the execution; a new one without it"),
    Parameter("version", "integer", "of the workflow; 0, the newest, without it"),
    Parameter("group", "string", "of the workers that run it; `default` without it"),
    Parameter("tags", "object", "texts to find it by"),
    Parameter("delay", "number", "begin no earlier than in so many seconds"),
    Parameter("timeout", "number", "it must be over in so many seconds"),
)
_LIMITS: Final = (
    Parameter("concurrency", "integer", "how many run at a time"),
    Parameter("keyConcurrency", "integer", "how many of one key run at a time"),
    Parameter("rate", "object", "{count, perMs}: how many are started in a stretch of time"),
    Parameter("keyRate", "object", "{count, perMs}: the same for one key"),
    Parameter("fair", "boolean", "its keys take turns"),
    Parameter("weights", "object", "{key: weight}: how many turns a key of a fair queue gets"),
    Parameter("running", "integer", "how many are claimed at a time; executions that wait do not count"),
)

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/executions", "Find executions, newest first", executions.find, (*_FILTERS, *_PAGING)),
    Route("POST", "/v1/executions", "Start an execution", executions.start, body=_START),
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
        body=(Parameter("now", "boolean", "end it at once; its code is told nothing"),),
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
    Route("POST", "/v1/executions/{id}/resume", "Let a halted execution go on", executions.resume),
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
            Parameter("message", "string", "what the error says"),
            Parameter("name", "string", "the name of its class"),
            Parameter("type", "string", "module:Class, if the workflow knows it"),
        ),
    ),
    Route("GET", "/v1/tasks", "Find background tasks, newest first", tasks.find, (*_FILTERS, *_PAGING)),
    Route("GET", "/v1/tasks/{id}", "Look at a background task and its attempts", tasks.get),
    Route(
        "POST",
        "/v1/tasks/{id}/cancel",
        "End a background task",
        tasks.cancel,
        body=(Parameter("force", "boolean", "also while it runs"),),
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
    Route("GET", "/v1/schedules", "Schedules, by id", schedules.find, (_TAG, _PREFIX, *_PAGING)),
    Route("GET", "/v1/schedules/{id}", "Look at a schedule", schedules.get),
    Route("DELETE", "/v1/schedules/{id}", "Delete a schedule; what it has started goes on", schedules.delete),
    Route(
        "GET",
        "/v1/workers",
        "Who is connected to this node, and what each holds",
        workers.find,
        (Parameter("cursor", "string", "go on where a page ended"),),
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


def names(parameters: tuple[Parameter, ...]) -> set[str]:
    return {parameter.name for parameter in parameters}
