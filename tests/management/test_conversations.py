"""Talking to executions by HTTP alone: messages, questions, streams and published values."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api, escaped
from tests.management.events import events
from tests.management.test_api import until
from tests.postgres import database_url


@dataclass
class Item:
    name: str
    price: int


def write() -> None:
    for word in ("once", "upon", "a", "time"):
        hf.emit("tokens", word)


def talkers(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def basket(size: int) -> list[str]:
        names: list[str] = []
        async for message in hf.mailbox(Item):
            if message.value.price < 0:
                message.refuse("a price is not negative")
                continue
            names.append(message.value.name)
            await hf.publish("size", len(names))
            await hf.emit("log", {"got": message.value.name})
            message.answer(len(names))
            if len(names) == size:
                break
        return names

    @app.workflow
    async def story() -> None:
        await hf.publish("stage", "writing")
        await hf.run(write)
        await hf.publish("stage", "done")

    return app


class Talk(Api):
    async def start(self, workflow: str, *args: Any, name: str = "b") -> None:
        await self.post("executions", {"workflow": workflow, "id": name, "args": [*args]})

    async def tell(self, message: Any, name: str = "b", **query: Any) -> Any:
        answer = await self.call("POST", f"executions/{escaped(name)}/messages", message, **query)
        assert answer.status == 200, answer.body
        return answer.json


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as server, talkers(server.url):
        yield Talk(server.url)


async def test_a_message_is_the_body_of_a_post_and_is_sent_once_under_its_key(api: Talk) -> None:
    await api.start("basket", 3, name="a/b")
    first = await api.tell({"name": "tea", "price": 5}, "a/b", key="evt-9")
    assert first == {"id": "a/b:in.1", "number": 1}
    assert await api.tell({"name": "tea", "price": 5}, "a/b", key="evt-9") == first
    assert (await api.tell({"name": "milk", "price": 2}, "a/b"))["number"] == 2
    assert (await api.tell({"name": "salt", "price": 1}, "a/b"))["number"] == 3
    assert (await until(api, "a/b", "completed"))["result"] == ["tea", "milk", "salt"]


async def test_the_key_may_be_the_header_that_webhooks_send(api: Talk) -> None:
    await api.start("basket", 2)
    for _ in range(2):
        answer = await api.call(
            "POST",
            "executions/b/messages",
            {"name": "tea", "price": 5},
            headers={"idempotency-key": "evt-1", "content-type": "application/json"},
        )
        assert answer.json["number"] == 1
    page = await api.get("executions/b/messages")
    assert [each["value"]["name"] for each in page["messages"]] == ["tea"]


async def test_a_question_is_answered_in_the_answer_to_the_post(api: Talk) -> None:
    await api.start("basket", 2)
    asked = await api.tell({"name": "tea", "price": 5}, ask="true", timeout="30", key="q")
    assert asked == {"id": "b:in.1", "number": 1, "answer": 1}
    # Who was cut off asks again under the same key: the same answer, and nothing is sent twice.
    assert await api.tell({"name": "tea", "price": 5}, ask="true", timeout="30", key="q") == asked


async def test_what_the_code_refuses_is_told_to_whoever_asks(api: Talk) -> None:
    await api.start("basket", 2)
    answer = await api.call("POST", "executions/b/messages", {"name": "tea", "price": -1}, ask="true")
    assert (answer.status, answer.json["code"]) == (422, "HF3407")
    assert "a price is not negative" in answer.json["error"]


async def test_no_answer_in_time_is_told_and_the_message_stays_sent(api: Talk) -> None:
    await api.post("executions", {"workflow": "nobody-runs-this", "id": "b", "group": "away"})
    refused = await api.refused("POST", "executions/b/messages", {"x": 1}, ask="true", timeout="0.05")
    assert refused == (504, "HF3408")
    assert (await api.get("executions/b/messages"))["count"] == 1


async def test_an_execution_that_ends_without_an_answer_says_so_at_once(api: Talk) -> None:
    await api.post("executions", {"workflow": "nobody-runs-this", "id": "b", "group": "away"})
    asking = asyncio.create_task(api.refused("POST", "executions/b/messages", 1, ask="true", timeout="300"))
    while (await api.get("executions/b/messages"))["count"] == 0:
        pass
    await api.post("executions/b/cancel", {"now": True})
    assert await asking == (409, "HF1402")
    assert await api.refused("POST", "executions/b/messages", 1) == (409, "HF1402")
    assert await api.refused("POST", "executions/none/messages", 1) == (404, "HF1401")


async def test_messages_are_listed_with_what_became_of_them(api: Talk) -> None:
    await api.start("basket", 9)
    await api.tell({"name": "tea", "price": 5})
    await api.tell({"name": "salt"})
    await api.tell({"name": "milk", "price": 2}, ask="true")
    tea, salt, milk = (await api.get("executions/b/messages"))["messages"]
    assert (tea["number"], tea["value"], tea["question"]) == (1, {"name": "tea", "price": 5}, False)
    assert "setAside" not in tea
    assert salt["setAside"]["state"] == "rejected"
    assert "price" in json.dumps(salt["setAside"]["value"])
    assert milk["question"]
    assert milk["answer"] == {"state": "resolved", "value": 2}
    page = await api.get("executions/b/messages", after=1, limit=1)
    assert ([each["number"] for each in page["messages"]], page["count"], page["over"]) == ([2], 3, False)
    [aside] = (await api.get("executions/b/messages", setAside="true"))["messages"]
    assert (aside["number"], aside["id"]) == (2, "b:in.2")
    refused = await api.call("POST", "executions/b/messages", "no item", ask="true")
    assert (refused.status, refused.json["code"]) == (422, "HF3407")


async def test_streams_and_published_values_are_pages_for_a_plain_get(api: Talk) -> None:
    await api.start("story", name="s")
    await until(api, "s", "completed")
    assert await api.get("executions/s/streams") == {"streams": {"tokens": 4}, "over": True}
    page = await api.get("executions/s/streams/tokens", after=1, limit=2)
    assert [(each["number"], each["value"]) for each in page["elements"]] == [(2, "upon"), (3, "a")]
    assert page["elements"][0]["step"] == "s:2"
    assert (page["count"], page["over"]) == (4, True)
    [stage] = (await api.get("executions/s/published"))["published"]
    assert (stage["name"], stage["number"], stage["value"]) == ("stage", 2, "done")
    assert (await api.get("executions/s/published/stage"))["value"] == "done"
    assert await api.refused("GET", "executions/s/published/size") == (404, "HF3409")
    assert await api.refused("GET", "executions/none/streams") == (404, "HF1401")


async def test_a_stream_is_followed_as_events_until_it_is_over(api: Talk) -> None:
    await api.start("basket", 2)
    async with events(api, "executions/b/streams/log") as log:
        assert log.headers["content-type"] == "text/event-stream"
        await api.tell({"name": "tea", "price": 5})
        assert await log.next() == ("1", None, {"number": 1, "value": {"got": "tea"}})
        await api.tell({"name": "milk", "price": 5})
        assert await log.next() == ("2", None, {"number": 2, "value": {"got": "milk"}})
        assert await log.next() == (None, "end", {"count": 2})
        assert await log.next() is None


async def test_a_reader_that_was_cut_off_goes_on_after_what_it_had(api: Talk) -> None:
    await api.start("story", name="s")
    await until(api, "s", "completed")
    path = "executions/s/streams/tokens"
    for headers, query in (({"last-event-id": "2"}, {"after": 1}), ({}, {"after": 2})):
        async with events(api, path, headers, **query) as tokens:
            found = [await tokens.next() for _ in range(3)]
            assert [each[2].get("value") for each in found if each] == ["a", "time", None]
    async with events(api, path, {"last-event-id": "4"}) as tokens:
        assert tokens.status == 204
    answer = await api.call("GET", path, headers={"accept": "text/event-stream", "last-event-id": "x"})
    assert (answer.status, answer.json["code"]) == (400, "HF3401")
    answer = await api.call("GET", "executions/none/streams/x", headers={"accept": "text/event-stream"})
    assert (answer.status, answer.json["code"]) == (404, "HF1401")


async def test_a_reader_that_is_ahead_of_a_stream_waits_for_what_comes_after_its_number(api: Talk) -> None:
    await api.start("basket", 3)
    await api.tell({"name": "tea", "price": 5}, ask="true")
    path = "executions/b/streams/log"
    async with (
        events(api, path, {"last-event-id": "2"}) as behind,
        events(api, path, {"last-event-id": "40"}) as far,
    ):
        for name in ("milk", "salt"):
            await api.tell({"name": name, "price": 5})
        assert await behind.next() == ("3", None, {"number": 3, "value": {"got": "salt"}})
        assert await behind.next() == (None, "end", {"count": 3})
        assert await far.next() == (None, "end", {"count": 3})


async def test_an_empty_key_is_refused_and_sends_nothing(api: Talk) -> None:
    await api.start("basket", 3)
    path = "executions/b/messages"
    for headers, query in (({}, {"key": ""}), ({"idempotency-key": ""}, {})):
        answer = await api.call("POST", path, {"name": "tea", "price": 5}, headers=headers, **query)
        assert (answer.status, answer.json["code"]) == (400, "HF3401")
    assert (await api.tell({"name": "tea", "price": 5}))["number"] == 1


async def test_a_published_value_is_watched_from_the_last_one_on(api: Talk) -> None:
    await api.start("basket", 3)
    for name in ("tea", "milk"):
        await api.tell({"name": name, "price": 5}, ask="true")
    async with events(api, "executions/b/published/size") as sizes:
        assert await sizes.next() == ("2", None, {"number": 2, "value": 2})
        await api.tell({"name": "salt", "price": 5})
        assert await sizes.next() == ("3", None, {"number": 3, "value": 3})
        assert await sizes.next() == (None, "end", {"count": 3})
    async with events(api, "executions/b/published/size", {"last-event-id": "1"}) as sizes:
        assert [each[0] for each in [await sizes.next(), await sizes.next()] if each] == ["2", "3"]
