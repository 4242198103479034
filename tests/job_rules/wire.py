"""The test client in the words of background tasks. Queue `mail`, worker `w`, a lease of one minute."""

from __future__ import annotations

import json
from typing import Any, cast

from tests.conformance.wire import FAR, MINUTE, Answer, Json, Wire, creation

QUEUE = "poll://any@queue.mail"
GROUP = "queue.mail"


def job_creation(
    name: str,
    *,
    queue: str = "mail",
    delay: int | None = None,
    priority: int | None = None,
    timeout_at: int = FAR,
    tags: Json | None = None,
    param: Json | None = None,
    **spec: Any,
) -> Json:
    """The data of a `promise.create` that makes a job."""
    entries: Json = {"holdfast:job": json.dumps(spec), **(tags or {})}
    if delay is not None:
        entries["resonate:delay"] = str(delay)
    if priority is not None:
        entries["holdfast:priority"] = str(priority)
    target = f"poll://any@queue.{queue}"
    return creation(name, timeout_at=timeout_at, target=target, tags=entries) | {"param": param or {}}


class JobWire(Wire):
    def enqueue(self, name: str = "j", **more: Any) -> Answer:
        """Send a job."""
        return self.send("promise.create", job_creation(name, **more))

    def job(self, name: str = "j") -> Json:
        return cast(Json, self.task(name)["job"])

    def status(self, name: str = "j") -> str:
        return cast(str, self.job(name)["status"])

    def take(
        self,
        count: int = 1,
        *,
        queue: str = "mail",
        pid: str = "w",
        ttl: int = MINUTE,
        start: bool = False,
        ceiling: int | None = None,
    ) -> list[str]:
        """Claim; the ids that were granted."""
        return [
            item["task"]["id"] for item in self.take_all(count, queue, pid, ttl, start, ceiling).data["tasks"]
        ]

    def take_all(
        self,
        count: int = 1,
        queue: str = "mail",
        pid: str = "w",
        ttl: int = MINUTE,
        start: bool = False,
        ceiling: int | None = None,
    ) -> Answer:
        data: Json = {"groups": [f"queue.{queue}"], "count": count, "pid": pid, "ttl": ttl, "start": start}
        if ceiling is not None:
            data["ceiling"] = ceiling
        answer = self.send("task.claim", data)
        assert answer.status == 200, answer
        return answer

    def claimed(self, name: str = "j", **more: Any) -> None:
        """A job that `w` has claimed: version 1, not started."""
        assert self.enqueue(name, **more).status == 200
        assert self.take() == [name]

    def running(self, name: str = "j", **more: Any) -> None:
        """A job that `w` runs: version 1, started."""
        assert self.enqueue(name, **more).status == 200
        assert self.take(start=True) == [name]

    def fail(self, name: str = "j", version: int = 1, code: str = "BROKEN", **more: Any) -> Answer:
        return self.send("task.fail", {"id": name, "version": version, "code": code, **more})

    def cancel(self, name: str = "j", **more: Any) -> Answer:
        return self.send("task.cancel", {"id": name, **more})

    def queue(self, name: str = "mail") -> Json:
        return cast(Json, self.send("queue.get", {"name": name}).data["queue"])

    def limit(self, name: str = "mail", **limits: Any) -> Json:
        answer = self.send("queue.set", {"name": name, **limits})
        assert answer.status == 200, answer
        return cast(Json, answer.data["queue"])

    def pause(self, name: str = "mail", *, paused: bool = True) -> Json:
        answer = self.send("queue.pause", {"name": name, "paused": paused})
        assert answer.status == 200, answer
        return cast(Json, answer.data["queue"])
