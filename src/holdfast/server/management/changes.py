"""`/v1/changes`: what changes in the store, as server-sent events, for pages that stay up to date.

`hello` comes first. `changes` names what has changed (node/changes.py says how it is collected). `reload`:
read again what you show; something may have changed that was not told. Whoever comes back names the id of the
last event he has seen, and goes on behind it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.node.changes import ChangeFeed
from holdfast.protocol.records import Millis
from holdfast.server.events import frame
from holdfast.server.management.call import Call, Json
from holdfast.server.management.events import Feed

HELLO: Final = "hello"
CHANGES: Final = "changes"
RELOAD: Final = "reload"


async def get(call: Call) -> Json:
    """Where to go on from: while somebody reads, what comes after it will be told to whoever names it."""
    feed = call.node.observed.feed
    return {"now": call.now(), "after": feed.name_of(feed.number)}


async def follow(call: Call) -> Feed:
    after = call.text("after") or call.header(b"last-event-id")
    return _tell(call.node.observed.feed, call.grant.prefix, after, call.now)


async def _tell(feed: ChangeFeed, prefix: str, after: str | None, now: Callable[[], Millis]) -> Feed:
    def event(name: str, number: int) -> bytes:
        return frame(msgspec.json.encode({"now": now()}), feed.name_of(number), name)

    feed.open()
    try:
        seen = feed.number if after is None else feed.number_of(after)
        yield event(HELLO if seen is not None else RELOAD, feed.number if seen is None else seen)
        seen = feed.number if seen is None else seen
        while True:
            frames = feed.after(seen)
            if frames is None:
                seen = feed.number
                yield event(RELOAD, seen)
                continue
            told = [
                frame(text, feed.name_of(each.number), CHANGES)
                for each in frames
                if (text := each.text(prefix)) is not None
            ]
            if frames:
                seen = frames[-1].number
            if told:
                yield b"".join(told)
            else:
                await feed.arrival()
    finally:
        feed.close()
