"""Attacks on the memory of the HTTP server: most of them need no token."""

import asyncio
from contextlib import suppress

from bench.attackers.victim import Attack, Victim, encode, envelope, exchange, post_head, stop_reading, token

megabyte = 1_048_576
lost = (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError)


async def pipelines(victim: Victim) -> None:
    """Requests without waiting for an answer."""
    request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"

    async def one() -> None:
        with suppress(*lost):
            async with victim.connect() as (_, writer), asyncio.timeout(5):
                for _ in range(34):
                    writer.write(request * (megabyte // len(request)))
                    await writer.drain()

    await asyncio.gather(*(one() for _ in range(3)))


async def trailers(victim: Victim) -> None:
    """Headers after a chunked body."""

    async def one() -> None:
        with suppress(*lost):
            async with victim.connect() as (_, writer), asyncio.timeout(5):
                writer.write(post_head(None, authorized=False) + b"1\r\nx\r\n0\r\n")
                for _ in range(44):
                    writer.write(b"x: y\r\n" * (megabyte // 6))
                    await writer.drain()

    await asyncio.gather(*(one() for _ in range(3)))


async def polite_refusals(victim: Victim) -> None:
    """Whole requests of nearly 4 MB, each of which is refused."""
    bodies = [
        encode(envelope("k" * 4_000_000, {})),
        encode(envelope("promise.get", {"id": "x"}, corr_id="c" * 4_000_000)),
        encode(envelope("promise.create", {"id": "x", "timeoutAt": "y", "param": {"data": "z" * 4_000_000}})),
        encode({"kind": "k" * 2_000_000, "head": 1, "data": "d" * 2_000_000}),
        encode([envelope("promise.settle", {"id": "x", "state": "s" * 4_000_000})]),
    ]

    async def one(authorized: bool) -> None:
        with suppress(*lost):
            async with victim.connect() as (reader, writer), asyncio.timeout(20):
                for body in bodies * 4:
                    await exchange(reader, writer, body, authorized=authorized)

    await asyncio.gather(*(one(number % 2 == 0) for number in range(8)))


async def bodies_that_do_not_end(victim: Victim) -> None:
    """Three hundred bodies of nearly 4 MB, whose last byte never comes."""

    async def one() -> None:
        with suppress(*lost):
            async with victim.connect() as (reader, writer), asyncio.timeout(8):
                writer.write(post_head(4 * megabyte, authorized=False))
                for _ in range(15):
                    writer.write(b" " * (megabyte // 4))
                    await writer.drain()
                await reader.read()

    await asyncio.gather(*(one() for _ in range(300)))


async def slow_readers(victim: Victim) -> None:
    """Large answers that nobody reads."""
    for number in range(12):
        data = {"id": f"large-{number}", "timeoutAt": 4_102_444_800_000, "param": {"data": "x" * 1_000_000}}
        await victim.post(encode(envelope("promise.create", data)))
    search = encode([envelope("promise.search", {"prefix": "large"})])

    async def one() -> None:
        with suppress(*lost):
            async with victim.connect() as (_, writer), asyncio.timeout(12):
                stop_reading(writer)
                writer.write(post_head(len(search)) + search)
                await writer.drain()
                await asyncio.sleep(8)

    await asyncio.gather(*(one() for _ in range(60)))


async def slow_streams(victim: Victim) -> None:
    """Event streams that are sent large messages and are not read."""
    async with asyncio.timeout(40):

        async def stream(number: int) -> None:
            with suppress(*lost):
                async with victim.connect() as (_, writer):
                    stop_reading(writer)
                    writer.write(
                        f"GET /poll/g/{number} HTTP/1.1\r\nhost: localhost\r\n"
                        f"authorization: Bearer {token}\r\n\r\n".encode()
                    )
                    await writer.drain()
                    await asyncio.sleep(30)

        ends = [asyncio.create_task(stream(number)) for number in range(20)]
        for number in range(300):
            name = f"told-{number}"
            create = {"id": name, "timeoutAt": 4_102_444_800_000}
            listeners = [
                envelope("promise.register_listener", {"awaited": name, "address": f"poll://uni@g/{member}"})
                for member in range(20)
            ]
            value = {"data": "x" * 1_000_000}
            settle = envelope("promise.settle", {"id": name, "state": "resolved", "value": value})
            await victim.post(encode([envelope("promise.create", create), *listeners, settle]))
        for end in ends:
            end.cancel()


ATTACKS: list[Attack] = [
    pipelines,
    trailers,
    polite_refusals,
    bodies_that_do_not_end,
    slow_readers,
    slow_streams,
]
