"""`/v1/executions/{id}/streams, /published`: what an execution emits and publishes, as pages and as events.

1. Elements of a stream are events whose id is their number. Whoever was cut off says which he had last
   (`Last-Event-ID`, or `after`): nothing is missed and nothing comes twice.
2. A stream of events ends with the event `end` when the execution is over and everything was sent. A
   browser that connects again after that is answered 204, so that it stops.
3. Every page is read with the caller's own token, also while a stream is open.
"""

import asyncio
from typing import Final

import msgspec

from holdfast.protocol import limits
from holdfast.protocol.errors import ExecutionOver, InvalidField
from holdfast.protocol.requests import StreamList, StreamNext, StreamRead
from holdfast.protocol.streams import ATTEMPT_HEADER, STEP_HEADER, number_of
from holdfast.server.asgi import retryable_statuses
from holdfast.server.errors import BadManagementRequest, NothingPublished
from holdfast.server.events import frame
from holdfast.server.management.call import Call, Json, RefusedReply
from holdfast.server.management.events import END, Feed
from holdfast.server.management.shapes import headers_of, show_whole

refused_rest_s: Final = 1.0


async def find(call: Call) -> Json:
    found = await call.ask(StreamList(call.id))
    return {
        "streams": {name[4:]: count for name, count in found["streams"].items() if name.startswith("out.")},
        "over": found["over"],
    }


async def read(call: Call) -> Json:
    """A page of what was emitted, from a number on."""
    page = await call.ask(
        StreamRead(call.id, _name(call, "out"), call.integer("after"), call.integer("limit"))
    )
    return {
        "elements": await call.show_all(page["promises"], _element),
        "count": page["count"],
        "over": page["over"],
    }


async def follow(call: Call) -> Feed | None:
    name, after = _name(call, "out"), _after(call)
    return await _follow(call, name, StreamRead(call.id, name, after or 0), is_resumed=after is not None)


async def published(call: Call) -> Json:
    """The last value under each name."""
    found = await call.ask(StreamList(call.id))
    names = [name for name, count in found["streams"].items() if name.startswith("value.") and count]
    pages = await call.ask_all([StreamRead(call.id, name, last=True) for name in names]) if names else []
    last = [page["promises"][-1] for page in pages if page["promises"]]
    return {"published": [_value(promise) for promise in last], "over": found["over"]}


async def published_value(call: Call) -> Json:
    page = await call.ask(StreamRead(call.id, _name(call, "value"), last=True))
    if not page["promises"]:
        raise NothingPublished(f"{call.id} has published nothing under {call.path[1][:100]!r}")
    return _value(page["promises"][-1]) | {"over": page["over"]}


async def follow_published(call: Call) -> Feed | None:
    """The last value and every later one; whoever was cut off gets all that came since."""
    name, after = _name(call, "value"), _after(call)
    first = StreamRead(call.id, name, last=True) if after is None else StreamRead(call.id, name, after)
    return await _follow(call, name, first, is_resumed=after is not None)


async def _follow(call: Call, name: str, first: StreamRead, *, is_resumed: bool) -> Feed | None:
    page = await call.ask(first)
    if is_resumed and page["over"] and not page["promises"]:
        return None
    return _events(call, name, page)


async def _events(call: Call, name: str, page: Json) -> Feed:
    number: int = page["number"]
    while True:
        coming: list[Json] = page.pop("promises")  # whoever does not read shall keep none of it here
        elements = [each for each in coming if each["state"] != "pending"]
        awaited = coming[0]["id"] if coming else None
        del coming
        if elements:
            number = number_of(elements[-1]["id"]) + 1
            text = b"".join(_event(each) for each in elements)
            del elements
            yield text
            del text
        elif awaited is not None:
            await call.services.settled(awaited)
        if page["over"] and number > page["count"]:
            yield frame(msgspec.json.encode({"count": page["count"]}), name=END)
            return
        page = await _next(call, name, number)


async def _next(call: Call, name: str, number: int) -> Json:
    """Elements from a number on, or the promise of the next one. A node that is busy is asked again."""
    while True:
        try:
            return await call.ask(StreamNext(call.id, name, number))
        except RefusedReply as refused:
            if refused.code == ExecutionOver.code:
                return {"promises": [], "number": number, "count": number - 1, "over": True}
            if refused.code == InvalidField.code and number > 1:
                return await _once_longer(call, name, number)
            if refused.status not in retryable_statuses:
                raise
        await asyncio.sleep(refused_rest_s)


async def _once_longer(call: Call, name: str, number: int) -> Json:
    """The stream is shorter than what the reader says it has: wait for its next elements, or for the end."""
    while True:
        last = await call.ask(StreamRead(call.id, name, last=True))
        if last["over"]:
            return await call.ask(StreamRead(call.id, name, number - 1))
        if last["count"] + 1 >= number:
            return await _next(call, name, number)
        coming = (await _next(call, name, last["count"] + 1))["promises"]
        if coming and coming[0]["state"] == "pending":
            await call.services.settled(coming[0]["id"])


def _event(promise: Json) -> bytes:
    element = _element(promise)
    return frame(msgspec.json.encode(element), str(element["number"]))


def _element(promise: Json) -> Json:
    headers = headers_of(promise["value"])
    shown: Json = {"number": number_of(promise["id"]), "value": show_whole(promise["value"])}
    for name, of in (("step", STEP_HEADER), ("attempt", ATTEMPT_HEADER)):
        if of in headers:
            shown[name] = headers[of]
    return shown


def _value(promise: Json) -> Json:
    name = promise["id"].rpartition(".")[0].rpartition(".")[2]
    return {"name": name, **_element(promise), "publishedAt": promise["settledAt"]}


def _name(call: Call, kind: str) -> str:
    return f"{kind}.{call.path[1]}"


def _after(call: Call) -> int | None:
    """What a reader had last. A browser that connects again says so by the header, under the same URL."""
    last = call.header(b"last-event-id")
    if not last:
        return call.integer("after")
    if not last.isdecimal() or int(last[:20]) > limits.stream_elements_max:
        raise BadManagementRequest(f"Last-Event-ID {last[:40]!r} is not the number of an element")
    return int(last)
