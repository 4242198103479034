"""Bad input over the wire: a corpus, and a seeded fuzzer. No 5xx, no traceback, no hang, flat memory.

`HOLDFAST_SEED` and `HOLDFAST_FUZZ_COUNT` repeat or lengthen the fuzzing.
"""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.requests import KINDS
from tests.counts import count_of
from tests.seeds import seed_for_test
from tests.server import corpus
from tests.server.http import FAR, Answer, Connection, connected, envelope, get
from tests.server.process import server_process

reply_s = 60.0


async def check(connection: Connection, body: bytes) -> Answer:
    async with asyncio.timeout(reply_s):
        answer = await connection.request("POST", "/", body)
    assert answer.status in (200, 300, 400, 403, 404, 409, 422), (
        answer.status,
        body[:200],
        answer.body[:300],
    )
    found: Any = answer.json
    for reply in [found] if found.__class__ is dict else found:
        assert reply["head"]["status"] < 500, (body[:200], reply)
        assert isinstance(reply["data"], dict | str)
    return answer


async def test_nothing_in_the_corpus_hurts_the_server(tmp_path: Path) -> None:
    async with server_process(store=f"sqlite:///{tmp_path}/h.db") as server:
        async with connected(server.url) as connection:
            for body in corpus.bodies():
                await check(connection, body)
        for raw in corpus.RAW:
            async with connected(server.url) as connection:
                await connection.send(raw)
                async with asyncio.timeout(reply_s):
                    status, headers = await connection.head()
                assert status < 500, raw
                assert headers["content-type"] == "application/json", raw
        async with connected(server.url) as connection:  # a lie about the length, then silence
            await connection.send(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{}")
        assert (await get(server.url, "/ready")).status == 200
        code, log = await server.stop()
    assert code == 0
    assert log == ""


class Fuzzer:
    """Requests that are nearly right: known kinds and fields, with a surprise here and there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def body(self) -> bytes:
        chance = self.random.random()
        if chance < 0.1:
            return self.bent(json.dumps(self.envelope()).encode())
        if chance < 0.2:
            return json.dumps([self.envelope() for _ in range(self.random.randrange(5))]).encode()
        return json.dumps(self.envelope()).encode()

    def bent(self, body: bytes) -> bytes:
        at = self.random.randrange(len(body))
        return (
            body[:at]
            + self.random.randbytes(self.random.randrange(4))
            + body[at + self.random.randrange(8) :]
        )

    def envelope(self) -> Any:
        kind = self.random.choice([kind for kind in KINDS if kind != "debug.reset"])
        version = self.random.choice(["2026-04-01", "2026-04-01", "2025-01-15"])
        return envelope(kind, self.data(kind), version, corr_id=str(self.random.random()))

    def data(self, kind: str) -> Any:
        fields = [field.rstrip("_") for field in KINDS[kind].__struct_encode_fields__]
        return {field: self.field(field) for field in fields if self.random.random() < 0.9}

    def field(self, name: str) -> Any:
        if self.random.random() < 0.15:
            return self.random.choice(
                [None, 0, -1, 2**70, 1.5, "", "x" * 3_000, [], {}, True, "\u0000", {"a": 1}]
            )
        return self.likely().get(name, "x")

    def likely(self) -> dict[str, Any]:
        key = self.random.choice(["a", "b", "c:1", "d.2"])
        tags = {"resonate:target": "poll://any@g"} if self.random.random() < 0.5 else {}
        inner = {"id": key, "timeoutAt": FAR, "tags": tags, "state": "resolved"}
        kind = self.random.choice(["promise.create", "promise.settle"])
        waits = {"awaited": self.random.choice("ab"), "awaiter": key}
        return {
            "id": key,
            "awaited": key,
            "awaiter": self.random.choice("ab"),
            "timeoutAt": FAR,
            "tags": tags,
            "version": self.random.randrange(4),
            "ttl": 1_000,
            "count": 3,
            "groups": ["g"],
            "state": "resolved",
            "action": {"kind": kind, "head": {}, "data": inner},
            "actions": [{"kind": "promise.register_callback", "head": {}, "data": waits}],
            "address": "poll://uni@g/w",
            "tasks": [{"id": key, "version": 1}],
            "cron": "* * * * *",
            "promiseId": "{{.id}}-{{.timestamp}}",
            "promiseTimeout": 1_000,
            "limit": 10,
            "value": {"data": "eA=="},
            "param": {"headers": {"h": "v"}},
        }


@pytest.mark.sized
async def test_a_seeded_fuzzer_finds_no_5xx_no_hang_and_flat_memory(tmp_path: Path) -> None:
    count = count_of("HOLDFAST_FUZZ_COUNT", quick=600, full=6_000)
    fuzzer = Fuzzer(seed_for_test())
    async with (
        server_process(store=f"sqlite:///{tmp_path}/h.db") as server,
        connected(server.url) as connection,
    ):
        before = 0
        statuses: dict[int, int] = {}
        for number in range(count):
            answer = await check(connection, fuzzer.body())
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if number == count // 5:
                before = server.memory_bytes
            if number % 1_000 == 0:
                assert (await get(server.url, "/health")).status == 200
        assert server.memory_bytes - before < 50_000_000
        connection.close()
        code, log = await server.stop()
    assert (code, log) == (0, "")
    assert statuses[200] > count // 10, statuses  # it must not only knock at the door
    assert {400, 404, 409} <= statuses.keys()
