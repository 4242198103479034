"""`/v1/bulk`: something is done to every execution, or background task, for which a filter is true.

The filters are those of a search, as fields of the body. A prefix-bound token may not: the node acts on its
own, and would act for everybody.
"""

from typing import Final, get_args

from holdfast.protocol.bulk import (
    NAME,
    PROGRESS,
    BulkAction,
    BulkProgress,
    BulkSpec,
    bulk_creation,
    count_of,
    is_same_operation,
    names_everything,
    read_progress,
    read_spec,
    wanted_by,
)
from holdfast.protocol.requests import (
    ExecutionCancel,
    ExecutionGet,
    ExecutionSearch,
    PromiseGet,
    StreamRead,
)
from holdfast.server.errors import BadManagementRequest, IdInUse
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import read_promise

_actions: Final = get_args(BulkAction)


async def begin(call: Call) -> Json:
    """Its total is counted first, as far as executions are counted."""
    action = call.field("action", str)
    if action not in _actions:
        raise BadManagementRequest(f"action must be one of {', '.join(_actions)}")
    status = call.field("status", list)
    search = ExecutionSearch(
        call.field("kind", str),
        status,
        call.field("name", str),
        call.text_fields("tags"),
        call.field("queue", str),
        call.field("error", str),
        call.field("prefix", str),
        call.field("since", int),
        call.field("until", int),
    )
    if names_everything(search) and not call.field("all", bool, False):
        raise BadManagementRequest(
            f"Without a filter this would {action} everything: give a filter, or all: true"
        )
    wanted = wanted_by(action, search, call.now())
    counts = await call.ask(count_of(wanted))
    total = None if counts.get("more") else sum(counts["counts"].values())
    bulk_id = call.field("id", str) or call.fresh_id("bulk")
    now, reason, before = (
        call.field("now", bool, False), call.field("reason", str, ""), call.field("before", str, "")
    )  # fmt: skip
    spec = BulkSpec(action, wanted, now, reason, before, total)
    stored = read_promise(await call.ask_for("promise", bulk_creation(bulk_id, spec)))
    if not is_same_operation(spec, stored):
        raise IdInUse(f"Something else, or another bulk operation, has the id {bulk_id!r} already")
    return await _show(call, bulk_id)


async def find(call: Call) -> Json:
    """Newest first."""
    search = ExecutionSearch(name=NAME, limit=call.integer("limit"), cursor=call.text("cursor"))
    page = await call.ask(search)
    return {"operations": page["executions"], "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    return await _show(call, call.id)


async def cancel(call: Call) -> Json:
    """What is done stays done."""
    await _show(call, call.id)
    await call.ask(ExecutionCancel(call.id, now=True))
    return await _show(call, call.id)


async def _show(call: Call, bulk_id: str) -> Json:
    view, promise = await call.ask_all([ExecutionGet(bulk_id), PromiseGet(bulk_id)])
    if view["execution"].get("name") != NAME:
        raise BadManagementRequest(f"{bulk_id!r} is not a bulk operation")
    found = read_promise(promise["promise"])
    spec, counts = read_spec(found.param), BulkProgress()
    if found.state == "resolved":
        counts = read_progress(found.value)
    else:
        last = await call.ask(StreamRead(bulk_id, PROGRESS, last=True))
        if last["promises"]:
            counts = read_progress(read_promise(last["promises"][-1]).value)
    done = counts.done + counts.asked
    left = None if spec.total is None else max(0, spec.total - done - counts.failed - counts.skipped)
    return {
        "id": bulk_id,
        "action": spec.action,
        "status": view["execution"]["status"],
        "done": done,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "left": 0 if found.state == "resolved" else left,
        "codes": counts.codes,
        "examples": counts.examples,
        "createdAt": found.created_at,
    }
