"""The HTTP client in good weather and in bad."""

import asyncio
import contextlib
import socket

import pytest

from holdfast.client import ask, expect
from holdfast.client.connection import Connection
from holdfast.client.endpoints import parse_endpoint
from holdfast.client.errors import (
    BadReply,
    ClientClosed,
    InvalidToken,
    InvalidUrl,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.http import HttpClient
from holdfast.client.sender import waiting_requests_max
from holdfast.protocol.limits import batch_envelopes_max, batch_schedules_max
from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply, PromiseReply, TaskReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseSettle,
    ScheduleCreate,
    ScheduleDelete,
    SettleAction,
    TaskAcquire,
    TaskContinue,
    TaskFulfill,
    TaskGet,
)
from holdfast.server import Settings, running
from tests.client.weather import Weather, refusal, reply

late = 2**53 - 1
target = {"resonate:target": "poll://any@group"}


def create(promise_id: str, tags: dict[str, str] | None = None, data: str | None = None) -> PromiseCreate:
    return PromiseCreate(promise_id, late, Value(None, data), tags or {})


def unused_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


# --- one array per round trip ------------------------------------------------------------------------


async def test_requests_that_wait_share_a_round_trip(client: HttpClient, sky: Weather) -> None:
    replies = await asyncio.gather(*(client.request([ask(create(f"p{n}"))]) for n in range(500)))
    assert [expect(found, PromiseReply).promise.id for [found] in replies] == [f"p{n}" for n in range(500)]
    assert sky.posts <= 3


async def test_requests_are_applied_in_the_order_they_were_issued(client: HttpClient) -> None:
    calls = [
        client.request([ask(request)])
        for n in range(200)
        for request in (create(f"p{n}"), PromiseSettle(f"p{n}", "resolved"), PromiseGet(f"p{n}"))
    ]
    replies = [found for [found] in await asyncio.gather(*calls)]
    assert {found.status for found in replies} == {200}
    assert {expect(found, PromiseReply).promise.state for found in replies[2::3]} == {"resolved"}


async def test_more_requests_than_an_array_holds_are_answered_in_order(client: HttpClient) -> None:
    count = batch_envelopes_max * 2 + 7
    replies = await client.request([ask(create(f"p{n}")) for n in range(count)])
    assert [expect(found, PromiseReply).promise.id for found in replies] == [f"p{n}" for n in range(count)]


async def test_large_values_do_not_make_an_array_that_is_too_large(client: HttpClient) -> None:
    large = "x" * 300_000
    replies = await asyncio.gather(*(client.request([ask(create(f"p{n}", data=large))]) for n in range(20)))
    assert {found.status for [found] in replies} == {200}


async def test_more_schedules_than_an_array_may_hold_are_replaced_whole(client: HttpClient) -> None:
    schedules = [
        ScheduleCreate(f"s{n}", "0 12 * * *", "p", 1_000) for n in range(batch_schedules_max * 2 + 7)
    ]
    await asyncio.gather(*(client.request([ask(each)]) for each in schedules))
    changed = [client.request([ask(ScheduleDelete(each.id)), ask(each)]) for each in schedules]
    assert {reply.status for replies in await asyncio.gather(*changed) for reply in replies} == {200}


async def test_no_requests_are_no_round_trip(client: HttpClient, sky: Weather) -> None:
    assert await client.request([]) == []
    assert sky.posts == 0


# --- what may be repeated, and what not ----------------------------------------------------------------


async def test_a_lost_reply_to_a_repeatable_request_is_fetched_again(
    client: HttpClient, sky: Weather
) -> None:
    sky.replies_to_lose = 2
    [found] = await client.request([ask(create("p"))])
    assert expect(found, PromiseReply).promise.id == "p"
    assert sky.posts == 3


async def test_a_repeated_acquire_keeps_its_claim(client: HttpClient, sky: Weather) -> None:
    await client.request([ask(create("wf", target))])
    sky.replies_to_lose = 1
    [found] = await client.request([ask(TaskAcquire("wf", 0, "me", 60_000))])
    assert expect(found, AcquireReply).task.version == 1


async def test_a_fulfilment_is_never_repeated(client: HttpClient, sky: Weather) -> None:
    await client.request([ask(create("wf", target)), ask(TaskAcquire("wf", 0, "me", 60_000))])
    sky.replies_to_lose = 1
    before = sky.posts
    with pytest.raises(OutcomeUnknown, match=r"task.fulfill.*HF4003"):
        await client.request([ask(TaskFulfill("wf", 1, SettleAction(PromiseSettle("wf", "resolved"))))])
    assert sky.posts == before + 1
    [found] = await client.request([ask(TaskGet("wf"))])
    assert expect(found, TaskReply).task.state == "fulfilled"


async def test_what_shares_an_array_with_a_lost_fulfilment_is_still_answered(
    client: HttpClient, sky: Weather
) -> None:
    await client.request([ask(create("wf", target)), ask(TaskAcquire("wf", 0, "me", 60_000))])
    sky.replies_to_lose = 1
    fulfilment, creation = await asyncio.gather(
        client.request([ask(TaskFulfill("wf", 1, SettleAction(PromiseSettle("wf", "resolved"))))]),
        client.request([ask(create("p"))]),
        return_exceptions=True,
    )
    assert isinstance(fulfilment, OutcomeUnknown)
    assert isinstance(creation, list)
    assert creation[0].status == 200


async def test_a_node_without_room_is_asked_again(client: HttpClient, sky: Weather) -> None:
    full = refusal(429, "Full. [HF1901]")
    sky.answers = [reply(429, full, b"Retry-After: 0\r\n"), reply(429, full)]
    [found] = await client.request([ask(create("p"))])
    assert found.status == 200
    assert sky.posts == 3


async def test_more_requests_than_a_server_takes_at_once_are_answered() -> None:
    settings = Settings(port=0, store="memory:", requests_max=3)
    async with running(settings) as server, HttpClient([server.url], limit_s=60.0) as client:
        replies = await asyncio.gather(*(client.request([ask(create(f"p{n}"))]) for n in range(50)))
        assert {found.status for [found] in replies} == {200}


async def test_a_server_without_room_for_another_connection_is_asked_again() -> None:
    async with running(Settings(port=0, store="memory:", connections_max=1)) as server:
        endpoint = parse_endpoint(server.url)
        holder = await Connection.open(endpoint, None, None)
        assert (await holder.get("/health")).status == 200
        async with HttpClient([server.url]) as client:
            call = asyncio.create_task(client.request([ask(create("p", target)), ask(TaskContinue("p"))]))
            done, _ = await asyncio.wait([call], timeout=0.2)
            assert not done
            await holder.close()
            assert [found.status for found in await call] == [200, 409]


async def test_a_server_without_room_for_another_connection_is_named_if_it_stays_so(
    client: HttpClient, sky: Weather
) -> None:
    body = b'{"error":"1 connections are open. [HF3007]","code":"HF3007"}'
    sky.answers = [reply(429, body, b"Retry-After: 30\r\n")]
    async with HttpClient([sky.url], limit_s=0.2) as hasty:
        with pytest.raises(RequestTimedOut, match=r"within 0.2 s.*connections are open. \[HF3007\]"):
            await hasty.request([ask(create("p"))])
    sky.answers = [reply(429, body)]
    async with HttpClient([sky.url], persistent=False) as console:
        [found] = await console.request([ask(create("p"))])
        assert (found.status, found.data) == (429, "1 connections are open. [HF3007]")


async def test_another_node_is_asked_when_one_has_no_room_for_another_connection(
    url: str, sky: Weather
) -> None:
    sky.answers = [reply(429, b"<html>", b"Retry-After: 0\r\n")] * 100
    async with HttpClient([sky.url, url], limit_s=5.0) as client:
        [found] = await client.request([ask(create("p"))])
        assert found.status == 200
        assert sky.posts <= 1


@pytest.mark.parametrize("status", [408, 502, 503, 504])
async def test_a_page_of_a_proxy_leaves_the_outcome_open(
    client: HttpClient, sky: Weather, status: int
) -> None:
    page = reply(status, b"<html>Bad Gateway</html>")
    sky.answers = [page, page]
    [found, _] = await client.request([ask(create("wf", target)), ask(TaskAcquire("wf", 0, "me", 60_000))])
    assert found.status == 200
    sky.answers = [page]
    before = sky.posts
    with pytest.raises(OutcomeUnknown, match=rf"task.fulfill.*HTTP {status}.*HF4003"):
        await client.request([ask(TaskFulfill("wf", 1, SettleAction(PromiseSettle("wf", "resolved"))))])
    assert sky.posts == before + 1


@pytest.mark.parametrize(
    "open_",
    [refusal(503, "Words may change.", "HF1904"), refusal(503, "The store failed. [HF1904]")],
    ids=["a code in the head", "an older server"],
)
async def test_what_a_failing_store_left_open_is_asked_again(
    client: HttpClient, sky: Weather, open_: bytes
) -> None:
    sky.answers = [reply(503, open_)]
    [found] = await client.request([ask(create("p", target))])
    assert found.status == 200
    sky.answers = [reply(503, open_)]
    [found] = await client.request([ask(TaskContinue("p"))])
    assert found.status == 503


async def test_a_refusal_tells_its_code_whatever_its_sentence_says(client: HttpClient, sky: Weather) -> None:
    [missing] = await client.request([ask(PromiseGet("nobody"))])
    assert (missing.status, missing.code) == (404, "HF1101")
    with pytest.raises(Refused) as caught:
        expect(missing, PromiseReply)
    assert caught.value.reply_code == "HF1101"
    sky.answers = [reply(409, refusal(409, "It is held by 'x [HF1904]'", "HF1204"))]
    [taken] = await client.request([ask(create("p"))])
    assert (taken.status, taken.code) == (409, "HF1204")
    sky.answers = [reply(404, refusal(404, "There is none. [HF1101]"))]
    [older] = await client.request([ask(PromiseGet("nobody"))])
    assert older.code == "HF1101"


async def test_a_refusal_of_the_whole_array_is_the_reply_to_each(client: HttpClient, sky: Weather) -> None:
    sky.answers = [reply(403, refusal(403, "Not here."))]
    replies = await client.request([ask(create("p")), ask(create("q"))])
    assert [(found.status, found.data) for found in replies] == [(403, "Not here.")] * 2


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'"x"', b"\xff", b"[[[[", b'[{"kind":1}]'])
async def test_an_answer_that_is_none_raises(client: HttpClient, sky: Weather, body: bytes) -> None:
    sky.answers = [reply(200, body)]
    with pytest.raises(BadReply, match="HF4005"):
        await client.request([ask(create("p"))])
    [found] = await client.request([ask(create("p"))])
    assert found.status == 200


# --- reaching a node -----------------------------------------------------------------------------------


async def test_a_connection_that_broke_is_opened_again(client: HttpClient, sky: Weather) -> None:
    await client.request([ask(create("p"))])
    sky.break_all()
    [found] = await client.request([ask(PromiseGet("p"))])
    assert found.status == 200


async def test_nobody_there_is_said_at_once_if_asked_to() -> None:
    async with HttpClient([unused_url(), unused_url()], persistent=False) as client:
        with pytest.raises(Unreachable, match="HF4001"):
            await client.request([ask(PromiseGet("p"))])


async def test_nobody_there_is_said_after_the_limit() -> None:
    async with HttpClient([unused_url()], limit_s=0.2) as client:
        with pytest.raises(Unreachable, match=r"within 0.2 s"):
            await client.request([ask(PromiseGet("p"))])


async def test_a_node_that_comes_later_is_found() -> None:
    url = unused_url()
    async with HttpClient([url]) as client:
        call = asyncio.create_task(client.request([ask(create("p"))]))
        await asyncio.sleep(0.1)
        async with running(Settings(port=int(url.rpartition(":")[2]), store="memory:")):
            [found] = await call
    assert found.status == 200


async def test_a_node_that_does_not_answer_in_time_leaves_the_outcome_open(url: str, sky: Weather) -> None:
    sky.hangs = True
    async with HttpClient([sky.url], limit_s=0.2) as client:
        with pytest.raises(RequestTimedOut, match="HF4002"):
            await client.request([ask(create("p"))])


async def test_another_node_takes_over(url: str) -> None:
    async with HttpClient([unused_url(), url, unused_url()], limit_s=5.0) as client:
        for n in range(20):
            [found] = await client.request([ask(create(f"p{n}"))])
            assert found.status == 200


async def test_a_token_opens_the_door() -> None:
    async with running(Settings(port=0, store="memory:", tokens=("open-sesame",))) as server:
        async with HttpClient([server.url], token="open-sesame") as client:
            [found] = await client.request([ask(create("p"))])
            assert found.status == 200
        async with HttpClient([server.url], token="simsalabim") as client:
            [found] = await client.request([ask(PromiseGet("p"))])
            assert found.status == 401
            with pytest.raises(Refused):
                expect(found, PromiseReply)


@pytest.mark.parametrize("token", ["", "two words", "line\r\nHost: other", "schlüssel"])
def test_a_token_that_cannot_be_sent_is_refused(token: str) -> None:
    with pytest.raises(InvalidToken, match="HF4009"):
        HttpClient(["http://127.0.0.1:1"], token=token)


@pytest.mark.parametrize(
    "url",
    [
        "http://h/a b",
        "http://h/ä",
        "",
        "ftp://host",
        "http://",
        "http://h:99999",
        "http://h/?q",
        "http://u@h",
        "h:80",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl, match="HF4007"):
        HttpClient([url])


# --- bounds and endings --------------------------------------------------------------------------------


async def test_what_waits_is_bounded(url: str, sky: Weather) -> None:
    sky.hangs = True
    async with HttpClient([sky.url]) as client:
        requests = [ask(PromiseGet("p"))] * batch_envelopes_max
        waiting = [
            asyncio.create_task(client.request(requests))
            for _ in range(waiting_requests_max // len(requests))
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaiting, match="HF4006"):
            await client.request(requests)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_closing_ends_what_waits(url: str, sky: Weather) -> None:
    sky.hangs = True
    client = HttpClient([sky.url])
    call = asyncio.create_task(client.request([ask(PromiseGet("p"))]))
    await asyncio.sleep(0.05)
    await client.close()
    with pytest.raises(ClientClosed, match="HF4004"):
        await call
    with pytest.raises(ClientClosed):
        await client.request([ask(PromiseGet("p"))])


async def test_a_caller_that_goes_away_harms_no_other(client: HttpClient) -> None:
    calls = [asyncio.create_task(client.request([ask(create(f"p{n}"))])) for n in range(10)]
    await asyncio.sleep(0)
    calls[3].cancel()
    for number, call in enumerate(calls):
        with contextlib.suppress(asyncio.CancelledError):
            [found] = await call
            assert expect(found, PromiseReply).promise.id == f"p{number}"
    assert [call.cancelled() for call in calls] == [number == 3 for number in range(10)]


async def test_what_could_not_be_sent_is_sent_later_in_the_order_in_which_it_was_issued() -> None:
    url = unused_url()
    async with HttpClient([url]) as client:
        waiting = [asyncio.ensure_future(client.request([ask(create("p", data=f"{n}"))])) for n in range(3)]
        await asyncio.sleep(0.2)  # nobody listens yet: they were put back, and more than once
        async with running(Settings(port=int(url.rpartition(":")[2]), store="memory:")):
            replies = await asyncio.gather(*waiting)
    assert [expect(found, PromiseReply).promise.param.data for [found] in replies] == ["0", "0", "0"]
