"""What a route takes: one parameter, and the longer lists of them (routes.py has the others)."""

from typing import Final, Literal

from msgspec import Struct

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "any"]


class Parameter(Struct, frozen=True):
    name: str
    kind: Kind
    about: str
    required: bool = False


CHECK: Final = Parameter("check", "boolean", "false: do not compare the arguments with what is declared")
START: Final = (
    Parameter("workflow", "string", "the name of the workflow", required=True),
    Parameter("args", "array", "its arguments by position, as plain JSON"),
    Parameter("kwargs", "object", "its arguments by name, as plain JSON"),
    Parameter("id", "string", "the id of the execution; a new one without it"),
    Parameter("version", "integer", "of the workflow; 0, the newest, without it"),
    Parameter("group", "string", "of the workers that run it; `default` without it"),
    Parameter("tags", "object", "texts to find it by"),
    Parameter("queue", "string", "where it waits, instead of `group`"),
    Parameter("priority", "integer", "higher ones first"),
    Parameter("limitKey", "string", "the key for limits, turns and overlap of the queue"),
    Parameter("overlap", "string", "while another of its key is open in the queue: wait, reject, replace"),
    Parameter("delay", "number", "seconds to wait before it may start"),
    Parameter("at", "integer", "instead of `delay`: start no earlier than this instant, in milliseconds"),
    Parameter("timeout", "number", "seconds after which it is asked to cancel itself"),
    Parameter("grace", "number", "seconds after its timeout until it is ended; by default 30"),
    CHECK,
    Parameter(
        "onExisting",
        "string",
        "if the id is taken: return, reject, again_if_failed, replace",
    ),
)
SEND: Final = (
    Parameter("task", "string", "the name of the background task", required=True),
    Parameter("args", "array", "its arguments by position, as plain JSON"),
    Parameter("kwargs", "object", "its arguments by name, as plain JSON"),
    Parameter("id", "string", "its id; a new one without it"),
    Parameter("queue", "string", "where it waits; the one that the task declares without it"),
    Parameter("key", "string", "at most one open task of the queue has it"),
    Parameter("onConflict", "string", "while another has the key: existing (give that one), replace, reject"),
    Parameter("limitKey", "string", "the key for limits and turns of the queue"),
    Parameter("priority", "integer", "higher ones first"),
    Parameter("retry", "object", "{retries, delays} or {retries, base, factor, max}; tried once without it"),
    Parameter("tags", "object", "texts to find it by"),
    Parameter("delay", "number", "seconds to wait before it may start"),
    Parameter("at", "integer", "instead of `delay`: start no earlier than this instant, in milliseconds"),
    Parameter("goodUntil", "integer", "it must start before this instant, in milliseconds"),
    Parameter("timeout", "number", "seconds in which it must be over"),
    Parameter("timeLimit", "number", "of one attempt, in seconds"),
    Parameter("keep", "number", "seconds after its end until it is deleted"),
    CHECK,
)
WORKER: Final = (
    Parameter("group", "string", "whose work it does", required=True),
    Parameter("startedAt", "integer", "since when it runs", required=True),
    Parameter("declared", "string", "a digest of its declarations"),
    Parameter("queues", "array", "whose background tasks it runs"),
    Parameter("host", "string", "the name of its machine"),
    Parameter("pid", "integer", "its process there"),
    Parameter("python", "string", "the version of its language"),
    Parameter("holdfast", "string", "the version of its library"),
    Parameter("codeVersion", "string", "the version of the application"),
    Parameter("slots", "object", "{kind of work: {size, used}}"),
    Parameter("held", "integer", "how much it has claimed"),
    Parameter("isStopped", "boolean", "this is its last report"),
    Parameter("declarations", "array", "what it can run; the answer `wanted` asks for it"),
)


def names(parameters: tuple[Parameter, ...]) -> set[str]:
    return {parameter.name for parameter in parameters}
