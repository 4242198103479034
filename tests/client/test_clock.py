"""Deadlines are told by the node's clock: a client far away learns it from the answers."""

from holdfast.client.http import HttpClient
from holdfast.node.clock import far_clock, wall_clock
from holdfast.protocol.requests import PromiseGet
from tests.requests import ask
from tests.server.http import envelope, post

hour_ms = 3_600_000
slack_ms = 10_000


async def test_a_wrong_clock_counts_only_until_the_first_answer(url: str) -> None:
    async with HttpClient([url], clock=far_clock(lambda: wall_clock() + hour_ms)) as client:
        assert client.now() > wall_clock() + hour_ms - slack_ms
        await client.request([ask(PromiseGet("nothing"))])
        assert abs(client.now() - wall_clock()) < slack_ms


async def test_setting_the_clock_of_this_machine_changes_nothing() -> None:
    machine = {"wall": 1_000_000, "ticks": 50}
    clock = far_clock(lambda: machine["wall"], lambda: machine["ticks"])
    machine["wall"] -= hour_ms
    machine["ticks"] += 7
    assert clock.peek() == 1_000_007


async def test_an_answer_that_was_long_on_its_way_tells_little() -> None:
    count = {"ms": 0}
    clock = far_clock(lambda: 5_000, lambda: count["ms"])
    count["ms"] = 4_000  # asked at 0, when this clock showed 5000; it shows 9000 by now
    clock.follow(6_000, 0)
    assert clock.peek() == 9_000, "the node's may have shown 6000 a moment after it was asked"
    clock.follow(20_000, 3_000)
    assert clock.peek() == 20_000, "no less than what it was told"


async def test_only_an_array_is_answered_with_the_clock(url: str) -> None:
    asked = envelope("promise.get", {"id": "x"})
    assert "holdfast-now" not in (await post(url, asked)).headers
    assert abs(int((await post(url, [asked])).headers["holdfast-now"]) - wall_clock()) < slack_ms
