"""A bound on what one caller may ask in a second."""

import pytest

from holdfast.server import Settings, running
from holdfast.server.rate import RateLimit, buckets_max
from tests.server.http import call, create, envelope, post


def test_a_caller_may_ask_so_much_a_second_and_a_second_s_worth_at_once() -> None:
    now = 0.0
    rate = RateLimit(10, lambda: now)
    assert [rate.wait_s("a", 1) for _ in range(10)] == [0.0] * 10
    assert rate.wait_s("a", 1) == 0.1
    assert rate.wait_s("b", 10) == 0.0, "others have their own"
    now = 0.1
    assert rate.wait_s("a", 1) == 0.0
    now = 100.0
    assert rate.wait_s("a", 500) == 0.0, "more than fits may be asked when nothing else was"
    assert rate.wait_s("a", 1) == pytest.approx(49.1), "and every one of it counts"


def test_the_buckets_are_bounded() -> None:
    rate = RateLimit(1, lambda: 0.0)
    for number in range(buckets_max + 1):
        rate.wait_s(str(number), 1)
    assert rate.wait_s("0", 1) == 0.0, "forgotten, and full again"
    assert rate.wait_s(str(buckets_max), 1) > 0


async def test_past_the_rate_it_is_429_with_retry_after_and_nothing_is_changed() -> None:
    async with running(Settings(port=0, store="memory:", rate_limit=0.01)) as server:
        assert (await post(server.url, envelope("promise.create", create("a")))).status == 200
        answer = await post(server.url, envelope("promise.create", create("b")))
        assert (answer.status, answer.json["head"]["status"]) == (429, 429)
        assert "[HF3011]" in answer.json["data"]
        assert 1 <= int(answer.headers["retry-after"]) <= 100
        many = await post(server.url, [envelope("promise.create", create("c"))] * 2)
        assert [each["head"]["status"] for each in many.json] == [429, 429]


async def test_the_rate_counts_envelopes_however_they_are_packed() -> None:
    async with running(Settings(port=0, store="memory:", rate_limit=1.0)) as server:
        asked = [envelope("promise.create", create(f"p{number}")) for number in range(1_000)]
        assert {reply["head"]["status"] for reply in (await post(server.url, asked)).json} == {200}
        answer = await post(server.url, envelope("promise.create", create("one more")))
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) > 900


async def test_each_valid_token_has_its_own_rate_and_invalid_ones_share_that_of_their_address() -> None:
    settings = Settings(port=0, store="memory:", rate_limit=0.01, tokens=("the-first", "the-second"))
    async with running(settings) as server:

        async def ask(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            return (await post(server.url, envelope("promise.create", create("p")), headers=headers)).status

        assert [await ask("the-first"), await ask("the-first"), await ask("the-second")] == [200, 429, 200]
        assert [await ask("guess"), await ask("another guess")] == [401, 429]


async def test_there_is_no_bound_unless_it_is_set() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        for number in range(50):
            assert (await call(server.url, "promise.create", create(f"p{number}")))["promise"]
