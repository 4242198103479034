"""`POST /` and the small paths around it, over real sockets."""

import asyncio
import json

from holdfast.server import Settings, running
from tests.server.http import call, connected, create, envelope, get, post
from tests.server.stores import BreakableStore

memory = Settings(port=0, store="memory:")


async def test_one_envelope_is_answered_by_one() -> None:
    async with running(memory) as server:
        answer = await post(server.url, envelope("promise.create", create("p"), corr_id="abc"))
    assert answer.status == 200
    assert answer.json["kind"] == "promise.create"
    assert answer.json["head"] == {"corrId": "abc", "status": 200, "version": "2026-04-01"}
    assert answer.json["data"]["promise"]["id"] == "p"


async def test_an_array_is_answered_by_an_array_with_http_200() -> None:
    async with running(memory) as server:
        answer = await post(
            server.url, [envelope("promise.create", create("p")), envelope("promise.get", {"id": "absent"})]
        )
    assert answer.status == 200
    assert [reply["head"]["status"] for reply in answer.json] == [200, 404]


async def test_the_http_status_mirrors_the_reply() -> None:
    async with running(memory) as server:
        assert (await post(server.url, envelope("promise.get", {"id": "absent"}))).status == 404
        assert (await post(server.url, envelope("promise.get", {"id": ""}))).status == 400
        assert (await post(server.url, envelope("debug.reset", {}))).status == 403
        assert (await post(server.url, b"not json")).status == 400


async def test_always_200_leaves_the_status_to_the_envelope() -> None:
    async with running(Settings(port=0, store="memory:", always_200=True)) as server:
        answer = await post(server.url, envelope("promise.get", {"id": "absent"}))
    assert (answer.status, answer.json["head"]["status"]) == (200, 404)


async def test_doubled_and_trailing_slashes_are_tolerated() -> None:
    body = json.dumps(envelope("promise.get", {"id": "absent"})).encode()
    async with running(memory) as server, connected(server.url) as connection:
        for path in ("/", "//", "///"):
            assert (await connection.request("POST", path, body)).status == 404
        assert (await connection.request("GET", "//health/")).status == 200


async def test_the_header_with_a_colon_in_its_name_is_tolerated() -> None:
    body = json.dumps(envelope("promise.get", {"id": "absent"})).encode()
    async with running(memory) as server, connected(server.url) as connection:
        await connection.send(
            b"POST / HTTP/1.1\r\nhost: %s\r\nresonate:origin: some.root\r\ncontent-length: %d\r\n\r\n%s"
            % (connection.host.encode(), len(body), body)
        )
        answer = await connection.answer()
    assert answer.json["data"].startswith("There is no promise 'absent'")


async def test_the_content_type_of_a_request_does_not_matter() -> None:
    async with running(memory) as server:
        answer = await post(
            server.url, envelope("promise.create", create("p")), {"content-type": "text/plain"}
        )
    assert answer.status == 200


async def test_unknown_paths_are_404_in_json_and_legacy_ones_410() -> None:
    async with running(memory) as server:
        assert (await get(server.url, "/nothing")).status == 404
        assert (await get(server.url, "/nothing")).json["code"] == "HF3001"
        for path in ("/promises", "/promises/x", "/tasks/claim", "/schedules/1"):
            answer = await get(server.url, path)
            assert (answer.status, answer.json["code"]) == (410, "HF3003")
        assert (await get(server.url, "/")).status == 405


async def test_health_and_ready() -> None:
    async with running(memory) as server:
        assert (await get(server.url, "/health")).json == {"status": "ok"}
        assert (await get(server.url, "/ready")).json == {"status": "ready"}


async def test_a_server_whose_store_fails_is_alive_but_not_ready() -> None:
    store = BreakableStore()
    async with running(memory, store) as server:
        store.broken = True
        assert (await get(server.url, "/health")).status == 200
        answer = await get(server.url, "/ready")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        refused = await post(server.url, envelope("promise.create", create("p")))
        assert (refused.status, refused.json["head"]["status"]) == (503, 503)
        store.broken = False
        await call(server.url, "promise.create", create("p"))
        assert (await get(server.url, "/ready")).status == 200


async def test_a_server_whose_store_recovers_is_ready_before_anybody_asks_for_anything() -> None:
    """Whoever is not ready is sent nothing: it must find out by itself."""
    store = BreakableStore()
    async with running(memory, store) as server:
        store.full = True
        refused = await post(server.url, envelope("promise.create", create("p")))
        assert refused.json["head"]["status"] == 503
        assert (await get(server.url, "/ready")).status == 503, "it can be read, but not written"
        store.full = False
        assert (await get(server.url, "/ready")).status == 200


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running(memory) as server, connected(server.url) as connection:
        for number in range(20):
            body = json.dumps(envelope("promise.get", {"id": "x"}, corr_id=str(number))).encode()
            head = f"POST / HTTP/1.1\r\nhost: {connection.host}\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.writer.write(head.encode() + body)
        answers = [await connection.answer() for _ in range(20)]
    assert [answer.json["head"]["corrId"] for answer in answers] == [str(number) for number in range(20)]


async def test_a_body_may_come_in_pieces_and_in_chunks() -> None:
    body = json.dumps(envelope("promise.create", create("p", param={"data": "x" * 200_000}))).encode()
    async with running(memory) as server, connected(server.url) as connection:
        await connection.send(
            f"POST / HTTP/1.1\r\nhost: {connection.host}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        for start in range(0, len(body), 1000):
            piece = body[start : start + 1000]
            await connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await connection.send(b"0\r\n\r\n")
        assert (await connection.answer()).status == 200


async def test_many_callers_at_once_all_get_their_own_answer() -> None:
    async with running(memory) as server:

        async def ask(number: int) -> None:
            async with connected(server.url) as connection:
                for turn in range(10):
                    key = f"{number}.{turn}"
                    body = json.dumps(envelope("promise.create", create(key), corr_id=key)).encode()
                    answer = await connection.request("POST", "/", body)
                    assert answer.json["head"]["corrId"] == key
                    assert answer.json["data"]["promise"]["id"] == key

        await asyncio.gather(*(ask(number) for number in range(50)))
