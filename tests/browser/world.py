"""A real server with real workers for the browser to look at, each in a process of its own.

Everything that a test starts or reads beside the browser goes through `/v1`, as curl would do it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tests.processes import Server, environment, eventually

ROOT = Path(__file__).parent.parent.parent
patience_s = 60.0


class StoreServer(Server):
    """`holdfast serve` on any store."""

    def __init__(self, directory: Path, store: str, *flags: str) -> None:
        super().__init__(directory, *flags)
        self._command = ["serve", *flags, "--store", store]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


class World:
    """`flags` are of the server. `get` and `post` are curl."""

    def __init__(self, directory: Path, store: str, *flags: str, token: str | None = None) -> None:
        self.directory = directory
        self.server = StoreServer(directory, store, *flags)
        self.token = token
        self._workers: list[subprocess.Popen[bytes]] = []
        self._connection: HTTPConnection | None = None

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def console(self) -> str:
        return f"{self.server.url}/console/"

    # --- processes -------------------------------------------------------------------------------------

    def start(self, workers: int = 1) -> None:
        self.server.start()
        for _ in range(workers):
            self.start_worker()

    def start_worker(self, lease_s: float = 20.0) -> subprocess.Popen[bytes]:
        extra = {"HOLDFAST_URL": self.url, "PYTHONPATH": str(ROOT), "SHOP_LEASE_S": str(lease_s)}
        if self.token is not None:
            extra["HOLDFAST_TOKEN"] = self.token
        with (self.directory / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "worker", "tests.browser.shop:app"],
                stdout=log,
                stderr=log,
                env=environment(extra),
                cwd=self.directory,
            )
        self._workers.append(worker)
        return worker

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """As a power cut would."""
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self._workers.remove(worker)

    def stop(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._workers.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.server.stop()

    # --- the management API ----------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        target = f"/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        headers = {"content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        status, said = self._send(method, target, data, headers)
        if status != 200:
            raise AssertionError(f"{method} {path}: {status} {said.decode()}")
        return json.loads(said)

    def _send(self, method: str, target: str, data: bytes | None, headers: Any) -> tuple[int, bytes]:
        """On the connection of the last request, unless the server has closed that since."""
        kept, self._connection = self._connection, None
        for connection in (kept, HTTPConnection(urlsplit(self.url).netloc, timeout=60)):
            if connection is None:
                continue
            try:
                connection.request(method, target, data, headers)
                answer = connection.getresponse()
                said = answer.status, answer.read()
            except (HTTPException, ConnectionError):
                connection.close()
                if connection is not kept:
                    raise
            else:
                self._connection = connection
                return said
        raise AssertionError("a fresh connection answers or raises")

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, body or {})

    def create_promise(self, id: str, tags: dict[str, str]) -> None:  # noqa: A002
        """As any SDK does it."""
        data = {"id": id, "timeoutAt": 4_102_444_800_000, "param": {}, "tags": tags}
        head = {"corrId": id, "version": "2026-04-01"}
        body = json.dumps({"kind": "promise.create", "head": head, "data": data}).encode()
        status, said = self._send("POST", "/", body, {"content-type": "application/json"})
        assert status == 200, said

    def start_execution(self, workflow: str, *args: Any, id: str, **more: Any) -> str:  # noqa: A002
        self.post("executions", {"workflow": workflow, "args": list(args), "id": id, **more})
        return id

    def status(self, id: str) -> str:  # noqa: A002
        found: str = self.get(f"executions/{quote(id, safe='')}")["status"]
        return found

    def until(self, id: str, *statuses: str) -> None:  # noqa: A002
        eventually(lambda: self.status(id) in statuses, patience_s)

    def until_true(self, look: Callable[[], Any]) -> Any:
        return eventually(look, patience_s)


@contextmanager
def world(directory: Path, store: str, *flags: str, workers: int = 1) -> Iterator[World]:
    made = World(directory, store, *flags)
    try:
        made.start(workers)
        yield made
    finally:
        made.stop()


def store_url(name: str, directory: Path) -> str:
    if name == "sqlite":
        return f"sqlite:///{directory / 'holdfast.db'}"
    from tests.postgres import database_url

    return database_url()


def is_wanted() -> bool:
    return bool(os.environ.get("HOLDFAST_BROWSER"))
