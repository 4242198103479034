"""A node answers the same whether it is in this process or behind HTTP."""

import msgspec
import pytest

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.http import HttpClient
from holdfast.client.wire import encode_request
from holdfast.node import Node
from holdfast.protocol.repeatable import repeatable_kinds
from holdfast.protocol.requests import KINDS, Request
from holdfast.protocol.wire import decode
from holdfast.store.memory import MemoryStore
from tests.client.samples import story


def test_the_story_touches_every_kind() -> None:
    aliases = {"promise.register", "promise.subscribe"}
    assert {request.kind for request in story()} == KINDS.keys() - aliases


@pytest.mark.parametrize("request_", story(), ids=lambda request: request.kind)
def test_what_is_sent_is_what_the_node_reads(request_: Request) -> None:
    assert decode(encode_request(request_)) == request_


async def test_both_clients_get_the_same_replies(client: HttpClient) -> None:
    requests = story()
    async with Node(MemoryStore(), debug=True) as node:
        near = EmbeddedClient(node)
        expected = [await near.request([request]) for request in requests]
    found = [await client.request([request]) for request in requests]
    assert [msgspec.to_builtins(replies) for replies in found] == [
        msgspec.to_builtins(replies) for replies in expected
    ]
    assert found == expected


async def test_both_clients_get_the_same_replies_to_one_array(client: HttpClient) -> None:
    requests = story()
    async with Node(MemoryStore(), debug=True) as node:
        expected = await EmbeddedClient(node).request(requests)
    assert await client.request(requests) == expected


def test_every_kind_has_a_ruling_on_repetition() -> None:
    never = {
        "task.create",
        "task.claim",
        "task.release",
        "task.fulfill",
        "task.fail",
        "task.snooze",
        "task.suspend",
        "task.continue",
        "schedule.delete",
        "schedule.trigger",
        "debug.start",
        "debug.stop",
        "debug.reset",
        "debug.tick",
    }
    assert repeatable_kinds | never == KINDS.keys()
    assert not repeatable_kinds & never
