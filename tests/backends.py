"""Every store behind one door: plain dictionaries in, plain dictionaries out, no network.

A backend is a real node in debug mode on a real store. It runs on an event loop of its own, so that
tests which drive the clock by hand can be plain functions.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from holdfast.node import Node
from holdfast.node.rpc import answer
from holdfast.store.interface import Store
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import SqliteStore

BACKENDS = ("memory", "sqlite")

Body = dict[str, Any] | list[dict[str, Any]]


class NodeBackend:
    """Close it when done; its files go with it."""

    def __init__(self, name: str, *, debug: bool = True) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self._runner = asyncio.Runner()
        self._node = self._runner.run(self._start(open_test_store(name, Path(self._folder.name)), debug))

    async def _start(self, store: Store, debug: bool) -> Node:
        node = Node(store, debug=debug)
        await node.start()
        return node

    def handle_bytes(self, body: bytes) -> bytes:
        return self._runner.run(answer(self._node, body))

    def handle(self, body: Body) -> Any:
        return json.loads(self.handle_bytes(json.dumps(body).encode()))

    def close(self) -> None:
        self._runner.run(self._node.stop())
        self._runner.close()
        self._folder.cleanup()


def open_backend(name: str, *, debug: bool = True) -> NodeBackend:
    return NodeBackend(name, debug=debug)


def open_test_store(name: str, folder: Path) -> Store:
    if name == "memory":
        return MemoryStore()
    assert name == "sqlite", f"no backend {name!r}"
    return SqliteStore(folder / "holdfast.db")
