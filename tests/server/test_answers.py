"""Answers have a bound, too: in bytes, and in the time somebody may take to read them."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.client import ask
from holdfast.client.http import HttpClient
from holdfast.protocol.records import NOTHING, Promise, Schedule, Value
from holdfast.protocol.replies import EMPTY, Envelope, PromisesReply, ReplyHead, SchedulesReply
from holdfast.protocol.requests import PromiseCreate, PromiseGet
from holdfast.server import Settings, running
from holdfast.server.answers import answer_bytes_max, encode_array, shorten_page
from tests.server.http import FAR, call, connected, create, envelope, get, post, until

large = "A" * 1_000_000


def reply(kind: str, data: Any = EMPTY) -> Envelope:
    return Envelope(kind, ReplyHead("c", 200, "2026-04-01"), data)


def promise(number: int, data: str) -> Promise:
    return Promise(f"p{number}", "pending", Value(None, data), NOTHING, {}, FAR, 0)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 80, 1_000])
def test_an_array_below_the_limit_is_answered_whole(count: int) -> None:
    answers = json.loads(encode_array([reply("promise.get") for _ in range(count)]))
    assert [answer["head"]["status"] for answer in answers] == [200] * count


def test_past_the_limit_only_what_may_be_repeated_is_left_out() -> None:
    kinds = ["promise.get", "promise.create", "task.claim", "task.fulfill", "task.fence", "promise.search"]
    early = [reply("promise.get", PromisesReply([promise(0, "A" * 1_000)]))]
    answers = json.loads(encode_array([*early, *map(reply, kinds)], bytes_max=1_000))
    assert answers[0]["head"]["status"] == 200
    late = {answer["kind"]: answer for answer in answers[1:]}
    assert [*late] == kinds
    assert {kind for kind in kinds if late[kind]["head"]["status"] == 200} == {
        "task.claim",
        "task.fulfill",
        "task.fence",
    }
    assert late["promise.get"]["head"]["status"] == 503
    assert late["promise.get"]["data"].endswith("[HF1905]")


def test_a_page_ends_before_it_is_too_large_and_holds_at_least_one() -> None:
    page = [promise(number, "A" * 400) for number in range(5)]
    for limit, kept, cursor in ((1_000, 2, "p1"), (1, 1, "p0"), (2_000, 5, "p9")):
        short: Any = shorten_page(reply("promise.search", PromisesReply(page, "p9")), limit).data
        assert (len(short.promises), short.cursor) == (kept, cursor)
    tagged = [
        Promise(f"p{n}", "pending", NOTHING, NOTHING, {f"{k}": "A" * 20 for k in range(20)}, FAR, 0)
        for n in range(5)
    ]
    short = shorten_page(reply("promise.search", PromisesReply(tagged)), 1_000).data
    assert (len(short.promises), short.cursor) == (2, "p1")
    schedules = [
        Schedule(f"s{number}", "* * * * *", "x", 1, Value(None, "A" * 400), {}, 0, 0) for number in range(5)
    ]
    short = shorten_page(reply("schedule.search", SchedulesReply(schedules)), 1_000).data
    assert ([schedule.id for schedule in short.schedules], short.cursor) == (["s0", "s1"], "s1")


async def test_a_small_array_is_not_answered_with_a_large_one() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        await call(server.url, "promise.create", create("large", param={"data": large}))
        asked = [envelope("promise.get", {"id": "large"}, corr_id=str(number)) for number in range(150)]
        answer = await post(server.url, asked)
        statuses = [each["head"]["status"] for each in answer.json]
        assert len(answer.body) < 2 * answer_bytes_max
        assert [each["head"]["corrId"] for each in answer.json] == [str(number) for number in range(150)]
        assert statuses == [200] * statuses.count(200) + [503] * statuses.count(503)
        assert 8 <= statuses.count(200) <= 12


async def test_our_client_asks_again_for_what_was_left_out() -> None:
    async with running(Settings(port=0, store="memory:")) as server, HttpClient([server.url]) as client:
        await client.request([ask(PromiseCreate("large", FAR, Value(None, large)))])
        answers = await asyncio.gather(*(client.request([ask(PromiseGet("large"))]) for _ in range(100)))
        assert [each.status for [each] in answers] == [200] * 100


async def test_a_client_that_does_not_read_is_made_to_wait_and_then_dropped() -> None:
    settings = Settings(port=0, store="memory:", stream_write_timeout_s=3.0)
    body = json.dumps(envelope("promise.get", {"id": "large"})).encode()
    async with running(settings) as server:
        await call(server.url, "promise.create", create("large", param={"data": large}))
        async with connected(server.url, limit=2**16) as deaf:
            request = f"POST / HTTP/1.1\r\nhost: {deaf.host}\r\ncontent-length: {len(body)}\r\n\r\n"
            deaf.writer.write((request.encode() + body) * 100)
            open_ones: Any = server.server_state.connections
            await until(lambda: any(each.flow.write_paused for each in open_ones))
            for _ in range(20):
                await get(server.url, "/health")  # meanwhile others are served, and nothing piles up
            kept = sum(each.transport.get_write_buffer_size() for each in open_ones)
            assert kept < 5 * len(large)
            await until(lambda: not open_ones)
        assert server.app.metrics.slow_readers == 1


async def test_a_client_that_reads_slowly_is_not_dropped() -> None:
    settings = Settings(port=0, store="memory:", stream_write_timeout_s=1.5)
    async with running(settings) as server:
        await call(server.url, "promise.create", create("large", param={"data": large}))
        asked = json.dumps([envelope("promise.get", {"id": "large"}) for _ in range(12)]).encode()
        async with connected(server.url, limit=2**16) as slow:
            head = f"POST / HTTP/1.1\r\nhost: {slow.host}\r\ncontent-length: {len(asked)}\r\n\r\n"
            await slow.send(head.encode() + asked)
            _, headers = await slow.head()
            left = int(headers["content-length"])
            while left:
                read = await slow.reader.read(2**20)
                assert read, "hung up"
                left -= len(read)
                if left > 8_000_000:
                    await asyncio.sleep(0.05)
        assert server.app.metrics.slow_readers == 0


async def test_a_few_large_answers_are_bounded_too() -> None:
    """Every one of these is a repeat of the acquire that made the lease, and has a preload."""
    branch = {"resonate:branch": "t"}
    asked = [envelope("task.acquire", {"id": "t", "version": 0, "pid": "p", "ttl": 60_000}, corr_id="c")] * 32
    async with running(Settings(port=0, store="memory:")) as server:
        await call(
            server.url, "promise.create", create("t", tags=branch | {"resonate:target": "poll://any@w"})
        )
        for number in range(10):
            await call(
                server.url, "promise.create", create(f"t.{number}", param={"data": large}, tags=branch)
            )
        answer = await post(server.url, asked)
        assert len(answer.body) < answer_bytes_max + 10 * len(large)
        first = answer.json[0]["data"]
        assert [each["id"] for each in first["preload"]] == [f"t.{number}" for number in range(8)]
        assert first["cursor"] == "t.7"
        assert [each["head"]["status"] for each in answer.json] == [200] * 2 + [503] * 30


def test_what_may_not_be_repeated_has_a_bound_too_and_the_first_is_always_answered() -> None:
    page = PromisesReply([promise(0, "A" * 1_000)])
    kinds = ["promise.search", "task.fulfill", "task.fence", "task.claim", "task.fulfill"]
    answers = json.loads(encode_array([reply(kind, page) for kind in kinds], bytes_max=10, bytes_end=2_500))
    assert [answer["head"]["status"] for answer in answers] == [200, 200, 200, 503, 503]


async def test_a_submission_that_is_first_keeps_what_was_answered_and_asks_for_the_rest() -> None:
    async with running(Settings(port=0, store="memory:")) as server, HttpClient([server.url]) as client:
        await client.request([ask(PromiseCreate("large", FAR, Value(None, large)))])
        answers = await client.request([ask(PromiseGet("large"))] * 100)
        assert [each.status for each in answers] == [200] * 100


async def test_the_preloads_of_one_answer_have_a_bound_and_a_search_goes_on_from_there() -> None:
    branch = {"resonate:branch": "root"}
    asked = {"groups": ["w"], "count": 2, "pid": "p", "ttl": 60_000}
    async with running(Settings(port=0, store="memory:")) as server:
        for name in ("a", "b"):
            entries = branch | {"resonate:target": "poll://any@w"}
            await call(server.url, "promise.create", create(name, tags=entries))
        for number in range(10):
            await call(server.url, "promise.create", create(f"t{number}", param={"data": large}, tags=branch))
        claimed = await call(server.url, "task.claim", asked)
        first, second = claimed["tasks"]
        assert [each["id"] for each in first["preload"]] == ["b", *(f"t{number}" for number in range(8))]
        assert (second["preload"], second["cursor"]) == ([], "")
        for cursor, count in ((first["cursor"], 2), (second["cursor"], 12)):
            found = 0
            while cursor is not None:
                rest = await call(server.url, "promise.search", {"tags": branch, "cursor": cursor})
                found += len(rest["promises"])
                cursor = rest.get("cursor")
            assert found == count
