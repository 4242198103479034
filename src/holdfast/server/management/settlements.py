"""Waits for promises on behalf of the readers of this node: one mailbox and one listener for all of them.

1. However many wait for a promise, it has one listener of this node.
2. Messages may be lost, so the listener is registered again every `listen_again_s`: its reply says whether
   the promise has settled meanwhile. What another process commits to the same file is looked for when it
   has.
3. Whoever waits learns that the promise has settled, not what it holds: he reads that with his own token.
"""

import asyncio
import secrets
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.node.node import Node
from holdfast.node.rpc import answer
from holdfast.protocol.address import READERS_GROUP
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.messages import Unblock
from holdfast.protocol.requests import PromiseRegisterListener

listen_again_s: Final = 15.0
looked_at_max: Final = 500  # in one transaction


class _Awaited:
    """One promise, and how many wait for it."""

    def __init__(self, listening: "asyncio.Task[None]") -> None:
        self.count = 0
        self.listening = listening
        self.settled = asyncio.Event()


class SettlementWaits:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._member = secrets.token_hex(8)
        self._awaited: dict[str, _Awaited] = {}
        self._receiving: asyncio.Task[None] | None = None

    async def wait(self, promise_id: str) -> None:
        """Until the promise is settled, or is gone."""
        if self._receiving is None:
            self._node.watch_foreign_writes(self._look)
            self._receiving = asyncio.create_task(self._receive())
        awaited = self._awaited.get(promise_id)
        if awaited is None:
            listening = asyncio.create_task(self._listen(promise_id))
            awaited = self._awaited[promise_id] = _Awaited(listening)
        awaited.count += 1
        try:
            await awaited.settled.wait()
        finally:
            awaited.count -= 1
            if not awaited.count:
                awaited.listening.cancel()
                if self._awaited.get(promise_id) is awaited:
                    del self._awaited[promise_id]

    def stop(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()

    def _tell(self, promise_id: str) -> None:
        awaited = self._awaited.pop(promise_id, None)
        if awaited is not None:
            awaited.settled.set()

    async def _receive(self) -> None:
        mailbox = self._node.connect(READERS_GROUP, self._member)
        try:
            while messages := await mailbox.receive():
                for message in messages:
                    if isinstance(message, Unblock):
                        self._tell(message.promise.id)
        finally:
            mailbox.close()

    async def _listen(self, promise_id: str) -> None:
        address = f"poll://uni@{READERS_GROUP}/{self._member}"
        envelope = msgspec.json.encode(
            {
                "kind": "promise.register_listener",
                "head": {"corrId": "v1", "version": CURRENT_VERSION},
                "data": PromiseRegisterListener(promise_id, address),
            }
        )
        while True:
            with suppress(Exception):  # the store may be away for a while
                reply = msgspec.json.decode(await answer(self._node, envelope))
                status = reply["head"]["status"]
                if status == 404 or (status == 200 and reply["data"]["promise"]["state"] != "pending"):
                    self._tell(promise_id)
                    return
            await asyncio.sleep(listen_again_s)

    async def _look(self) -> None:
        """Somebody else has written to our store, and told nobody."""
        awaited = [*self._awaited]
        for start in range(0, len(awaited), looked_at_max):
            ids = awaited[start : start + looked_at_max]
            found = {promise.id: promise.state for promise in await self._node.find_promises(ids)}
            for promise_id in ids:
                if found.get(promise_id) != "pending":
                    self._tell(promise_id)
