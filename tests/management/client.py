"""Asking the management API the way curl does."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from tests.server.http import Answer, Connection


class Api:
    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.token = token

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        connection = await Connection.open(self.url)
        headers = dict(headers or {})
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        target = f"/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            return await connection.request(method, target, data, headers)
        finally:
            connection.writer.close()

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.call("GET", path, **query)
        assert answer.status == 200, answer.body
        return answer.json

    async def post(self, path: str, body: Any = None) -> Any:
        answer = await self.call("POST", path, body)
        assert answer.status == 200, answer.body
        return answer.json

    async def refused(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, str]:
        """Status and code; every refusal says what happened and what to do."""
        answer = await self.call(method, path, body, **query)
        found = answer.json
        assert found["error"]
        assert found["hint"], found
        return answer.status, found["code"]


def escaped(record_id: str) -> str:
    return quote(record_id, safe="")
