"""Every store behind one door: plain dictionaries in, plain dictionaries out, no network.

A backend is a real node in debug mode on a real store. It runs on an event loop of its own, so that
tests which drive the clock by hand can be plain functions.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine import Rules
from holdfast.node import Node
from holdfast.node.group import Moment, run_group
from holdfast.node.post_office import PostOffice
from holdfast.node.rpc import answer, reply_to
from holdfast.protocol.requests import DebugReset, Request
from holdfast.protocol.wire import decode_body, encode_replies, encode_reply
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import SqliteFile, SqliteStore

BACKENDS = ("memory", "sqlite")

Body = dict[str, Any] | list[dict[str, Any]]


class NodeBackend:
    """A node on its own event loop. Close it when done; its files go with it."""

    def __init__(self, name: str, *, debug: bool = True) -> None:
        self._folder = scratch_folder()
        self._loop = asyncio.new_event_loop()
        self._node = self._loop.run_until_complete(self._start(name, debug))

    async def _start(self, name: str, debug: bool) -> Node:
        path = Path(self._folder.name) / "holdfast.db"
        node = Node(MemoryStore() if name == "memory" else SqliteStore(path), debug=debug)
        await node.start()
        return node

    def handle_bytes(self, body: bytes) -> bytes:
        return self._loop.run_until_complete(answer(self._node, body))

    def handle(self, body: Body) -> Any:
        return json.loads(self.handle_bytes(json.dumps(body).encode()))

    def close(self) -> None:
        self._loop.run_until_complete(self._node.stop())
        self._loop.close()
        self._folder.cleanup()


class DirectBackend:
    """The work of a commit on a store, without an event loop: for millions of operations.

    As in a node that was told to debug.start, messages wait and nothing is swept but by debug.tick.
    """

    def __init__(self, name: str) -> None:
        self._folder = scratch_folder()
        self._memory = MemoryStore()
        self._file = None if name == "memory" else SqliteFile(Path(self._folder.name) / "holdfast.db")
        if self._file is not None:
            self._file.open()
        self._office = PostOffice()
        self._office.pause()

    def handle(self, body: Body) -> Any:
        decoded = decode_body(msgspec.json.encode(body))
        items = decoded if isinstance(decoded, list) else [decoded]
        requests = [item for item in items if isinstance(item, Request)]
        moment = Moment(0, Rules(), debug=True, waiting=self._office.waiting)
        run = self._memory.run if self._file is None else self._file.run
        outcome = run(lambda: run_group(requests, moment))
        if any(isinstance(request.data, DebugReset) for request in requests):
            self._office.clear()
        self._office.deliver(outcome.messages)
        replies = iter(outcome.replies)
        envelopes = [reply_to(item, replies) for item in items]
        if isinstance(decoded, list):
            return msgspec.json.decode(encode_replies(envelopes))
        return msgspec.json.decode(encode_reply(envelopes[0]))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._folder.cleanup()


def open_backend(name: str, *, debug: bool = True) -> NodeBackend:
    return NodeBackend(name, debug=debug)


def open_direct_backend(name: str) -> DirectBackend:
    return DirectBackend(name)


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """In memory where the machine offers it: these tests check rules, others check the disk."""
    shm = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="holdfast-", dir=shm if shm.is_dir() else None)
