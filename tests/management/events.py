"""Reading server-sent events as a browser does: fields, comments, and the id that it had last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from tests.management.client import Api
from tests.server.http import Connection, patience_s

Event = tuple[str | None, str | None, Any]


class Events:
    def __init__(self, connection: Connection, status: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self.comments = 0
        self._text = b""
        self._ended = False

    async def next(self) -> Event | None:
        """Id, name and data of the next event; None at the end of the stream."""
        while True:
            while b"\n\n" not in self._text:
                if not await self._more():
                    return None
            block, _, self._text = self._text.partition(b"\n\n")
            fields: dict[str, str] = {}
            for line in block.decode().split("\n"):
                name, _, value = line.partition(":")
                self.comments += not name
                fields[name] = value.removeprefix(" ")
            if "data" in fields:
                return fields.get("id"), fields.get("event"), json.loads(fields["data"])

    async def _more(self) -> bool:
        """One more chunk of the answer."""
        if self._ended:
            return False
        async with asyncio.timeout(patience_s):
            size = int(await self.connection.reader.readuntil(b"\r\n"), 16)
            data = await self.connection.reader.readexactly(size + 2)
        self._text += data[:-2]
        self._ended = not size
        return bool(size)


@asynccontextmanager
async def events(
    api: Api, path: str, headers: dict[str, str] | None = None, **query: Any
) -> AsyncGenerator[Events]:
    connection = await Connection.open(api.url)
    try:
        given = {"host": connection.host, "accept": "text/event-stream"} | (headers or {})
        if api.token:
            given["authorization"] = f"Bearer {api.token}"
        target = f"/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        await connection.send("\r\n".join(lines).encode())
        yield Events(connection, *await connection.head())
    finally:
        connection.close()
