"""`/v1/promises`: found, looked at, and settled by hand."""

from typing import Any, Literal, get_args

from holdfast.protocol import tags
from holdfast.protocol.records import PromiseState, Value
from holdfast.protocol.requests import PromiseGet, PromiseSearch, PromiseSettle
from holdfast.server.errors import BadManagementRequest, NotToBeSettled, SettledOtherwise
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import read_value, show_promise, what_it_is


async def find(call: Call) -> Json:
    state = call.text("state")
    if state is not None and state not in get_args(PromiseState):
        raise BadManagementRequest(f"state={state[:40]!r} is not one of {', '.join(get_args(PromiseState))}")
    search = PromiseSearch(
        state,  # type: ignore[arg-type]
        call.tags(),
        call.text("prefix"),
        call.integer("limit"),
        call.text("cursor"),
    )
    page = await call.ask(search)
    shown = await call.show_all(page["promises"], show_promise)
    return {"promises": shown, "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    return show_promise(await call.ask_for("promise", PromiseGet(call.id)))


async def resolve(call: Call) -> Json:
    """With plain JSON. The first outcome stands."""
    return await _settle(call, "resolved", read_value(call.body.get("value")))


async def reject(call: Call) -> Json:
    """With a message, and if you like the name of an error class that the workflow knows."""
    error: dict[str, Any] = {
        "__type": "error",
        "message": call.field("message", str, ""),
        "name": call.field("name", str, "Exception"),
    }
    if "type" in call.body:
        error["type"] = call.field("type", str)
    return await _settle(call, "rejected", read_value(error))


async def _settle(call: Call, state: Literal["resolved", "rejected"], value: Value) -> Json:
    """Its tags never change, so they can be looked at first."""
    promise = await call.ask_for("promise", PromiseGet(call.id))
    if tags.TARGET in promise["tags"]:
        raise NotToBeSettled(f"{call.id!r} is {what_it_is(promise)}, which cannot be settled from outside")
    settled = await call.ask_for("promise", PromiseSettle(call.id, state, value))
    if settled["state"] != state or settled["value"].get("data") != value.data:
        raise SettledOtherwise(f"{call.id!r} is already {settled['state']}, with another value")
    return show_promise(settled)
