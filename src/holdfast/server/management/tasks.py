"""`/v1/tasks`: background tasks are found, looked at, cancelled, run again."""

from holdfast.protocol.requests import ExecutionGet, PromiseGet, TaskCancel, TaskGet
from holdfast.protocol.reruns import rerun_of
from holdfast.server.errors import CannotRunAgain, NoBackgroundTask
from holdfast.server.management.call import Call, Json
from holdfast.server.management.executions import search_of
from holdfast.server.management.shapes import read_promise, show_call, show_value


async def find(call: Call) -> Json:
    page = await call.ask(search_of(call, "task"))
    return {"tasks": page["executions"], "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    view, task, promise = await call.ask_all([ExecutionGet(call.id), TaskGet(call.id), PromiseGet(call.id)])
    if "job" not in task["task"]:
        raise NoBackgroundTask(f"{call.id!r} is an execution of a workflow")
    shown: Json = view["execution"] | {
        "job": task["task"]["job"],
        "call": show_call(promise["promise"]["param"]),
    }
    if "settledAt" in shown:
        shown["result" if shown["status"] == "completed" else "failure"] = show_value(
            promise["promise"]["value"]
        )
    return shown


async def cancel(call: Call) -> Json:
    """One that runs is stopped only with `force`."""
    await call.ask(TaskCancel(call.id, call.field("force", bool, False)))
    return await get(call)


async def rerun(call: Call) -> Json:
    """The same again, under a new id, when it failed, was cancelled or has expired."""
    view, promise = await call.ask_all([ExecutionGet(call.id), PromiseGet(call.id)])
    if view["execution"]["kind"] != "task":
        raise NoBackgroundTask(f"{call.id!r} is an execution of a workflow")
    if view["execution"]["status"] not in ("failed", "cancelled", "expired"):
        raise CannotRunAgain(f"{call.id!r} is {view['execution']['status']}")
    name = view["execution"].get("name", "task")
    task_id = call.fresh_id(name if call.grant.covers(f"{name}-") else call.id)
    creation = rerun_of(read_promise(promise["promise"]), call.now(), task_id)
    await call.ask(creation)
    return await call.ask_for("execution", ExecutionGet(creation.id))
