"""`/v1/schedules`: listed, looked at, deleted."""

from holdfast.protocol.requests import ScheduleDelete, ScheduleGet, ScheduleSearch
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import show_call


async def find(call: Call) -> Json:
    search = ScheduleSearch(
        tags=call.tags(), prefix=call.text("prefix"), limit=call.integer("limit"), cursor=call.text("cursor")
    )
    page = await call.ask(search)
    return {"schedules": [_show(each) for each in page["schedules"]], "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    return _show(await call.ask_for("schedule", ScheduleGet(call.id)))


async def delete(call: Call) -> Json:
    """What it has started goes on."""
    schedule = await get(call)
    await call.ask(ScheduleDelete(call.id))
    return schedule


def _show(schedule: Json) -> Json:
    names = ("id", "cron", "timezone", "overlap", "catchUp", "createdAt", "nextRunAt", "lastRunAt")
    shown = {name: schedule[name] for name in names if name in schedule}
    return shown | {"call": show_call(schedule["promiseParam"]), "tags": schedule["promiseTags"]}
