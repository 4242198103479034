"""What is too large for one array goes in several, in order; only what is too large by itself is refused."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from holdfast.client import ask, expect
from holdfast.client.errors import BadReply
from holdfast.client.http import HttpClient
from holdfast.protocol.records import Value
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import PromiseCreate, PromiseGet, PromiseSettle, Request, TaskContinue
from holdfast.server import Settings, running
from tests.client.weather import Weather, refusal, reply

late = 2**53 - 1


def creations(count: int, size: int) -> list[Request]:
    return [ask(PromiseCreate(f"p{n}", late, Value(None, "x" * size))) for n in range(count)]


def ids(replies: list[Reply]) -> list[str]:
    return [expect(found, PromiseReply).promise.id for found in replies]


@pytest.fixture
async def narrow() -> AsyncGenerator[HttpClient]:
    """A client of a server that takes little at once."""
    settings = Settings(port=0, store="memory:", body_bytes_max=100_000)
    async with running(settings) as server, HttpClient([server.url], limit_s=10.0) as connected:
        yield connected


async def test_what_was_issued_together_and_is_too_large_for_one_array_goes_in_as_few_as_fit(
    client: HttpClient, sky: Weather
) -> None:
    replies = await client.request(creations(20, 300_000))
    assert ids(replies) == [f"p{n}" for n in range(20)]
    assert sky.posts <= 4


async def test_what_was_issued_together_and_fits_is_one_array(client: HttpClient, sky: Weather) -> None:
    await client.request(creations(6, 300_000))
    assert sky.posts == 1


async def test_what_was_issued_after_something_large_is_applied_after_all_of_it(client: HttpClient) -> None:
    large = creations(20, 300_000)
    first, [second] = await asyncio.gather(client.request(large), client.request([ask(PromiseGet("p19"))]))
    assert len(first) == 20
    assert second.status == 200


async def test_nothing_is_sent_after_a_part_whose_fate_is_unknown(client: HttpClient, sky: Weather) -> None:
    sky.answers = [reply(200, b"<html>")]
    with pytest.raises(BadReply, match="HF4005"):
        await client.request(creations(20, 300_000))
    [found] = await client.request([ask(PromiseGet("p19"))])
    assert found.status == 404


async def test_a_part_that_was_refused_for_now_speaks_for_those_behind_it(
    client: HttpClient, sky: Weather
) -> None:
    sky.answers = [reply(503, refusal(503, "The store failed. [HF1904]"))]
    replies = await client.request([ask(TaskContinue("t")), *creations(20, 300_000)])
    assert [found.status for found in replies] == [503] * 21
    [found] = await client.request([ask(PromiseGet("p19"))])
    assert found.status == 404


async def test_a_server_that_takes_less_at_once_gets_smaller_arrays(narrow: HttpClient) -> None:
    assert ids(await narrow.request(creations(200, 5_000))) == [f"p{n}" for n in range(200)]
    calls = [
        narrow.request([ask(PromiseSettle(f"p{n}", "resolved", Value(None, "y" * 9_000)))])
        for n in range(200)
    ]
    replies = await asyncio.gather(*calls)
    assert ids([found for [found] in replies]) == [f"p{n}" for n in range(200)]


async def test_only_what_is_too_large_by_itself_is_refused(narrow: HttpClient) -> None:
    requests = creations(20, 20_000)
    requests[7] = ask(PromiseCreate("p7", late, Value(None, "x" * 200_000)))
    replies = await narrow.request(requests)
    assert [found.status for found in replies] == [200] * 7 + [413] + [200] * 12
    assert "[HF3004]" in str(replies[7].data)


async def test_a_proxy_that_takes_less_at_once_gets_smaller_arrays_too(
    client: HttpClient, sky: Weather
) -> None:
    page = reply(413, b"<html>Request Entity Too Large</html>")
    sky.answers = [page]
    assert ids(await client.request(creations(2, 5))) == ["p0", "p1"]
    assert sky.posts == 3
    sky.answers = [page]
    [found] = await client.request([ask(PromiseGet("p0"))])
    assert found.status == 413
