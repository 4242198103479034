"""The few ASGI shapes the server uses: reading a body, sending a whole answer."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.protocol.errors import Refusal

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]
Headers = list[Header]
Answer = tuple[int, bytes, Headers]

extension: Final = "holdfast.connection"  # of a scope: the connection that the request came on
json_type: Final = (b"content-type", b"application/json")
retry_after: Final = (b"retry-after", b"1")
retryable_statuses: Final = (429, 503)


class Disconnected(Exception):
    """The client went away before its request was complete."""


async def read_body(receive: Receive, bytes_max: int) -> bytes:
    """The whole body; of one that is larger than `bytes_max`, enough to see that."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        parts, size = [body], len(body)
        while message.get("more_body", False):
            if size > bytes_max:
                break
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise Disconnected
    return body


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def respond_json(send: Send, status: int, value: Any, *headers: Header) -> None:
    await respond(send, status, msgspec.json.encode(value), [json_type, *headers])


async def respond_refusal(send: Send, refusal: Refusal, *headers: Header) -> None:
    await respond(
        send, refusal.status, refusal_body(refusal), [json_type, *refusal_headers(refusal), *headers]
    )


def refusal_body(refusal: Refusal) -> bytes:
    return msgspec.json.encode({"error": str(refusal), "code": refusal.code})


def refusal_headers(refusal: Refusal) -> Headers:
    headers: Headers = []
    if refusal.status in retryable_statuses:
        headers.append(retry_after)
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status in (408, 413, 431):
        headers.append((b"connection", b"close"))  # the rest of the request is not worth reading
    return headers


def header(headers: Headers, name: bytes) -> bytes | None:
    """The value of a header; when it was sent twice, the first."""
    for key, value in headers:
        if key == name:
            return value
    return None
