"""Streams beside what the engine decides: deletion, deadlines, jobs, damage, and what a commit loads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import Footprint, Rules
from holdfast.node import Node
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.messages import Unblock
from holdfast.protocol.records import Value
from holdfast.protocol.replies import Reply, StreamAppendReply, StreamReply
from holdfast.protocol.requests import (
    AppendAction,
    PromiseCreate,
    Request,
    StreamAnswer,
    StreamAppend,
    StreamNext,
    StreamRead,
    TaskClaim,
    TaskFence,
)
from holdfast.store.interface import Load, Step, Store
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from tests.node.test_retention import ANY_AGE, open_store, statuses
from tests.postgres import database_url, execute
from tests.requests import FAR, ask, create, get, listen, promise_of, settle

HERE = "poll://uni@g/me"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(request.param, tmp_path)


@pytest.fixture
async def node(store: Store) -> AsyncIterator[Node]:
    async with Node(store) as node:
        yield node


def appended(reply: Reply) -> StreamAppendReply:
    assert isinstance(reply.data, StreamAppendReply), reply
    return reply.data


def page(reply: Reply) -> StreamReply:
    assert isinstance(reply.data, StreamReply), reply
    return reply.data


async def test_streams_are_deleted_with_their_execution(node: Node) -> None:
    await node.request([create("a", target="poll://any@g")])
    await node.request(
        [ask(StreamAppend("a", "in", key="k", answer=StreamAnswer(FAR))), ask(StreamNext("a", "in", 2))]
    )
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 5
    assert await statuses(node, "a", "a:in.1", "a:in~k", "a:in.1.answer", "a:in.2") == [404] * 5
    await asyncio.sleep(0.002)
    await node.request([create("a", target="poll://any@g")])
    [reply] = await node.request([ask(StreamAppend("a", "in", key="k"))])
    assert appended(reply).number == 1


async def test_an_open_answer_keeps_the_tree_of_whoever_asked(node: Node) -> None:
    await node.request([create("a", target="poll://any@g"), create("b", target="poll://any@g")])
    await node.request([ask(StreamAppend("b", "in", answer=StreamAnswer(FAR, "a:1", tags={"x": "y"})))])
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("b")])
    assert await node.collect_garbage(ANY_AGE) == 4


async def test_a_record_that_was_left_by_a_deleted_execution_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with Node(SqliteStore(path)) as node:
        await node.request([create("a", target="poll://any@g"), ask(StreamAppend("a", "in"))])
    raw = sqlite3.connect(path)  # as a node would that does not know of streams
    for table in ("promises", "tasks"):
        raw.execute(f"DELETE FROM {table}")
    raw.commit()
    raw.close()
    await asyncio.sleep(0.002)
    async with Node(SqliteStore(path)) as node:
        await node.request([create("a", target="poll://any@g")])
        [reply] = await node.request([ask(StreamAppend("a", "in"))])
        assert appended(reply).number == 1


async def test_who_listens_to_the_next_element_hears_it_and_the_end(node: Node) -> None:
    heard: list[Unblock] = []
    await node.request([create("a", target="poll://any@g")])
    mailbox = node.connect("g", "me")
    await node.request([ask(StreamNext("a", "in", 1)), listen("a:in.1", HERE)])
    await node.request([ask(StreamAppend("a", "in", Value(data="x")))])
    await node.request([ask(StreamNext("a", "in", 2)), listen("a:in.2", HERE)])
    await node.request([settle("a")])
    while len(heard) < 2:
        received = await asyncio.wait_for(mailbox.receive(), 60)
        heard += [message for message in received if isinstance(message, Unblock)]
    assert [(it.promise.id, it.promise.state) for it in heard] == [
        ("a:in.1", "resolved"),
        ("a:in.2", "rejected_canceled"),
    ]


async def test_a_background_task_emits_and_its_readers_end_with_it(node: Node) -> None:
    tags = {"resonate:target": "poll://any@queue.q", "holdfast:job": "{}"}
    await node.request([ask(PromiseCreate("j", FAR, tags=tags))])
    await node.request([ask(TaskClaim(["queue.q"], 1, "me", 60_000, start=True))])
    fence = TaskFence("j", 1, AppendAction(StreamAppend("j", "out.log", Value(data="x"))))
    [reply, following] = await node.request([ask(fence), ask(StreamNext("j", "out.log", 2))])
    assert reply.status == 200
    assert page(following).promises[0].state == "pending"
    await node.request([settle("j")])
    [ended, rest] = await node.request([get("j:out.log.2"), ask(StreamRead("j", "out.log"))])
    assert promise_of(ended).state == "rejected_canceled"
    assert (len(page(rest).promises), page(rest).over) == (1, True)


async def test_senders_at_once_get_different_numbers(node: Node) -> None:
    await node.request([create("a", target="poll://any@g")])
    replies = await asyncio.gather(*[node.request([ask(StreamAppend("a", "in"))]) for _ in range(200)])
    assert sorted(appended(reply).number for [reply] in replies) == [*range(1, 201)]


async def test_two_nodes_give_each_number_once() -> None:
    url = database_url()
    async with Node(PostgresStore(url)) as one, Node(PostgresStore(url)) as two:
        await one.request([create("a", target="poll://any@g")])
        sent = [
            node.request([ask(StreamAppend("a", "in", key=f"{number % 60}"))])
            for number in range(120)
            for node in (one, two)
        ]
        numbers = {appended(reply).number for [reply] in await asyncio.gather(*sent)}
        assert numbers == {*range(1, 61)}


class Noting(MemoryStore):
    """Knows what the commits have loaded, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[Footprint] = []

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Load):
            self.loaded.append(step.footprint)
        return super()._perform(step)


def loads(store: Noting, *requests: Request) -> list[Footprint]:
    store.loaded.clear()
    store.run(lambda: run_group(requests, CommitContext(1_000, Rules(), debug=False)))
    return [*store.loaded]


def test_an_append_is_one_load() -> None:
    store = Noting()
    loads(store, create("a", target="poll://any@g"))
    asked = StreamAppend("a", "in", key="k", answer=StreamAnswer(FAR))
    assert len(loads(store, ask(asked), ask(StreamAppend("a", "in")))) == 1


def test_what_has_no_dependents_loads_nothing_more_when_it_ends() -> None:
    store = Noting()
    loads(store, create("a", target="poll://any@g"))
    loads(store, ask(StreamAppend("a", "in")))
    [only] = loads(store, settle("a"))
    assert (only.promises, only.streams, only.stream_views) == ({"a"}, set(), set())


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "record",
    ["{", '{"id": "b", "createdAt": 1, "counts": {}}', '{"id": "a", "createdAt": 1, "counts": {"in": -1}}',
     '{"id": "a", "createdAt": 1, "counts": {}, "read": 1}'],
)  # fmt: skip
async def test_a_record_that_cannot_be_read_refuses_whoever_needs_it(
    name: str, record: str, tmp_path: Path
) -> None:
    url = database_url() if name == "postgres" else None
    path = tmp_path / "holdfast.db"
    async with Node(SqliteStore(path) if url is None else PostgresStore(url)) as node:
        await node.request([create("a", target="poll://any@g"), create("c", target="poll://any@g")])
        await node.request([ask(StreamAppend("a", "in"))])
        harm = f"UPDATE streams SET record = '{record}'"
        if url is not None:
            await asyncio.to_thread(execute, url, harm)
        else:
            raw = sqlite3.connect(path, timeout=10)
            raw.execute(harm)
            raw.commit()
            raw.close()
        replies = await node.request([ask(StreamAppend("a", "in")), ask(StreamAppend("c", "in"))])
        assert [(reply.status, reply.code) for reply in replies] == [(500, "HF2002"), (200, None)]
        [settled] = await node.request([settle("a")])
        assert settled.status == 200
