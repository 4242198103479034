"""A caller without any of our client code: JSON over one HTTP connection, as another language would do it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from holdfast.protocol.requests import Request
from tests.server.http import Connection, envelope


class RawClient:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def request(self, requests: Sequence[Request]) -> list[Any]:
        [request] = requests
        body = envelope(request.kind, msgspec.to_builtins(request.data), corr_id=request.corr_id)
        answer = await self._connection.request(
            "POST", "/", msgspec.json.encode(body), {"content-type": "application/json"}
        )
        reply = answer.json
        data: Any = reply["data"]
        promise = data.get("promise") if isinstance(data, dict) else None  # pyright: ignore
        return [SimpleNamespace(status=reply["head"]["status"], data=_shown(promise))]

    async def close(self) -> None:
        self._connection.close()


def _shown(promise: Any) -> Any:
    if promise is None:
        return None
    value = SimpleNamespace(data=promise["value"].get("data"))
    return SimpleNamespace(promise=SimpleNamespace(state=promise["state"], value=value))
