"""Callers that write as fast as they can and remember what they were told.

Each round trip is an array of a create with a target and a create with a value, then a settlement. A reply of
200 is an acknowledgement; anything else, and no reply at all, is an unknown outcome, and claims nothing.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from tests.chaos.processes import Node

VERSION = "2026-04-01"
FAR = 2**52


def envelope(kind: str, data: dict[str, Any], corr_id: str = "c") -> dict[str, Any]:
    return {"kind": kind, "head": {"corrId": corr_id, "version": VERSION}, "data": data}


def post(node: Node, body: Any, timeout_s: float = 5.0) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=timeout_s)
    try:
        connection.request("POST", "/", json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


class Scribe:
    def __init__(self, nodes: Sequence[Node], writers: int = 2) -> None:
        self._nodes = nodes
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(index,), daemon=True) for index in range(writers)
        ]
        self._busy = [0.0] * writers  # since when a request is under way
        self.created: list[str] = []
        self.settled: list[str] = []
        self.unknown = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    @property
    def in_flight(self) -> int:
        return sum(since > 0 for since in self._busy)

    def _write(self, index: int) -> None:
        connection: http.client.HTTPConnection | None = None
        number = turn = 0
        while not self._stop.is_set():
            node = self._nodes[(index + turn) % len(self._nodes)]
            connection = connection or http.client.HTTPConnection("127.0.0.1", node.port, timeout=3)
            name = f"w{index}-{number}"
            number += 1
            self._busy[index] = time.monotonic()
            try:
                self._round(connection, name)
            except (OSError, http.client.HTTPException):
                self.unknown += 1
                connection.close()
                connection = None
                turn += 1
                time.sleep(0.02)
            finally:
                self._busy[index] = 0.0
            time.sleep(0.004)  # load, not a flood: the machine must have room for the faults
        if connection is not None:
            connection.close()

    def _round(self, connection: http.client.HTTPConnection, name: str) -> None:
        pair = [
            envelope("promise.create", {"id": f"{name}.a", "timeoutAt": FAR, "param": {}, "tags": {}}),
            envelope(
                "promise.create",
                {
                    "id": f"{name}.b",
                    "timeoutAt": FAR,
                    "param": {},
                    "tags": {"resonate:target": "poll://any@nobody"},
                },
            ),
        ]
        if _statuses(connection, pair) == [200, 200]:
            self.created.append(name)
        else:
            self.unknown += 1
        value = {"data": "RE9ORQ=="}
        settle = envelope("promise.settle", {"id": f"{name}.a", "state": "resolved", "value": value})
        if _statuses(connection, [settle]) == [200]:
            self.settled.append(name)

    # --- the other side --------------------------------------------------------------------------------

    def lost(self, states: dict[str, str]) -> list[str]:
        """What was acknowledged and is not stored."""
        missing = [name for name in [*self.created] if f"{name}.a" not in states or f"{name}.b" not in states]
        return missing + [name for name in [*self.settled] if states.get(f"{name}.a") != "resolved"]

    def halves(self, states: dict[str, str]) -> list[str]:
        """Arrays of which one part is stored and the other is not."""
        names = {promise_id[:-2] for promise_id in states if promise_id.startswith("w") and "-" in promise_id}
        return [name for name in names if (f"{name}.a" in states) != (f"{name}.b" in states)]


def _statuses(connection: http.client.HTTPConnection, body: list[Any]) -> list[int]:
    connection.request("POST", "/", json.dumps(body), {"Content-Type": "application/json"})
    answer: Any = json.loads(connection.getresponse().read())
    items: list[Any] = [answer] if isinstance(answer, dict) else answer  # one, if it was refused as a whole
    return [int(item["head"]["status"]) for item in items]
