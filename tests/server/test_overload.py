"""More than a server can do is refused at once; what was accepted is done; and afterwards all is as before.

The disk of this server answers when the test says so, so nothing here depends on the speed of the machine.
"""

import asyncio

from holdfast.server import Settings, running
from tests.server.http import Answer, call, connected, create, envelope
from tests.server.stores import GatedStore

in_flight = 10
callers = 4 * in_flight
rounds = 3


async def ask(url: str, name: str) -> Answer:
    async with connected(url) as connection:
        return await connection.post(envelope("promise.create", create(name)))


async def ask_all(url: str, store: GatedStore, stem: str) -> tuple[list[Answer], list[Answer]]:
    """All at once while the disk does not answer: who is refused meanwhile, and who is served afterwards."""
    store.gate.clear()
    asked = {asyncio.ensure_future(ask(url, f"{stem}-{number}")) for number in range(callers)}
    waiting, refused = set(asked), list[Answer]()
    async with asyncio.timeout(60):
        while len(waiting) > in_flight:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused += [each.result() for each in done]
    store.gate.set()
    return refused, await asyncio.gather(*waiting)


async def test_four_times_what_a_server_can_do_is_refused_with_429_and_leaves_no_trace() -> None:
    store, accepted = GatedStore(), list[Answer]()
    async with running(Settings(port=0, store="memory:", requests_max=in_flight), store) as server:
        for number in range(rounds):
            refused, served = await ask_all(server.url, store, f"load{number}")
            assert [answer.status for answer in refused] == [429] * (callers - in_flight)
            assert all(answer.headers["retry-after"] == "1" for answer in refused)
            assert [answer.status for answer in served] == [200] * in_flight
            accepted += served
        after = [await ask(server.url, f"after{number}") for number in range(5)]
        assert [answer.status for answer in after] == [200] * 5
        page = await call(server.url, "promise.search", {"prefix": "load", "limit": 1_000})
        kept = {promise["id"] for promise in page["promises"]}
        assert kept == {answer.json["data"]["promise"]["id"] for answer in accepted}
