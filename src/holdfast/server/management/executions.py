"""`/v1/executions`: found, looked at, started, steered, mended; and `/v1/counts`."""

from typing import Any, Final, get_args

from msgspec.structs import asdict, replace

from holdfast.protocol import limits, tags
from holdfast.protocol.events import kept_headers
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus
from holdfast.protocol.failures import Failure, again_prefix, failures_max, read_failures, step_of
from holdfast.protocol.ids import below
from holdfast.protocol.operations import is_tried, operations_of, tries_of
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.records import NOTHING, Promise
from holdfast.protocol.requests import (
    CreateAction,
    ExecutionCancel,
    ExecutionCount,
    ExecutionFork,
    ExecutionGet,
    ExecutionRetry,
    ExecutionSearch,
    ExecutionStart,
    OnExisting,
    PromiseCreate,
    PromiseGet,
    PromiseSearch,
    TaskContinue,
    TaskHalt,
)
from holdfast.protocol.sizes import promise_bytes
from holdfast.server.errors import BadManagementRequest, IdInUse
from holdfast.server.management.arguments import check_arguments
from holdfast.server.management.beginning import begins_at, place_of, span
from holdfast.server.management.call import Call, Json
from holdfast.server.management.errors_shown import with_errors
from holdfast.server.management.obstacles import with_obstacle
from holdfast.server.management.shapes import (
    RESERVED,
    read_promise,
    show_call,
    show_value,
    show_whole,
    with_progress,
)

_searches_max: Final = 50  # in one commit
_known_statuses: Final[tuple[str, ...]] = get_args(ExecutionStatus)


def search_of(call: Call, kind: ExecutionKind | None) -> ExecutionSearch:
    """The filters, as the protocol has them; it says which of them make no sense."""
    return ExecutionSearch(
        kind,
        _statuses(call),
        call.text("name"),
        _tags(call),
        call.text("queue"),
        call.text("error"),
        call.text("prefix"),
        call.integer("since"),
        call.integer("until"),
        call.integer("limit"),
        call.text("cursor"),
    )


def _statuses(call: Call) -> list[ExecutionStatus] | None:
    found: list[Any] | None = call.texts("status")
    wrong = [each for each in found or () if each not in _known_statuses]
    if wrong:
        raise BadManagementRequest(f"status={wrong[0][:40]!r} is not one of {', '.join(_known_statuses)}")
    return found


def _tags(call: Call) -> dict[str, str] | None:
    schedule = call.text("schedule")
    return call.tags() if schedule is None else {**(call.tags() or {}), tags.SCHEDULE: schedule}


async def find(call: Call) -> Json:
    """With a version a page may be short: that is part of the call, which is looked at after the search."""
    page = await call.ask(search_of(call, "execution"))
    found, version = page["executions"], call.integer("version")
    if version is not None:
        versions = await _versions(call, [each["id"] for each in found])
        found = [each for each in found if versions.get(each["id"]) == version]
    return {"executions": await with_errors(call, found), "cursor": page.get("cursor")}


async def _versions(call: Call, ids: list[str]) -> dict[str, int | None]:
    """Of each call that can be read."""
    found: dict[str, int | None] = {}
    for start in range(0, len(ids), _searches_max):
        some = ids[start : start + _searches_max]
        for reply in await call.replies([PromiseGet(each) for each in some]):
            if reply["head"]["status"] == 200:  # else it was deleted meanwhile
                promise = reply["data"]["promise"]
                found[promise["id"]] = show_call(promise["param"]).get("version")
    return found


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
    shown: Json = with_progress(view["execution"]) | {"call": show_call(promise["promise"]["param"])}
    if "settledAt" in shown:
        shown["result" if shown["status"] == "completed" else "failure"] = show_whole(
            promise["promise"]["value"]
        )
    return await with_obstacle(call, shown)


async def steps(call: Call) -> Json:
    """A page of the operations that it has recorded, by id; each with its result where that is asked for."""
    looked = await call.ask(ExecutionGet(call.id))
    page = await _records(call)
    records = [read_promise(record) for record in page["promises"]]
    values = {record["id"]: record["value"] for record in page["promises"]}
    records = [each for each in records if step_of(each.id) is None]
    tries = await tries_at(call, records)
    told = tries_of(tries)
    shown: list[Json] = []
    for view in operations_of(call.id, [*records, *tries], looked["execution"].get("generation", 0)):
        operation: Json = {name: value for name, value in asdict(view).items() if value is not None}
        operation = {_camel(name): value for name, value in operation.items()}
        if call.flag("results") and view.state != "running":
            [operation["value"]] = await call.show_all([{"value": values[view.id]}], _value_of)
        if failures := failures_of(told.get(view.id, [])):
            operation["failures"] = failures
        shown.append(operation)
    return {"steps": shown, "cursor": page.get("cursor")}


async def tries_at(call: Call, records: list[Promise]) -> list[Promise]:
    """The records that count the attempts at these steps. They may lie on another page. What failed is kept
    of as many as a page of a search may hold."""
    tried = [each.id for each in records if is_tried(each)]
    found: list[Promise] = []
    kept_bytes = 0
    for start in range(0, len(tried), _searches_max):
        some = tried[start : start + _searches_max]
        searches = [PromiseSearch(prefix=again_prefix(step), limit=limits.page_size_max) for step in some]
        for page in await call.ask_all(searches):
            for each in map(read_promise, page["promises"]):
                kept_bytes += promise_bytes(each)
                is_kept = kept_bytes <= limits.search_bytes_max
                found.append(each if is_kept else replace(each, param=NOTHING, value=NOTHING))
    return found


def _value_of(record: Json) -> Any:
    return show_whole(record["value"])


def failures_of(tries: list[Promise]) -> list[Json]:
    """The latest ones, as many as are kept, where they can be read."""
    found: list[Failure] = []
    for record in tries[-failures_max:]:
        found += read_failures(show_value({"data": record.param.data}))
    return [asdict(failure) for failure in found[-failures_max:]]


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
    given = call.text_fields("tags") or {}
    if any(name.startswith(RESERVED) for name in given):
        raise BadManagementRequest(f"Tags that begin with {' or '.join(RESERVED)} are the protocol's own")
    execution_id = call.field("id", str) or call.fresh_id(workflow)
    entries: dict[str, str] = {
        **given,
        tags.ORIGIN: execution_id,
        tags.BRANCH: execution_id,
        tags.PARENT: execution_id,
        tags.SCOPE: "global",
        tags.WORKFLOW: workflow,
        **place_of(call),
    }
    now = call.now()
    entries |= begins_at(call, now)
    timeout_ms, grace_ms = span(call, "timeout"), span(call, "grace")
    timeout_at = limits.instant_ms_max
    if timeout_ms is not None:
        grace_ms = limits.grace_ms if grace_ms is None else grace_ms
        timeout_at = min(now + timeout_ms + grace_ms, limits.instant_ms_max)
        entries |= {tags.GRACE: str(grace_ms)} if grace_ms else {}
    args, kwargs = call.field("args", list, []), call.field("kwargs", dict, {})
    version = call.field("version", int, 0)
    if call.field("check", bool, True):
        await check_arguments(call, "workflow", workflow, version, args, kwargs)
    param = plain_call(workflow, args, kwargs, version)
    how = call.field("onExisting", str, "return")
    if how not in get_args(OnExisting):
        raise BadManagementRequest(f"onExisting must be one of {', '.join(get_args(OnExisting))}")
    key = call.header(b"idempotency-key") or (None if how == "return" else call.fresh_id("start"))
    creation = PromiseCreate(execution_id, timeout_at, param, entries, key)
    request = creation if how == "return" else ExecutionStart(CreateAction(creation), how)
    promise = await call.ask_for("promise", request)
    _check_same(promise, {"data": param.data})
    return await call.ask_for("execution", ExecutionGet(execution_id))


def _check_same(promise: Json, param: Json) -> None:
    there, wanted = show_call(promise["param"]), show_call(param)
    if wanted["version"] == 0:  # whichever is the newest
        there = there | {"version": 0}
    if there != wanted:
        raise IdInUse(f"Something else has the id {promise['id']!r} already")


async def cancel(call: Call) -> Json:
    """Ask it to cancel itself; with `now` end it at once, and what it called."""
    await call.ask(ExecutionGet(call.id))
    await call.ask(ExecutionCancel(call.id, call.field("now", bool, False)))
    return await get(call)


async def retry(call: Call) -> Json:
    """From where it failed."""
    await call.ask(ExecutionRetry(call.id, _deadline(call)))
    return await get(call)


async def fork(call: Call) -> Json:
    """A new execution, from before a step of this one; with `args` or `kwargs` under another input."""
    before = call.field("before", str)
    if not before:
        raise BadManagementRequest("before must be the name of a step, or the id of an operation")
    new_id = call.field("id", str) or call.fresh_id(call.id)
    param, wanted = None, None
    if "args" in call.body or "kwargs" in call.body:
        _, found = await call.ask_all([ExecutionGet(call.id), PromiseGet(call.id)])
        known = show_call(found["promise"]["param"])
        if "workflow" not in known:
            raise BadManagementRequest("What it was called with cannot be read here, so it cannot be changed")
        args, kwargs = call.field("args", list, []), call.field("kwargs", dict, {})
        kept = kept_headers(found["promise"]["param"].get("headers"))
        param = plain_call(known["workflow"], args, kwargs, known["version"], kept)
        wanted = {"data": param.data}
    forking = ExecutionFork(call.id, new_id, before, param, _deadline(call))
    forked = await call.ask_for("promise", forking)
    if wanted is not None:
        _check_same(forked, wanted)
    return await call.ask_for("execution", ExecutionGet(new_id))


def _deadline(call: Call) -> int | None:
    timeout = call.field("timeout", float | int)  # type: ignore[arg-type]
    return None if timeout is None else call.now() + round(timeout * 1000)


async def halt(call: Call) -> Json:
    """Nobody may take it up until it is resumed."""
    reason = call.field("reason", str) or "halted by hand"
    request = TaskHalt(call.id, None, reason, call.field("code", str))
    await call.ask_all([ExecutionGet(call.id), request])
    return await get(call)


async def resume(call: Call) -> Json:
    """Let a halted one go on."""
    await call.ask_all([ExecutionGet(call.id), TaskContinue(call.id)])
    return await get(call)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
