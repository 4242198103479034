"""Refusals of the HTTP server itself: before, or instead of, asking the node."""

from holdfast.protocol.errors import HoldfastError, Refusal


class NoSuchPath(Refusal):
    code = "HF3001"
    status = 404
    hint = (
        "Requests go to POST /, streams to GET /poll/{group}/{id}, management to /v1 (GET /v1/openapi.json); "
        "also GET /health, /ready and /metrics."
    )


class WrongMethod(Refusal):
    code = "HF3002"
    status = 405
    hint = "docs/reference/server.md lists what each path answers to."


class LegacyPath(Refusal):
    code = "HF3003"
    status = 410
    hint = "This path belongs to an older protocol: use an SDK that sends its requests to POST /."


class BodyTooLarge(Refusal):
    code = "HF3004"
    status = 413
    hint = "Send smaller values, fewer envelopes at once, or raise body_bytes_max."


class HeadTooLarge(Refusal):
    code = "HF3005"
    status = 431
    hint = "Send fewer or smaller headers, or raise header_bytes_max."


class TooSlow(Refusal):
    code = "HF3006"
    status = 408
    hint = "Send the whole request at once; read_timeout_s says how long the server waits for it."


class TooMany(Refusal):
    code = "HF3007"
    status = 429
    hint = "Wait a moment and try again."


class BadHttp(Refusal):
    code = "HF3008"
    status = 400
    hint = "Send a well-formed HTTP/1.1 request."


class BadStreamPath(Refusal):
    code = "HF3009"
    status = 400
    hint = "A stream is GET /poll/{group}/{id}, each part percent-encoded UTF-8 of at most 1,024 bytes."


class NotReady(Refusal):
    code = "HF3010"
    status = 503
    hint = "The store cannot be used at the moment; the log says why."


class TooManyBytes(Refusal):
    """Nothing was changed: the request was not carried out."""

    code = "HF3012"
    status = 429
    hint = (
        "Wait a moment and try again, with smaller requests or fewer at once; bodies_bytes_max is the bound."
    )


class Unauthenticated(Refusal):
    code = "HF3101"
    status = 401
    hint = "Send a valid token as Authorization: Bearer ... or in head.auth."


class Forbidden(Refusal):
    code = "HF3102"
    status = 403
    hint = "Ask for a token whose prefix covers it, or one with the role admin."


class ForeignOrigin(Refusal):
    code = "HF3103"
    status = 403
    hint = (
        "If that is the console behind a proxy, set public_url to the address in the browser. "
        "If it was opened by a host name, add the name to allowed_hosts, or open it by the IP address. "
        "If one of your own pages should call this server, add its origin to allowed_origins."
    )


class ForeignHost(Refusal):
    code = "HF3104"
    status = 421
    hint = "Add the name to allowed_hosts if clients should reach this server by it."


class TooFast(Refusal):
    code = "HF3011"
    status = 429
    hint = "Wait as long as Retry-After says; rate_limit is the bound."


class BadManagementRequest(Refusal):
    """A parameter or a body of the management API that makes no sense."""

    code = "HF3401"
    status = 400
    hint = "GET /v1/openapi.json describes every path, its parameters and its body."


class IdInUse(Refusal):
    """Nothing was started."""

    code = "HF3402"
    status = 409
    hint = "Use a new id for each call; GET /v1/executions/{id} shows what has this one."


class NotToBeSettled(Refusal):
    code = "HF3403"
    status = 409
    hint = "Cancel it: POST /v1/executions/{id}/cancel, POST /v1/tasks/{id}/cancel."


class SettledOtherwise(Refusal):
    code = "HF3404"
    status = 409
    hint = "The first outcome is final; GET /v1/promises/{id} shows it."


class NoBackgroundTask(Refusal):
    code = "HF3405"
    status = 404
    hint = "Executions of workflows are at /v1/executions/{id}."


class CannotRunAgain(Refusal):
    code = "HF3406"
    status = 409
    hint = "Only background tasks that failed, were cancelled or have expired are run again."


class AnswerRefused(Refusal):
    """The code of the workflow refused the message."""

    code = "HF3407"
    status = 422
    hint = "The message was read and refused by the execution; send another one."


class NoAnswerInTime(Refusal):
    """The message stays sent."""

    code = "HF3408"
    status = 504
    hint = "Ask again under the same key to wait for the same answer; the message is not sent twice."


class NothingPublished(Refusal):
    code = "HF3409"
    status = 404
    hint = "GET /v1/executions/{id}/published lists the names; the execution may not have published it yet."


class ReadOnly(Refusal):
    """Nothing was changed."""

    code = "HF3421"
    status = 403
    hint = "This token is read-only. Use one that may write."


class ArgumentsDoNotFit(Refusal):
    """Nothing was started."""

    code = "HF3422"
    status = 400
    hint = "GET /v1/declarations?name=... shows what it takes; `check: false` starts it all the same."


class NoSuchWorker(Refusal):
    code = "HF3420"
    status = 404
    hint = "GET /v1/workers lists those that have reported in the last days."


class SettingsError(HoldfastError):
    """A setting that cannot be used. The server does not start."""

    code = "HF3201"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} [{self.code}]")


class OpenToTheWorld(SettingsError):
    """Listening beyond this machine without auth was not explicitly allowed."""

    code = "HF3202"


class StoreInUse(SettingsError):
    """Two servers on one SQLite file would not hear of each other's messages."""

    code = "HF3203"


class MissingExtra(SettingsError):
    """A package that only some installations need is not installed."""

    code = "HF3204"

    def __init__(self, who: str, extra: str, package: str) -> None:
        super().__init__(
            f"{who} needs {package}, which is not installed. Run: pip install 'holdfast[{extra}]'"
        )


class NeedsPostgres(SettingsError):
    """Many node processes share a PostgreSQL. SQLite and memory have one node, which is one process."""

    code = "HF3205"


class NodeProcessFailed(SettingsError):
    """A node process ended before it was ready. It has said why itself."""

    code = "HF3206"


class PushRefused(HoldfastError):
    """A message was not posted, because its address is not one that this server may call."""

    code = "HF3301"
