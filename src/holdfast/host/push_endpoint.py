"""An ASGI application that takes pushed tasks: one request is one execution, from its claim to its next wait.

    server (server/push.py)                    this process
      POST {"kind": "execute", task} -------->  task.acquire by id and version
                                                the execution runs, heartbeats keep its lease
      200 {"outcome": "run"}         <--------  it has ended, or waits and was suspended

It owns the HTTP of this. Claiming, leases and running are those of any host: `Host.take`.

1. A push is an invitation: only the claim decides who runs the task. A forged or repeated one runs nothing
   that was not on offer, and nothing twice.
2. Where the message says to call back (`serverUrl`) is not believed: the app asks the node that it was given.
3. The run goes on if the caller stops waiting; whatever ends this process, the lease lapses and the task is
   pushed again.
4. With a token, nobody else is answered. A body is read up to `body_bytes_max`.
"""

import hmac
import logging
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.host.bridge import AppBridge
from holdfast.host.host import Taken
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.records import TaskRef
from holdfast.server.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    respond_json,
    retry_after,
)

log = logging.getLogger("holdfast.worker")

body_bytes_max: Final = 65_536


class _Data(Struct, frozen=True):
    task: TaskRef


class _Pushed(Struct, frozen=True):
    """A message, in either dialect; what else is in it does not matter."""

    kind: Literal["execute", "invoke", "resume"]
    data: _Data


_decode: Final = msgspec.json.Decoder(_Pushed).decode


class PushEndpoint:
    def __init__(
        self,
        bridge: AppBridge,
        lifespan: Callable[[], AbstractAsyncContextManager[None]],
        token: str | None = None,
    ) -> None:
        self._bridge = bridge
        self._lifespan = lifespan
        self._token = token or os.environ.get("HOLDFAST_PUSH_TOKEN") or None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            try:
                await self._serve(scope, receive, send)
            except Disconnected:
                return
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        """The app is open on the server's loop. Where a platform has no lifespan, the first push opens it."""
        await receive()
        try:
            lifespan = self._lifespan()
            await lifespan.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await lifespan.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_known(scope):
            await respond_json(send, 401, {"error": "The token is missing or wrong"})
            return
        if scope["method"] != "POST":
            await respond_json(send, 405, {"error": "Messages are posted"}, (b"allow", b"POST"))
            return
        body = await read_body(receive, body_bytes_max)
        if len(body) > body_bytes_max:
            await respond_json(send, 413, {"error": f"A message has at most {body_bytes_max:,} bytes"})
            return
        try:
            task = _decode(body).data.task
        except msgspec.DecodeError as error:
            await respond_json(send, 400, {"error": f"This is no message that asks to run a task: {error}"})
            return
        await self._run(task, send)

    async def _run(self, task: TaskRef, send: Send) -> None:
        try:
            taken = await self._bridge.bridge(self._take(task))
        except HoldfastError as error:  # the node cannot be reached, say: it will be pushed again
            log.warning("a pushed task could not be run: %s", error, extra={"code": error.code})
            await respond_json(send, 503, {"error": str(error), "code": error.code}, retry_after)
            return
        if taken == "full":
            await respond_json(send, 503, {"outcome": taken}, retry_after)
        else:
            await respond_json(send, 200, {"outcome": taken})

    async def _take(self, task: TaskRef) -> Taken:
        return await self._bridge.session.run_pushed(task)

    def _is_known(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        shown: Any = header(scope["headers"], b"authorization") or b""
        return hmac.compare_digest(shown, b"Bearer " + self._token.encode())
