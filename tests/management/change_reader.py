"""Reading the change feed the way a page does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.management.client import Api
from tests.management.events import Events, events


class Change:
    def __init__(self, event_id: str | None, name: str | None, data: Any) -> None:
        self.id = event_id or ""
        self.name = name
        self.data = data


class Reader:
    """One open stream. `seen`: every event so far."""

    def __init__(self, stream: Events) -> None:
        self._stream = stream
        self.seen: list[Change] = []

    async def next(self) -> Change | None:
        """None when the server has ended the stream."""
        found = await self._stream.next()
        if found is None:
            return None
        self.seen.append(Change(*found))
        return self.seen[-1]

    async def until(self, wanted: Callable[[Change], bool]) -> Change:
        while (event := await self.next()) is not None:
            if wanted(event):
                return event
        raise AssertionError("the stream ended")


@asynccontextmanager
async def reading(url: str, token: str | None = None, **query: Any) -> AsyncGenerator[Reader]:
    async with events(Api(url, token), "changes", **query) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        yield Reader(stream)
