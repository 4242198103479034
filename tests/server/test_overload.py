"""More than a server can do is refused at once; what was accepted is done; and afterwards all is as before.

What is measured here is time, so this is one of the few tests in which it passes.
"""

import asyncio
from statistics import median
from typing import Any

from holdfast.server import Settings, running
from holdfast.store.memory import MemoryStore
from tests.server.http import Answer, Connection, call, connected, create, envelope

commit_s = 0.05
in_flight = 10
capacity = in_flight / commit_s  # requests a second, at the very best
callers = 40


class SlowStore(MemoryStore):
    """A disk that takes its time over every commit."""

    async def transact(self, work: Any) -> Any:
        await asyncio.sleep(commit_s)
        return await super().transact(work)


async def ask(connection: Connection, name: str) -> tuple[Answer, float]:
    """The answer, and the seconds it took."""
    began = asyncio.get_running_loop().time()
    body = envelope("promise.create", create(name))
    return await connection.post(body), asyncio.get_running_loop().time() - began


async def ask_in_turn(url: str, stem: str) -> list[float]:
    async with connected(url) as connection:
        found = [await ask(connection, f"{stem}{number}") for number in range(5)]
    assert [answer.status for answer, _ in found] == [200] * 5
    return [seconds for _, seconds in found]


async def insist(url: str, stem: str, rate: float, seconds: float) -> list[tuple[Answer, float]]:
    """Ask at a steady rate, whatever the answers are."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    found: list[tuple[Answer, float]] = []
    async with connected(url) as connection:
        while (now := loop.time()) < began + seconds:
            found.append(await ask(connection, f"{stem}-{len(found)}"))
            await asyncio.sleep(max(0.0, now + 1 / rate - loop.time()))
    return found


async def test_four_times_what_a_server_can_do_is_refused_with_429_and_leaves_no_trace() -> None:
    settings = Settings(port=0, store="memory:", requests_max=in_flight)
    async with running(settings, SlowStore()) as server:
        before = await ask_in_turn(server.url, "before")
        rate = 4 * capacity / callers
        loads = await asyncio.gather(
            *(insist(server.url, f"load{number}", rate, seconds=2.0) for number in range(callers))
        )
        after = await ask_in_turn(server.url, "after")
        answers = [each for load in loads for each in load]
        accepted = [(answer, seconds) for answer, seconds in answers if answer.status == 200]
        refused = [(answer, seconds) for answer, seconds in answers if answer.status == 429]
        assert len(accepted) + len(refused) == len(answers)
        assert len(refused) > len(accepted)
        assert all(answer.headers["retry-after"] == "1" for answer, _ in refused)
        # It goes on working meanwhile, and nobody stands in a queue that only grows.
        assert len(accepted) > 0.25 * capacity * 2.0
        assert max(seconds for _, seconds in accepted) < 20 * commit_s
        assert median(seconds for _, seconds in refused) < 2 * commit_s
        # At once, not after a while.
        assert median(after) < 1.5 * median(before) + commit_s
        assert after[0] < 6 * commit_s
        kept: set[str] = set()
        cursor: dict[str, str] = {}
        while True:
            page = await call(server.url, "promise.search", {"prefix": "load", "limit": 1_000, **cursor})
            kept |= {promise["id"] for promise in page["promises"]}
            if "cursor" not in page:
                break
            cursor = {"cursor": page["cursor"]}
        assert kept == {answer.json["data"]["promise"]["id"] for answer, _ in accepted}
