"""Attacks with a token through `/v1`, where the server itself decodes payloads and reads page after page.

The payloads are lawful and costly to decode: each is one large array of small arrays.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from bench.attackers.size import creation, far_ms, in_arrays
from bench.attackers.victim import Attack, Victim, encode, envelope, stop_reading, token

nested: Final = b64encode(b"[" + b"[]," * 240_000 + b"[]]").decode()  # 720 kB of JSON
LOST: Final = (OSError, asyncio.IncompleteReadError)


async def ask(server: Victim, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    async with server.connect() as (reader, writer):
        writer.write(_head(method, path, len(body)) + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), await reader.readexactly(length)


def _head(method: str, path: str, length: int = 0, *more: str) -> bytes:
    lines = [
        f"{method} /v1/{path} HTTP/1.1",
        "host: localhost",
        f"authorization: Bearer {token}",
        f"content-length: {length}",
        *more,
        "",
        "",
    ]
    return "\r\n".join(lines).encode()


async def _all(work: Sequence[Awaitable[object]]) -> None:
    """A server may refuse, or drop who does not read fast enough what was asked for."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, LOST):
            raise each


async def _execution(server: Victim, count: int = 160) -> None:
    """One with so many large records."""
    root = {"target": "poll://any@far", "origin": "x", "branch": "x", "parent": "x"}
    await in_arrays(server, [creation("x", root, data="")])
    own = {"origin": "x", "branch": "x:", "parent": "x", "scope": "local"}
    await in_arrays(server, [creation(f"x:{number}", own, data=nested) for number in range(count)])


async def timelines_of_large_records(server: Victim) -> None:
    await _execution(server)
    await _all([ask(server, "GET", "executions/x/timeline?limit=5000") for _ in range(8)])


async def steps_with_large_records_of_attempts(server: Victim) -> None:
    """The failures of each attempt are read to be shown, and these hold far more than failures do."""
    await _execution(server, 1)
    own = {"origin": "x", "branch": "x:", "parent": "x", "scope": "local"}
    steps = [creation(f"x:{number}", own, data="") for number in range(2, 30)]
    await in_arrays(server, steps, 30)
    tried = [creation(f"x:{number}~again.1", own, data=nested) for number in range(2, 30)]
    await in_arrays(server, tried)
    await _all([ask(server, "GET", "executions/x/steps?limit=1000") for _ in range(8)])


async def pages_of_large_promises(server: Victim) -> None:
    await _execution(server)
    await _all([ask(server, "GET", "promises?limit=1000") for _ in range(24)])


async def reports_of_workers(server: Victim) -> None:
    """Each with as many names of slots as its body holds; and declarations, of which each has another key."""
    slots = {f"slot-{number}": {"size": 1, "used": 0} for number in range(60_000)}
    large = encode({"group": "g", "startedAt": 1, "slots": slots})
    for number in range(40):
        await ask(server, "POST", f"workers/large-{number}", large)
    about = {"kind": "workflow", "name": "w", "about": "x" * 200_000}
    for number in range(200):
        told = {"group": "g", "startedAt": 1, "declared": f"d{number}", "declarations": [about]}
        await ask(server, "POST", f"workers/w-{number}", encode(told))
    await _all(
        [ask(server, "GET", path) for path in ("declarations", "workers", "overview") for _ in range(4)]
    )


async def bodies_that_are_costly_to_decode(server: Victim) -> None:
    body = b'{"workflow":"w","check":false,"args":[' + b"[]," * 1_390_000 + b"[]]}"  # 4 MB
    await _all([ask(server, "POST", "executions", body) for _ in range(24)])
    await _all([ask(server, "POST", "executions/none/messages", body[38:-1]) for _ in range(24)])


async def ids_that_are_no_texts(server: Victim) -> None:
    body = b'{"workflow":"w","id":[' + b"[]," * 1_390_000 + b"[]]}"
    await _all([ask(server, "POST", "executions", body) for _ in range(24)])


async def readers_of_a_stream_that_do_not_read(server: Victim) -> None:
    await _execution(server, 1)
    fence = {"id": "x", "version": 1}
    await in_arrays(server, [envelope("task.acquire", {"id": "x", "version": 0, "pid": "p", "ttl": 600_000})])
    appends = [
        envelope(
            "task.fence",
            fence
            | {
                "action": {
                    "kind": "stream.append",
                    "head": {},
                    "data": {"id": "x", "stream": "out.log", "value": {"data": nested}},
                }
            },
        )
        for _ in range(40)
    ]
    await in_arrays(server, appends)
    async with _standing(server, "executions/x/streams/log", 300):
        await asyncio.sleep(15)


async def readers_of_changes_that_do_not_read(server: Victim) -> None:
    async with _standing(server, "changes", 300):
        for part in range(60):
            names = [f"{part}-{number}-{'n' * 900}" for number in range(400)]
            creates = [envelope("promise.create", {"id": name, "timeoutAt": far_ms}) for name in names]
            await in_arrays(server, creates, 400)
            await asyncio.sleep(0.3)


@asynccontextmanager
async def _standing(server: Victim, path: str, count: int) -> AsyncGenerator[None]:
    """So many open event streams of which nobody reads anything."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            with suppress(OSError):
                _, writer = await asyncio.open_connection(server.host, server.port)
                stop_reading(writer)
                writer.write(_head("GET", path, 0, "accept: text/event-stream"))
                writers.append(writer)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


SIZES: list[Attack] = [
    timelines_of_large_records,
    steps_with_large_records_of_attempts,
    pages_of_large_promises,
    reports_of_workers,
    bodies_that_are_costly_to_decode,
    readers_of_a_stream_that_do_not_read,
    readers_of_changes_that_do_not_read,
]
STALLS: list[Attack] = [
    pages_of_large_promises,
    timelines_of_large_records,
    bodies_that_are_costly_to_decode,
    ids_that_are_no_texts,
    reports_of_workers,
]
