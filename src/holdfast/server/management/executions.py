"""`/v1/executions`: found, looked at, started, cancelled, halted, resumed; and `/v1/counts`."""

from typing import Final

from msgspec.structs import asdict, replace

from holdfast.protocol import limits, tags
from holdfast.protocol.cancelling import cancel_requests
from holdfast.protocol.executions import ExecutionKind
from holdfast.protocol.ids import below
from holdfast.protocol.operations import operations_of
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.requests import (
    ExecutionCount,
    ExecutionGet,
    ExecutionSearch,
    PromiseCreate,
    PromiseGet,
    PromiseSearch,
    TaskContinue,
    TaskHalt,
)
from holdfast.server.errors import BadManagementRequest, IdInUse
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import RESERVED, read_promise, show_call, show_value

default_group: Final = "default"


def search_of(call: Call, kind: ExecutionKind | None) -> ExecutionSearch:
    """The filters, as the protocol has them; it says which of them make no sense."""
    return ExecutionSearch(
        kind,
        call.texts("status"),  # type: ignore[arg-type]  # the protocol refuses what is none
        call.text("name"),
        call.tags(),
        call.text("queue"),
        call.text("error"),
        call.text("prefix"),
        call.integer("since"),
        call.integer("until"),
        call.integer("limit"),
        call.text("cursor"),
    )


async def find(call: Call) -> Json:
    page = await call.ask(search_of(call, "execution"))
    return {"executions": page["executions"], "cursor": page.get("cursor")}


async def count(call: Call) -> Json:
    """Executions and background tasks of each status, each up to a bound."""
    fields = asdict(search_of(call, None))
    del fields["limit"], fields["cursor"]
    wanted = ExecutionCount(**fields)
    kinds: tuple[ExecutionKind, ...] = ("execution", "task")
    found = await call.ask_all([replace(wanted, kind=kind) for kind in kinds])
    names = ("executions", "tasks")
    return {
        name: {"counts": each["counts"], "more": each.get("more", [])}
        for name, each in zip(names, found, strict=True)
    }


async def get(call: Call) -> Json:
    view, promise = await call.ask_all([ExecutionGet(call.id), PromiseGet(call.id)])
    shown: Json = view["execution"] | {"call": show_call(promise["promise"]["param"])}
    if "settledAt" in shown:
        shown["result" if shown["status"] == "completed" else "failure"] = show_value(
            promise["promise"]["value"]
        )
    return shown


async def steps(call: Call) -> Json:
    """A page of the operations that it has recorded, by id; each with its result where that is asked for."""
    page = await _records(call)
    records = [read_promise(record) for record in page["promises"]]
    values = {record["id"]: record["value"] for record in page["promises"]}
    shown: list[Json] = []
    for view in operations_of(call.id, records):
        operation: Json = {name: value for name, value in asdict(view).items() if value is not None}
        operation = {_camel(name): value for name, value in operation.items()}
        if call.flag("results") and view.state != "running":
            operation["value"] = show_value(values[view.id])
        shown.append(operation)
    return {"steps": shown, "cursor": page.get("cursor")}


async def history(call: Call) -> Json:
    """A page of all that it has recorded, as it is stored."""
    view, root = await call.ask_all([ExecutionGet(call.id), PromiseGet(call.id)])
    page = await _records(call)
    return {
        "format": "holdfast-history-1",
        "execution": view["execution"],
        "promise": root["promise"],
        "records": page["promises"],
        "cursor": page.get("cursor"),
    }


async def _records(call: Call) -> Json:
    await call.ask(ExecutionGet(call.id))
    own = {tags.PARENT: call.id}
    search = PromiseSearch(None, own, below(call.id), call.integer("limit"), call.text("cursor"))
    return await call.ask(search)


async def start(call: Call) -> Json:
    """With plain JSON arguments. The same call under the same id is the same execution."""
    workflow = call.field("workflow", str)
    if not workflow:
        raise BadManagementRequest("workflow must be the name of a workflow")
    given = call.field("tags", dict, {})
    if any(name.startswith(RESERVED) for name in given):
        raise BadManagementRequest(f"Tags that begin with {' or '.join(RESERVED)} are the protocol's own")
    execution_id = call.field("id", str) or call.fresh_id(workflow)
    group = call.field("group", str) or default_group
    entries: dict[str, str] = {
        **given,
        tags.ORIGIN: execution_id,
        tags.BRANCH: execution_id,
        tags.PARENT: execution_id,
        tags.SCOPE: "global",
        tags.TARGET: f"poll://any@{group}",
        tags.WORKFLOW: workflow,
    }
    now = call.now()
    if (delay := call.field("delay", float | int)) is not None:  # type: ignore[arg-type]
        entries[tags.DELAY] = str(now + round(delay * 1000))
    timeout = call.field("timeout", float | int)  # type: ignore[arg-type]
    timeout_at = limits.instant_ms_max if timeout is None else now + round(timeout * 1000)
    args, kwargs = call.field("args", list, []), call.field("kwargs", dict, {})
    param = plain_call(workflow, args, kwargs, call.field("version", int, 0))
    creation = PromiseCreate(execution_id, timeout_at, param, entries)
    promise = await call.ask_for("promise", creation)
    _check_same(promise, {"data": param.data})
    return await call.ask_for("execution", ExecutionGet(execution_id))


def _check_same(promise: Json, param: Json) -> None:
    there, wanted = show_call(promise["param"]), show_call(param)
    if wanted["version"] == 0:  # whichever is the newest
        there = there | {"version": 0}
    if there != wanted:
        raise IdInUse(f"Something else has the id {promise['id']!r} already")


async def cancel(call: Call) -> Json:
    """Ask it to cancel itself; with `now` end it at once."""
    await call.ask(ExecutionGet(call.id))
    promise = read_promise(await call.ask_for("promise", PromiseGet(call.id)))
    requests = cancel_requests(promise, now=call.field("now", bool, False))
    if requests:
        await call.ask_all(requests)
    return await get(call)


async def halt(call: Call) -> Json:
    """Nobody may take it up until it is resumed."""
    reason = call.field("reason", str) or "halted by hand"
    request = TaskHalt(call.id, None, reason, call.field("code", str))
    await call.ask(request)
    return await get(call)


async def resume(call: Call) -> Json:
    """Let a halted one go on."""
    await call.ask(TaskContinue(call.id))
    return await get(call)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
