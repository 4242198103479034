"""Records as the management API shows them: payloads decoded where they are plain JSON."""

import base64
from typing import Any, Final

import msgspec

from holdfast.protocol import tags
from holdfast.protocol.plain_json import NotPlain, decode_plain, encode_plain
from holdfast.protocol.records import Promise, Value
from holdfast.server.errors import BadManagementRequest
from holdfast.server.management.call import Json
from holdfast.server.turns import small_bytes

RESERVED: Final = ("resonate:", "holdfast:")


def show_value(payload: Json) -> Any:
    """The JSON that a payload holds; `{"encoded": ...}` where it holds something else, such as a secret."""
    try:
        return decode_plain(Value(None, payload.get("data")))
    except NotPlain:
        return {"encoded": payload.get("data")}


def show_whole(payload: Json) -> Any:
    """The same, for whoever does not look inside: a large one is checked, and neither decoded nor encoded."""
    data: str = payload.get("data") or ""
    if len(data) <= small_bytes:
        return show_value(payload)
    try:
        text = base64.b64decode(data, validate=True)
        text.decode()
        if b"\n" not in text and b"\r" not in text:  # an event of a stream is one line
            return msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        pass
    return show_value(payload)


def headers_of(payload: Json) -> dict[str, str]:
    return payload.get("headers") or {}


def read_value(value: Any) -> Value:
    try:
        return encode_plain(value)
    except ValueError as error:
        raise BadManagementRequest(f"The value cannot be stored: {error}") from None


def show_promise(promise: Json) -> Json:
    shown = {name: promise[name] for name in ("id", "state", "tags", "createdAt", "timeoutAt")}
    if "settledAt" in promise:
        shown["settledAt"] = promise["settledAt"]
    return shown | {"param": show_whole(promise["param"]), "value": show_whole(promise["value"])}


def show_call(param: Json) -> Json:
    """What an execution was called with, where that can be read."""
    found = show_value(param)
    if not isinstance(found, dict) or "func" not in found:
        return {"input": found}
    call: Json = found  # pyright: ignore[reportUnknownVariableType]
    return {
        "workflow": call["func"],
        "version": call.get("version"),
        "args": call.get("args", []),
        "kwargs": call.get("kwargs", {}),
    }


def with_progress(execution: Json) -> Json:
    """What its steps told of their progress, each with its fields as JSON."""
    if "progress" not in execution:
        return execution
    shown: list[Json] = []
    for told in execution["progress"]:
        fields = {"fields": msgspec.json.decode(told["data"])} if "data" in told else {}
        shown.append({name: each for name, each in told.items() if name != "data"} | fields)
    return execution | {"progress": shown}


def read_promise(promise: Json) -> Promise:
    return msgspec.convert(promise, Promise)


def what_it_is(promise: Json) -> str:
    """In words, for refusals."""
    if tags.JOB in promise["tags"]:
        return "a background task"
    return "an execution" if tags.TARGET in promise["tags"] else "a promise"
