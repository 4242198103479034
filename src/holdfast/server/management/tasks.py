"""`/v1/tasks`: background tasks are found, looked at, sent, put off, cancelled, run again."""

from typing import Any, Final, cast

import msgspec

from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import JobSpec, RetryRule, check_queue, queue_group
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.requests import (
    ExecutionGet,
    PromiseCreate,
    PromiseGet,
    TaskCancel,
    TaskGet,
    TaskReschedule,
)
from holdfast.protocol.reruns import rerun_of
from holdfast.server.errors import BadManagementRequest, CannotRunAgain, IdInUse, NoBackgroundTask
from holdfast.server.management.arguments import check_arguments
from holdfast.server.management.beginning import begins_at, check_choice, span
from holdfast.server.management.call import Call, Json
from holdfast.server.management.errors_shown import with_errors
from holdfast.server.management.executions import search_of
from holdfast.server.management.obstacles import with_obstacle
from holdfast.server.management.shapes import (
    RESERVED,
    read_promise,
    show_call,
    show_value,
    show_whole,
    with_progress,
)
from holdfast.server.management.workers import declaration_of

ON_CONFLICT: Final = ("existing", "replace", "reject")


async def find(call: Call) -> Json:
    page = await call.ask(search_of(call, "task"))
    return {"tasks": await with_errors(call, page["executions"]), "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    task, view, promise = await call.ask_all([TaskGet(call.id), ExecutionGet(call.id), PromiseGet(call.id)])
    if "job" not in task["task"]:
        raise NoBackgroundTask(f"{call.id!r} is an execution of a workflow")
    shown: Json = with_progress(view["execution"]) | {
        "job": _with_errors_read(task["task"]["job"]),
        "call": show_call(promise["promise"]["param"]),
    }
    if "settledAt" in shown:
        shown["result" if shown["status"] == "completed" else "failure"] = show_whole(
            promise["promise"]["value"]
        )
    return await with_obstacle(call, shown)


def _with_errors_read(job: Json) -> Json:
    """What its attempts failed with, as text: they are stored as payloads."""
    if not job.get("attempts"):
        return job
    return job | {"attempts": [_with_error_read(each) for each in job["attempts"]]}


def _with_error_read(attempt: Json) -> Json:
    if "error" not in attempt:
        return attempt
    found: Any = show_value({"data": attempt["error"]})
    told = cast("Json", found) if isinstance(found, dict) else {"message": str(found)}
    if "encoded" in told:
        return attempt | {"error": told}
    return attempt | {"error": told.get("message") or "", "traceback": told.get("traceback") or ""}


async def send(call: Call) -> Json:
    """A background task, with plain JSON arguments. Without `retry` it is tried once. The same call under the
    same id is the same task."""
    name = call.field("task", str)
    if not name:
        raise BadManagementRequest("task must be the name of a background task")
    given = call.text_fields("tags") or {}
    if any(each.startswith(RESERVED) for each in given):
        raise BadManagementRequest(f"Tags that begin with {' or '.join(RESERVED)} are the protocol's own")
    args, kwargs, now = call.field("args", list, []), call.field("kwargs", dict, {}), call.now()
    if call.field("check", bool, True):
        await check_arguments(call, "task", name, 0, args, kwargs)
    queue = call.field("queue", str) or await declared_queue(call, name)
    check_queue(queue)
    retry = call.field("retry", dict)
    rule = None if retry is None else msgspec.convert(retry, RetryRule)
    on_conflict = check_choice(call, "onConflict", ON_CONFLICT)
    if on_conflict is not None and call.field("key", str) is None:
        raise BadManagementRequest("onConflict needs a key: give key")
    spec = JobSpec(
        sent_at=now,
        good_until=call.field("goodUntil", int),
        retry=rule,
        key=call.field("limitKey", str),
        unique=call.field("key", str),
        on_unique=on_conflict or "existing",  # type: ignore[arg-type]  # one of the choices
    )
    entries: dict[str, str] = {
        **given,
        tags.SCOPE: "global",
        tags.TARGET: f"poll://any@{queue_group(queue)}",
        tags.JOB: msgspec.json.encode(spec).decode(),
        tags.TASK: name,
    }
    if priority := call.field("priority", int, 0):
        entries[tags.PRIORITY] = str(priority)
    entries |= begins_at(call, now)
    spans = {tags.TIME_LIMIT: span(call, "timeLimit"), tags.KEEP: span(call, "keep")}
    entries |= {tag: str(span_ms) for tag, span_ms in spans.items() if span_ms is not None}
    timeout_ms = span(call, "timeout")
    timeout_at = limits.instant_ms_max if timeout_ms is None else now + timeout_ms
    task_id = call.field("id", str) or call.fresh_id(
        name if call.grant.covers(f"{name}-") else call.grant.prefix
    )
    param = plain_call(name, args, kwargs, 1)
    promise = await call.ask_for("promise", PromiseCreate(task_id, timeout_at, param, entries))
    has_key = promise["id"] != task_id  # another one, which was sent before under the same key
    is_same = show_call(promise["param"]) == show_call({"data": param.data}) and tags.JOB in promise["tags"]
    if not has_key and not is_same:
        raise IdInUse(f"Something else has the id {task_id!r} already")
    return await call.ask_for("execution", ExecutionGet(promise["id"]))


async def declared_queue(call: Call, name: str) -> str:
    declared = await declaration_of(call, "task", name)
    if declared is None and await declaration_of(call, "task", name, is_believed=False) is not None:
        raise BadManagementRequest(
            f"queue must be given: workers whose tokens cover less than yours have declared {name[:80]!r}"
        )
    queue: str | None = None if declared is None else declared.get("queue")
    return queue or "default"


async def promote(call: Call) -> Json:
    """Let it begin now, whatever its delay or its next try."""
    await call.ask(TaskReschedule(call.id))
    return await get(call)


async def reschedule(call: Call) -> Json:
    """Let it begin at another instant, sooner or later."""
    at = call.field("at", int)
    if at is None:
        raise BadManagementRequest("at must be an instant, in milliseconds since 1970")
    await call.ask(TaskReschedule(call.id, at))
    return await get(call)


async def cancel(call: Call) -> Json:
    """One that runs is stopped only with `force`."""
    await call.ask(TaskCancel(call.id, call.field("force", bool, False)))
    return await get(call)


async def rerun(call: Call) -> Json:
    """The same again, under a new id, when it failed, was cancelled or has expired."""
    _, view, promise = await call.ask_all([TaskGet(call.id), ExecutionGet(call.id), PromiseGet(call.id)])
    if view["execution"]["kind"] != "task":
        raise NoBackgroundTask(f"{call.id!r} is an execution of a workflow")
    if view["execution"]["status"] not in ("failed", "cancelled", "expired"):
        raise CannotRunAgain(f"{call.id!r} is {view['execution']['status']}")
    name = view["execution"].get("name", "task")
    task_id = call.fresh_id(name if call.grant.covers(f"{name}-") else call.id)
    creation = rerun_of(read_promise(promise["promise"]), call.now(), task_id)
    await call.ask(creation)
    return await call.ask_for("execution", ExecutionGet(creation.id))
