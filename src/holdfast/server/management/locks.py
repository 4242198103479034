"""`/v1/locks`: who holds them, who waits, and releases by force."""

from holdfast.protocol.requests import LockGet, LockRelease, LockSearch
from holdfast.server.management.call import Call, Json


async def find(call: Call) -> Json:
    search = LockSearch(call.text("prefix"), call.integer("limit"), call.text("cursor"), not call.flag("all"))
    page = await call.ask(search)
    return {"locks": page["locks"], "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    return await call.ask_for("lock", LockGet(call.id))


async def release(call: Call) -> Json:
    request = LockRelease(call.id, call.field("id", str, ""), call.field("reason", str))
    return await call.ask_for("lock", request)
