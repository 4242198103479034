"""kill -9 of the server under load: what was acknowledged is there, and workers come back by themselves."""

import asyncio
import json
from itertools import count
from pathlib import Path

from tests.server.http import Connection, connected, create, envelope, post, streaming, until
from tests.server.process import ServerProcess, start_process

rounds = 3
callers = 8
gone = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError)


class Load:
    """Callers that keep creating, and note what was acknowledged; a worker that keeps coming back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.created: set[str] = set()
        self.offered: set[str] = set()
        self.acquired: set[str] = set()
        self.unknown: set[str] = set()  # the answer was lost with the server
        self.reconnects = 0
        self.claims = 0
        self.stopped = False

    async def call(self, name: str) -> None:
        numbers = count()
        while not self.stopped:
            try:
                async with connected(self.url) as connection:
                    while not self.stopped:
                        number = next(numbers)
                        await self._create(connection, f"{name}.{number}", number % 4 == 0)
            except gone:
                await asyncio.sleep(0.02)

    async def _create(self, connection: Connection, key: str, targeted: bool) -> None:
        promise = create(key, "poll://any@g" if targeted else None)
        body = json.dumps(envelope("promise.create", promise, corr_id=key)).encode()
        answer = await connection.request("POST", "/", body)
        if answer.status == 200:
            self.created.add(key)
            if targeted:
                self.offered.add(key)

    async def work(self) -> None:
        while True:
            try:
                async with streaming(self.url, "g", "w") as stream:
                    self.reconnects += 1
                    while (message := await stream.message()) is not None:
                        task = message["data"]["task"]
                        self.claims += 1  # a corrId of its own: a repeated acquire would be answered again
                        lease = task | {"pid": "w", "ttl": 3_600_000}
                        claim = envelope("task.acquire", lease, corr_id=f"w{self.claims}")
                        self.unknown.add(task["id"])
                        answer = await post(self.url, claim)
                        assert answer.status in (200, 409)  # an offer may come twice
                        if answer.status == 200:
                            assert task["id"] not in self.acquired, "two claims of one version"
                            self.acquired.add(task["id"])
            except gone:
                await asyncio.sleep(0.02)


async def _restart(server: ServerProcess, store: str) -> ServerProcess:
    await server.kill()
    return await start_process(store=store, port=int(server.url.rsplit(":", 1)[1]))


async def test_nothing_acknowledged_is_lost_and_workers_reconnect(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    server = await start_process(store=store)
    load = Load(server.url)
    running = [asyncio.create_task(load.call(f"c{number}")) for number in range(callers)]
    running.append(asyncio.create_task(load.work()))
    try:
        for turn in range(rounds):
            goal = len(load.created) + 300
            await until(lambda goal=goal: len(load.created) >= goal)  # type: ignore[misc]
            server = await _restart(server, store)
            await until(lambda turn=turn: load.reconnects > turn + 1)  # type: ignore[misc]
        goal = len(load.created) + 100
        await until(lambda: len(load.created) >= goal)
        load.stopped = True
        await asyncio.gather(*running[:-1])
        created = sorted(load.created)
        # The worker sees every task in the end, without waiting for its retry delay of 30 s.
        await until(lambda: load.offered <= load.acquired | load.unknown)
        assert len(load.offered - load.acquired) <= rounds  # one claim at a time can be in doubt
        for start in range(0, len(created), 500):
            batch = [envelope("promise.get", {"id": key}) for key in created[start : start + 500]]
            answer = await post(server.url, batch)
            lost = [
                key
                for key, reply in zip(created[start:], answer.json, strict=False)
                if reply["head"]["status"] != 200
            ]
            assert lost == []
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.kill()
    assert load.reconnects > rounds
