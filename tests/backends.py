"""Every store behind one door: plain dictionaries in, plain dictionaries out, no network.

A backend is a real node in debug mode on a real store. It runs on an event loop of its own, so that
tests which drive the clock by hand can be plain functions.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.engine import Rules
from holdfast.node import Node
from holdfast.node.group import CommitContext, run_group
from holdfast.node.message_router import MessageRouter
from holdfast.node.rpc import answer, answer_all, reply_to
from holdfast.protocol.records import Millis
from holdfast.protocol.requests import DebugReset, Request
from holdfast.protocol.wire import RefusedRequest, decode_body, encode_replies, encode_reply
from holdfast.store.interface import Result, Store, SyncStore, Work
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteFile, SqliteStore
from tests.postgres import database_url

BACKENDS = ("memory", "sqlite", "postgres")

Body = dict[str, Any] | list[dict[str, Any]]


class NodeBackend:
    """A node on its own event loop. Close it when done; its files go with it."""

    def __init__(self, name: str, *, debug: bool = True) -> None:
        self._folder = scratch_folder()
        self._loop = asyncio.new_event_loop()
        self._node = self._loop.run_until_complete(self._start(name, debug))

    async def _start(self, name: str, debug: bool) -> Node:
        node = Node(self._open_store(name), debug=debug)
        await node.start()
        return node

    def _open_store(self, name: str) -> Store:
        match name:
            case "memory":
                return MemoryStore()
            case "sqlite":
                return SqliteStore(Path(self._folder.name) / "holdfast.db")
            case "postgres":
                return PostgresStore(database_url())
            case _:
                raise ValueError(f"there is no store {name!r}; there are {BACKENDS}")

    def handle_bytes(self, body: bytes) -> bytes:
        return self._loop.run_until_complete(answer(self._node, body))

    def handle_within(self, scope: str, body: Body) -> Any:
        """As a server asks for a caller whose token covers no more than a prefix."""
        item = with_scope(decode_body(json.dumps(body).encode()), scope)
        [envelope] = self._loop.run_until_complete(answer_all(self._node, [item]))
        return json.loads(encode_reply(envelope))

    def handle(self, body: Body) -> Any:
        return json.loads(self.handle_bytes(json.dumps(body).encode()))

    def close(self) -> None:
        self._loop.run_until_complete(self._node.stop())
        self._loop.close()
        self._folder.cleanup()


class MemorySyncStore(MemoryStore):
    """The memory store, for whoever may wait."""

    def open(self) -> Millis:  # type: ignore[override]
        return 0

    def close(self) -> None:  # type: ignore[override]
        pass


class AwaitedStore:
    """A store that must be awaited, on an event loop of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.new_event_loop()

    def open(self) -> Millis:
        return self._loop.run_until_complete(self._store.open())

    def run(self, work: Callable[[], Work[Result]]) -> Result:
        return self._loop.run_until_complete(self._store.transact(work))

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


class DirectBackend:
    """The work of a commit on a store, without an event loop: for millions of operations.

    As in a node that was told to debug.start, messages wait and nothing is swept but by debug.tick.
    """

    def __init__(self, name: str) -> None:
        self._folder = scratch_folder()
        match name:
            case "memory":
                self._store: SyncStore = MemorySyncStore()
            case "sqlite":
                self._store = SqliteFile(Path(self._folder.name) / "holdfast.db")
            case "postgres":
                self._store = AwaitedStore(PostgresStore(database_url()))
            case _:
                raise ValueError(f"there is no store {name!r}; there are {BACKENDS}")
        self._store.open()
        self._office = MessageRouter()
        self._office.pause()

    def handle_within(self, scope: str, body: Body) -> Any:
        return self._answer(with_scope(decode_body(msgspec.json.encode(body)), scope))

    def handle(self, body: Body) -> Any:
        return self._answer(decode_body(msgspec.json.encode(body)))

    def _answer(self, decoded: Request | RefusedRequest | list[Request | RefusedRequest]) -> Any:
        items = decoded if isinstance(decoded, list) else [decoded]
        requests = [item for item in items if isinstance(item, Request)]
        moment = CommitContext(0, Rules(), debug=True, waiting=self._office.waiting)
        outcome = self._store.run(lambda: run_group(requests, moment))
        if any(isinstance(request.data, DebugReset) for request in requests):
            self._office.clear()
        self._office.deliver(outcome.messages)
        replies = iter(outcome.replies)
        envelopes = [reply_to(item, replies) for item in items]
        if isinstance(decoded, list):
            return msgspec.json.decode(encode_replies(envelopes))
        return msgspec.json.decode(encode_reply(envelopes[0]))

    def close(self) -> None:
        self._store.close()
        self._folder.cleanup()


def with_scope(item: Request | RefusedRequest | list[Request | RefusedRequest], scope: str) -> Request:
    assert isinstance(item, Request)
    return replace(item, scope=scope)


def open_backend(name: str, *, debug: bool = True) -> NodeBackend:
    return NodeBackend(name, debug=debug)


def open_direct_backend(name: str) -> DirectBackend:
    return DirectBackend(name)


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """In memory where the machine offers it: these tests check rules, others check the disk."""
    shm = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="holdfast-", dir=shm if shm.is_dir() else None)
