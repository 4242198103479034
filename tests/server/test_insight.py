"""Metrics say what happened; logs never say too much."""

import json
from pathlib import Path

from holdfast.server import Settings, running
from tests.server.http import call, connected, create, envelope, get, post, streaming
from tests.server.process import server_process
from tests.server.stores import BreakableStore


async def scrape(url: str) -> dict[str, float]:
    answer = await get(url, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


async def test_the_numbers_an_operator_wants_are_there(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path}/h.db")
    async with running(settings) as server, streaming(server.url, "g", "w") as stream:
        for number in range(3):
            await call(server.url, "promise.create", create(f"p{number}", 'poll://any@"g\\'))
        await call(server.url, "promise.create", create("q", "poll://any@g"))
        await call(server.url, "promise.create", create("u", "poll://uni@g/absent"))
        await stream.task()
        await call(server.url, "task.acquire", {"id": "q", "version": 0, "pid": "w", "ttl": 60_000})
        await post(server.url, envelope("promise.get", {"id": "absent"}))
        await post(server.url, envelope("no.such.kind", {}))
        await get(server.url, "/nothing")
        found = await scrape(server.url)
    assert found['holdfast_requests_total{kind="promise.create",status="200"}'] == 5
    assert found['holdfast_requests_total{kind="promise.get",status="404"}'] == 1
    assert found['holdfast_requests_total{kind="unknown",status="400"}'] == 1
    assert found['holdfast_request_duration_seconds_count{kind="promise.create"}'] == 5
    assert found['holdfast_request_duration_seconds_bucket{kind="promise.create",le="+Inf"}'] == 5
    assert found['holdfast_backlog{group="\\"g\\\\",state="pending"}'] == 3
    assert found['holdfast_backlog{group="",state="acquired"}'] == 1
    assert found['holdfast_backlog{group="",state="waiting"}'] == 1
    assert found['holdfast_oldest_pending_seconds{group="\\"g\\\\"}'] >= 0
    assert found['holdfast_deliveries_total{kind="execute",way="stream",outcome="sent"}'] == 1
    assert found['holdfast_refused_total{code="HF3001"}'] == 1
    assert found["holdfast_leases"] == 1
    assert found["holdfast_streams"] == 1
    assert found["holdfast_http_connections"] == 2
    assert found["holdfast_timers_due"] == 0
    assert found["holdfast_queue_length"] == 0
    assert found["holdfast_group_size"] >= 1
    assert found["holdfast_messages_waiting"] == 4


async def test_while_the_store_fails_metrics_and_collections_say_so_in_json() -> None:
    store = BreakableStore()
    async with (
        running(Settings(port=0, store="memory:"), store) as server,
        connected(server.url) as connection,
    ):
        store.broken = True
        for method, path, body in (("GET", "/metrics", b""), ("POST", "/collect", b'{"olderThanMs": 0}')):
            answer = await connection.request(method, path, body)
            assert (answer.status, answer.json["code"]) == (503, "HF1904")
            assert answer.headers["retry-after"] == "1"
        store.broken = False
        assert (await connection.request("GET", "/metrics")).status == 200


async def test_both_stores_count_the_same_backlog(tmp_path: Path) -> None:
    counted: list[dict[str, float]] = []
    for store in ("memory:", f"sqlite:///{tmp_path}/h.db"):
        async with running(Settings(port=0, store=store)) as server:
            for group in ("a", "b", "b"):
                key = f"{group}{len(counted)}{server.node.stats.commits}"
                await call(server.url, "promise.create", create(key, f"poll://any@{group}"))
            await call(
                server.url, "promise.create", create("t", "poll://any@a", tags={"resonate:timer": "true"})
            )
            await call(server.url, "task.claim", {"groups": ["b"], "count": 1, "pid": "p", "ttl": 60_000})
            await rest(server.url)
            found = await scrape(server.url)
            wanted = ("holdfast_backlog", "holdfast_leases", "holdfast_timers")
            counted.append({key: value for key, value in found.items() if key.startswith(wanted)})
    assert counted[0] == counted[1]
    assert counted[0]['holdfast_backlog{group="",state="waiting"}'] == 1
    assert counted[0]['holdfast_backlog{group="",state="suspended"}'] == 1
    assert counted[0]['holdfast_backlog{group="",state="halted"}'] == 2


async def rest(url: str) -> None:
    """One execution is suspended, one is halted, and so is a background task that has a deadline."""
    for key in ("waits", "stands"):
        await call(url, "promise.create", create(key, "poll://any@c"))
    await call(url, "promise.create", create("awaited"))
    await call(url, "task.acquire", {"id": "waits", "version": 0, "pid": "w", "ttl": 60_000})
    wait = {
        "kind": "promise.register_callback",
        "head": {},
        "data": {"awaited": "awaited", "awaiter": "waits"},
    }
    await call(url, "task.suspend", {"id": "waits", "version": 1, "actions": [wait]})
    spec = {"holdfast:job": '{"goodUntil": 9007199254740990}'}
    await call(url, "promise.create", create("job", "poll://any@queue.q", tags=spec))
    for key in ("stands", "job"):
        await call(url, "task.halt", {"id": key})


async def test_metrics_can_be_turned_off() -> None:
    async with running(Settings(port=0, store="memory:", metrics=False)) as server:
        assert (await get(server.url, "/metrics")).status == 404


async def test_no_payload_and_no_secret_is_ever_logged(tmp_path: Path) -> None:
    canary = "CANARY-5f1e"
    settings = {
        "store": f"sqlite:///{tmp_path}/h.db",
        "log_level": "debug",
        "tokens": [f"admin-{canary}"],
        "push_token": f"push-{canary}",
    }
    async with server_process(**settings) as server:
        auth = {"authorization": f"Bearer admin-{canary}"}
        for headers in (auth, {"authorization": f"Bearer wrong-{canary}"}):
            for data in (
                create("p", param={"data": canary, "headers": {"x": canary}}),
                create("q", f"http://user:{canary}@example.org/{canary}"),
                create(f"x\r\n{canary}"),
                {"id": canary, "timeoutAt": canary},
            ):
                await post(server.url, envelope("promise.create", data, auth=canary), headers)
                await post(server.url, envelope("promise.create", data), headers)
        await post(server.url, f"not json {canary}".encode(), auth)
        await get(server.url, f"/{canary}", {"x": canary, "cookie": canary})
        await get(server.url, f"/poll/{canary}/w", {"host": canary})
        code, log = await server.stop()
    assert code == 0
    assert canary not in log
    for line in log.splitlines():
        assert json.loads(line)["message"]
