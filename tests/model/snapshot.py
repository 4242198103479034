"""A snapshot (the data of `debug.snap`) indexed for the invariants: each list as a map by its key.

Owns only the reading. When a list holds a key twice, the key is remembered in `twice` with the list's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

DELIVERABLE = re.compile(r"poll://any@[^/@]+(/.+)?|poll://uni@[^/@]+/.+|https?://[^/\s]+\S*", re.DOTALL)
OFFERS = ("execute", "invoke", "resume")


class Snapshot:
    """The indexed view of one `debug.snap`; treat it as frozen."""

    def __init__(self, snap: Json) -> None:
        self.snap = snap
        self.twice: list[tuple[str, Any]] = []
        self.promises: dict[str, Json] = self._index("promises", ((p["id"], p) for p in snap["promises"]))
        self.tasks: dict[str, Json] = self._index("tasks", ((t["id"], t) for t in snap["tasks"]))
        self.schedules: dict[str, Json] = self._index("schedules", ((s["id"], s) for s in snap["schedules"]))
        self.deadlines: dict[str, int] = self._index(
            "promiseTimeouts", ((row["id"], row["timeout"]) for row in snap["promiseTimeouts"])
        )
        self.callbacks: dict[tuple[str, str], Json] = self._index(
            "callbacks", (((row["awaited"], row["awaiter"]), row) for row in snap["callbacks"])
        )
        self.listeners: dict[tuple[str, str], Json] = self._index(
            "listeners", (((row["id"], row["address"]), row) for row in snap["listeners"])
        )
        self.streams: dict[str, Json] = self._index(
            "streams", ((r["id"], r) for r in snap.get("streams", ()))
        )
        self.retries: dict[str, int] = self._timeouts(0)
        self.leases: dict[str, int] = self._timeouts(1)
        self.offers: dict[str, Json] = {}
        self.notices: dict[tuple[str, str], Json] = {}
        for entry in snap["messages"]:
            data = entry["message"]["data"]
            if entry["message"]["kind"] in OFFERS:
                self._put("messages", self.offers, data["task"]["id"], entry)
            else:
                self._put("messages", self.notices, (data["promise"]["id"], entry["address"]), entry)

    def _index(self, name: str, rows: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, row in rows:
            self._put(name, found, key, row)
        return found

    def _timeouts(self, kind: int) -> dict[str, int]:
        rows = self.snap["taskTimeouts"]
        return self._index("taskTimeouts", ((r["id"], r["timeout"]) for r in rows if r["type"] == kind))

    def _put(self, name: str, found: dict[Any, Any], key: Any, row: Any) -> None:
        if key in found:
            self.twice.append((name, key))
        found[key] = row

    def live(self, promise_id: str, now: int) -> bool:
        """Pending in the view at `now`."""
        promise = self.promises.get(promise_id)
        return promise is not None and promise["state"] == "pending" and now < promise["timeoutAt"]


def is_timer(promise: Json) -> bool:
    return bool(promise["tags"].get("resonate:timer") == "true")


def state_at_timeout(promise: Json) -> str:
    return "resolved" if is_timer(promise) else "rejected_timedout"


def is_empty(payload: Json) -> bool:
    """The generation in which an execution settled is no payload."""
    headers = set(payload.get("headers") or ()) - {"holdfast:generation"}
    return not headers and not payload.get("data")


def same_record(left: Json, right: Json) -> bool:
    """Equal promise records, whichever dialect each is written in."""
    return _plain(left) == _plain(right)


def _plain(promise: Json) -> Json:
    plain = dict(promise)
    for name in ("param", "value"):
        plain[name] = {key: entry for key, entry in promise[name].items() if entry}
    return plain


def target(promise: Json) -> str | None:
    tags: dict[str, str] = promise["tags"]
    return tags.get("resonate:target")


def possible_target(promise: Json) -> str | None:
    """The target, or the tag that stands for it if the promise was created in dialect B."""
    tags: dict[str, str] = promise["tags"]
    return tags.get("resonate:target") or tags.get("resonate:invoke")
