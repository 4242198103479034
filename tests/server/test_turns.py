"""Large requests are decoded one at a time, and only so much of them is in memory."""

from __future__ import annotations

import asyncio

from holdfast.server.turns import DecodingRoom, small_bytes


async def test_what_does_not_fit_waits_until_there_is_room_in_the_order_it_came() -> None:
    room = DecodingRoom(100_000)
    first = await room.take(60_000)
    second, third = (asyncio.ensure_future(room.take(50_000)) for _ in range(2))
    small = await room.take(small_bytes)
    small()
    await asyncio.sleep(0)
    assert (second.done(), third.done(), room.taken_bytes) == (False, False, 60_000)
    first()
    first()
    assert room.taken_bytes == 100_000
    (await second)()
    (await third)()
    assert room.taken_bytes == 0


async def test_what_is_larger_than_the_room_has_it_to_itself() -> None:
    room = DecodingRoom(100_000)
    large = await room.take(500_000)
    waiting = asyncio.ensure_future(room.take(20_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    large()
    (await waiting)()
    assert room.taken_bytes == 0


async def test_whoever_stops_waiting_takes_no_room() -> None:
    room = DecodingRoom(100_000)
    large = await room.take(100_000)
    gone, other = (asyncio.ensure_future(room.take(50_000)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    large()
    (await other)()
    late = asyncio.ensure_future(room.take(50_000))
    taken = await room.take(100_000 - 50_000)
    (await late)()
    taken()
    assert room.taken_bytes == 0


async def test_whoever_leaves_when_it_was_just_given_room_gives_it_back() -> None:
    room = DecodingRoom(100_000)
    large = await room.take(100_000)
    waiting = asyncio.ensure_future(room.take(50_000))
    await asyncio.sleep(0)
    large()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert room.taken_bytes == 0
