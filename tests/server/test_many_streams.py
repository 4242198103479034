"""Many idle workers: 2,000 streams here, as many as `HOLDFAST_STREAMS` says in a campaign (10,000)."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.counts import count_of
from tests.server.http import call, create, get, until
from tests.server.process import server_process

count = count_of("HOLDFAST_STREAMS", quick=300, full=2_000)
bytes_per_stream_max = 30_000


class _Idle(asyncio.Protocol):
    """A worker that says who it is and listens: cheaper than a reader and a writer each."""

    def __init__(self, number: int, heard: list[int], host: str) -> None:
        self.number = number
        self.heard = heard
        self.host = host
        self.head_seen = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"GET /poll/g/w{self.number} HTTP/1.1\r\nhost: {self.host}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self.head_seen = self.head_seen or data.startswith(b"HTTP/1.1 200")
        if b"data: " in data:
            self.heard.append(self.number)


@pytest.mark.sized
async def test_idle_streams_cost_little_and_each_is_reached(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    loop = asyncio.get_running_loop()
    async with server_process(store=f"sqlite:///{tmp_path}/h.db", stream_keep_alive_s=2) as server:
        host = server.url.removeprefix("http://")
        name, port = host.split(":")
        await call(server.url, "promise.create", create("warm"))
        before = server.memory_bytes
        heard: list[int] = []
        workers: list[_Idle] = []
        transports: list[asyncio.BaseTransport] = []
        for start in range(0, count, 100):
            opened = await asyncio.gather(
                *(
                    loop.create_connection(lambda number=number: _Idle(number, heard, host), name, int(port))  # type: ignore[misc]
                    for number in range(start, start + 100)
                )
            )
            transports += [transport for transport, _ in opened]
            workers += [worker for _, worker in opened]
        await until(lambda: all(worker.head_seen for worker in workers))
        held = server.memory_bytes
        assert (held - before) / count < bytes_per_stream_max
        for number in range(0, count, count // 20):
            await call(server.url, "promise.create", create(f"p{number}", f"poll://uni@g/w{number}"))
        await until(lambda: len(heard) == 20)
        assert sorted(heard) == [*range(0, count, count // 20)]
        assert server.memory_bytes - held < 20_000_000
        text = (await get(server.url, "/metrics")).body.decode()
        assert f"holdfast_streams {count}\n" in text
        for transport in transports:
            transport.abort()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while "holdfast_streams 0\n" not in (await get(server.url, "/metrics")).body.decode():
                pass
    print(f"{count} streams: {(held - before) / count:.0f} bytes each")
