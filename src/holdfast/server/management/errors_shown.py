"""What the failed ones on a page of a search say, in a few words: the message of each error.

A search knows the code of an error and no payloads. So the promises of those that failed are read, a few at a
time, until their payloads are as much as a page of a search may hold. What a codec has written stays unread.
"""

from typing import Any, Final, cast

from holdfast.protocol import limits
from holdfast.protocol.requests import PromiseGet
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import show_value

error_chars_max: Final = 200
read_at_once: Final = 20


async def with_errors(call: Call, found: list[Json]) -> list[Json]:
    """Each that failed with `error`, where that can be read."""
    failed = [each["id"] for each in found if each["status"] == "failed"]
    messages: dict[str, str] = {}
    read_bytes = 0
    for start in range(0, len(failed), read_at_once):
        if read_bytes >= limits.search_bytes_max:
            break
        for reply in await call.replies([PromiseGet(each) for each in failed[start : start + read_at_once]]):
            if reply.get("head", {}).get("status") != 200:  # it was deleted meanwhile, or the node is busy
                continue
            promise = reply["data"]["promise"]
            read_bytes += sum(len(promise[name].get("data") or "") for name in ("param", "value"))
            if (message := message_of(promise["value"])) is not None:
                messages[promise["id"]] = message
    return [each | ({"error": messages[each["id"]]} if each["id"] in messages else {}) for each in found]


def message_of(value: Json) -> str | None:
    """The first words of an error that was stored."""
    found: Any = show_value(value)
    message = cast("Json", found).get("message") if isinstance(found, dict) else None
    return message[:error_chars_max] if isinstance(message, str) else None
