"""A reader of server-sent events, while the server is killed and started again: every chunk once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast as hf
from tests.counts import count_of
from tests.management.client import Api
from tests.management.events import events
from tests.processes import Server
from tests.seeds import seed_for_test

RESTARTS = count_of("HOLDFAST_READER_RESTARTS", quick=3, full=20)
CHUNKS_EACH = 25  # between two restarts


class Reader:
    """As a browser's EventSource: connects again by itself, and says which event it had last."""

    def __init__(self, api: Api, path: str) -> None:
        self.api = api
        self.path = path
        self.values: list[int] = []
        self.connections = 0
        self._last: str | None = None

    async def read(self) -> None:
        while True:
            try:
                if await self._read_some():
                    return
            except (OSError, EOFError, ValueError):  # cut off; an answer that is none is cut off, too
                await asyncio.sleep(0.05)

    async def _read_some(self) -> bool:
        """Is it over?"""
        headers = {} if self._last is None else {"last-event-id": self._last}
        async with events(self.api, self.path, headers) as stream:
            self.connections += 1
            if stream.status != 200:
                return stream.status == 204
            while (event := await stream.next()) is not None:
                event_id, name, data = event
                if name == "end":
                    return True
                self._last = event_id
                self.values.append(data["value"])
        return False


@pytest.mark.sized
async def test_a_reader_has_every_chunk_once_however_often_the_server_is_killed(tmp_path: Path) -> None:
    rng = random.Random(seed_for_test())
    chunks = (RESTARTS + 1) * CHUNKS_EACH
    with Server(tmp_path) as server:
        app = hf.App(server.url, lease="2s")

        @app.workflow
        async def count() -> None:
            async for message in hf.mailbox(int):
                await hf.emit("numbers", message.value)
                if message.value == chunks:
                    break

        async with app:
            await app.start(count, id="count").started()
            reader = Reader(Api(server.url), "executions/count/streams/numbers")
            reading = asyncio.create_task(reader.read())
            number = 0
            for restart in range(RESTARTS + 1):
                for _ in range(CHUNKS_EACH):
                    number += 1
                    await app.tell("count", number, key=str(number))
                if restart < RESTARTS:
                    # It may lag, or be up to date; with one more it has connected since the last restart.
                    seen = rng.randint(min(len(reader.values) + 1, number), number)
                    async with asyncio.timeout(120):
                        while len(reader.values) < seen:  # noqa: ASYNC110 (another process is waited for)
                            await asyncio.sleep(0.01)
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
            async with asyncio.timeout(300):
                await reading
    assert reader.values == [*range(1, chunks + 1)]
    assert reader.connections > RESTARTS
