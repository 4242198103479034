"""`/v1/events`: events are sent by name, and found again."""

from uuid import uuid4

from holdfast.protocol.events import matchable
from holdfast.protocol.requests import EventSearch, EventSend
from holdfast.server.errors import BadManagementRequest
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import read_value, show_value


async def send(call: Call) -> Json:
    """Under the same id an event is sent once: give that of a webhook."""
    attributes: Json = call.field("attributes", dict, {})
    match = {name: text for name, value in attributes.items() if (text := matchable(value)) is not None}
    key = call.field("id", str) or uuid4().hex
    sent = EventSend(call.field("name", str, ""), key, read_value(attributes), match)
    return _show(await call.ask_for("event", sent))


async def find(call: Call) -> Json:
    name = call.text("name")
    if name is None:
        raise BadManagementRequest("name must be the name of the events")
    page = await call.ask(EventSearch(name, call.integer("before"), call.integer("limit")))
    return {"events": [_show(event) for event in page["events"]], "count": page["count"]}


def _show(event: Json) -> Json:
    shown = {name: event[name] for name in ("name", "number", "at")}
    return shown | {"id": event.get("id"), "attributes": show_value(event["value"])}
