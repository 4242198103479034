"""Answers that pages share: who gets one, and that nobody gets one from before what was told to him."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.node import changes
from holdfast.node.changes import UNKNOWN, ChangeFeed, Changes
from holdfast.server.grants import Grant
from holdfast.server.management import kept_answers
from holdfast.server.management.kept_answers import KeptAnswers, accepted_age_s
from holdfast.server.serving import Running, running
from holdfast.server.settings import Settings
from tests.management.change_reader import Change, reading
from tests.management.client import Api
from tests.server.http import call, create

SHARED = {"cache-control": "max-age=1"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(Settings(port=0, store=f"sqlite:///{tmp_path}/h.db")) as found:
        yield found


def names(wanted: str, event: Change) -> bool:
    return wanted in event.data.get("promises", [])


async def ids(server: Running, headers: dict[str, str] | None = None) -> list[str]:
    answer = await Api(server.url).call("GET", "promises", headers=headers)
    assert answer.status == 200
    return [each["id"] for each in answer.json["promises"]]


async def test_pages_that_ask_at_once_cost_one_reading(server: Running) -> None:
    before = server.node.stats.committed_requests
    answers = await asyncio.gather(*(ids(server, SHARED) for _ in range(20)))
    assert answers == [[]] * 20
    assert server.node.stats.committed_requests - before < 20


async def test_whoever_says_nothing_of_an_age_gets_what_is_there_now(server: Running) -> None:
    assert await ids(server, SHARED) == []
    for number in range(20):
        await call(server.url, "promise.create", create(f"p{number:02}"))
        assert len(await ids(server)) == number + 1


async def test_whoever_was_told_of_a_change_finds_it(server: Running) -> None:
    async with reading(server.url) as reader:
        for number in range(20):
            await ids(server, SHARED)
            await call(server.url, "promise.create", create(f"p{number:02}"))
            await reader.until(partial(names, f"p{number:02}"))
            assert f"p{number:02}" in await ids(server, SHARED)


async def test_what_changes_between_the_session_and_the_stream_is_told(server: Running) -> None:
    session = await Api(server.url).get("session")
    await call(server.url, "promise.create", create("between"))
    async with reading(server.url, after=session["after"]) as reader:
        first = await reader.next()
        assert first is not None
        assert first.name == "hello"
        await reader.until(lambda event: "between" in event.data.get("promises", []))


async def test_a_refusal_is_not_kept(server: Running) -> None:
    first = await Api(server.url).call("GET", "promises/later", headers=SHARED)
    assert first.status == 404
    await call(server.url, "promise.create", create("later"))
    assert (await Api(server.url).call("GET", "promises/later", headers=SHARED)).status == 200


@pytest.mark.parametrize(
    ("said", "age_s"),
    [
        (None, 0.0),
        (b"no-cache", 0.0),
        (b"max-age=0", 0.0),
        (b"max-age=1", 1.0),
        (b"No-Transform, Max-Age=1", 1.0),
        (b"max-age=99999999999999", kept_answers.age_s_max),
        (b"max-age=-1", 0.0),
        (b"max-age=x", 0.0),
    ],
)
def test_how_old_an_answer_may_be_is_said_by_the_caller(said: bytes | None, age_s: float) -> None:
    assert accepted_age_s([] if said is None else [(b"cache-control", said)]) == age_s


def key(query: str, name: str = "") -> kept_answers.Key:
    return Grant(name=name), b"/v1/executions", query.encode()


def counted(made: list[str], text: str) -> Any:
    async def make() -> bytes:
        made.append(text)
        return text.encode()

    return make


async def test_two_tokens_share_nothing() -> None:
    kept, made = KeptAnswers(ChangeFeed()), list[str]()
    assert await kept.get(key("a", "ann"), 1.0, counted(made, "for ann")) == b"for ann"
    assert await kept.get(key("a", "bob"), 1.0, counted(made, "for bob")) == b"for bob"
    assert made == ["for ann", "for bob"]


async def test_whoever_leaves_takes_the_answer_from_nobody() -> None:
    kept, may_end = KeptAnswers(ChangeFeed()), asyncio.Event()

    async def slow() -> bytes:
        await may_end.wait()
        return b"done"

    first = asyncio.create_task(kept.get(key("a"), 1.0, slow))
    second = asyncio.create_task(kept.get(key("a"), 1.0, slow))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    may_end.set()
    assert await second == b"done"


async def test_what_is_ready_is_given_only_while_nothing_else_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "first_s", 0.0)
    feed = ChangeFeed()
    feed.open()
    kept, made = KeptAnswers(feed), list[str]()
    assert kept.ready(key("a"), 2.0) is None
    await kept.get(key("a"), 2.0, counted(made, "one"))
    await asyncio.sleep(0)
    assert kept.ready(key("a"), 2.0) == b"one"
    assert kept.ready(key("a"), 0.0) is None
    assert kept.ready(key("a", "bob"), 2.0) is None
    feed.note(Changes({"x": UNKNOWN}))
    async with asyncio.timeout(60):
        await feed.arrival()
    assert kept.ready(key("a"), 2.0) is None


async def test_what_is_kept_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "answers_max", 3)
    monkeypatch.setattr(kept_answers, "bytes_max", 10)
    kept, made = KeptAnswers(ChangeFeed()), list[str]()
    for name in "abcd":
        await kept.get(key(name), 2.0, counted(made, name))
    await kept.get(key("d"), 2.0, counted(made, "d"))
    await kept.get(key("a"), 2.0, counted(made, "a"))  # it had to go
    await kept.get(key("large"), 2.0, counted(made, "x" * 11))
    await kept.get(key("next"), 2.0, counted(made, "next"))
    await kept.get(key("large"), 2.0, counted(made, "x" * 11))  # it, too
    assert [each[:1] for each in made] == ["a", "b", "c", "d", "a", "x", "n", "x"]
