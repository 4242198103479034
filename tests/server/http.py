"""A small HTTP client for tests: raw sockets, nothing hidden, time limits everywhere."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

patience_s = 60.0
FAR = 4_102_444_800_000


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


def envelope(kind: str, data: Any, version: str = "2026-04-01", corr_id: str = "c1", **head: Any) -> Any:
    return {"kind": kind, "head": {"corrId": corr_id, "version": version, **head}, "data": data}


def create(promise_id: str, target: str | None = None, **more: Any) -> Any:
    tags = {"resonate:target": target} if target else {}
    return {"id": promise_id, "timeoutAt": FAR, "tags": tags | more.pop("tags", {}), **more}


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self.reader = reader
        self.writer = writer
        self.host = host

    @classmethod
    async def open(cls, url: str, limit: int = 2**20, ssl: Any = None) -> "Connection":
        parts = urlsplit(url)
        assert parts.hostname
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=limit, ssl=ssl)
        return cls(reader, writer, f"{parts.hostname}:{parts.port}")

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        lines = [f"{method} {path} HTTP/1.1"]
        given = {"host": self.host, "content-length": str(len(body))} | (headers or {})
        lines += [f"{name}: {value}" for name, value in given.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return await self.answer()

    async def post(self, value: Any) -> Answer:
        return await self.request("POST", "/", json.dumps(value).encode())

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(patience_s):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers

    async def answer(self) -> Answer:
        status, headers = await self.head()
        async with asyncio.timeout(patience_s):
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, body)

    async def rest(self) -> bytes:
        """What comes until the other side hangs up."""
        async with asyncio.timeout(patience_s):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[Connection]:
    connection = await Connection.open(url, **options)
    try:
        yield connection
    finally:
        connection.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that announces itself to nobody."""
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def get(url: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    async with connected(url) as connection:
        return await connection.request("GET", path, headers=headers)


async def post(url: str, value: Any, headers: dict[str, str] | None = None) -> Answer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    async with connected(url) as connection:
        return await connection.request("POST", "/", body, headers)


async def call(url: str, kind: str, data: Any, version: str = "2026-04-01", **head: Any) -> Any:
    """The data of a reply that must succeed."""
    answer = await post(url, envelope(kind, data, version, **head))
    assert answer.status in (200, 300), answer.body
    return answer.json["data"]


class Stream(Connection):
    """A worker's event stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        super().__init__(reader, writer, host)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pending: list[Any] = []
        self.comments = 0
        self.buffer = b""

    async def start(self, group: str, member: str, token: str | None = None) -> None:
        auth = f"authorization: Bearer {token}\r\n" if token else ""
        path = f"/poll/{quote(group, safe='')}/{quote(member, safe='')}"
        await self.send(f"GET {path} HTTP/1.1\r\nhost: {self.host}\r\n{auth}\r\n".encode())
        self.status, self.headers = await self.head()

    async def _chunk(self) -> bytes:
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def message(self) -> Any:
        """The next message; None when the server ended the stream."""
        async with asyncio.timeout(patience_s):
            while not self.pending:
                chunk = await self._chunk()
                if not chunk:
                    return None
                self.buffer += chunk
                *events, self.buffer = self.buffer.split(b"\n\n")
                for event in events:
                    if event.startswith(b"data: "):
                        self.pending.append(json.loads(event[6:]))
                    else:
                        assert event.startswith(b":")
                        self.comments += 1
        return self.pending.pop(0)

    async def task(self) -> tuple[str, int]:
        message = await self.message()
        assert message is not None
        return message["data"]["task"]["id"], message["data"]["task"]["version"]


@asynccontextmanager
async def streaming(
    url: str, group: str, member: str, token: str | None = None, limit: int = 2**20
) -> AsyncGenerator[Stream]:
    stream = await Stream.open(url, limit)
    assert isinstance(stream, Stream)
    try:
        await stream.start(group, member, token)
        yield stream
    finally:
        stream.close()
