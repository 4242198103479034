"""`/v1/tickets`: how a browser's EventSource, which can send no header, shows whom it acts for.

A ticket is a text for the query (`?ticket=...`). It names one path, the prefix of the token that asked for
it and an instant, and is signed.

1. It admits to the events of that path and to nothing else: it changes nothing, and reads nothing besides.
2. It covers no more than the token that asked for it, and ends no later than that. It may be used again
   until it ends, because a browser connects again by itself.
3. Nothing is kept of it. Nodes with the same `ticket_key` accept each other's; without a key each start of
   a node has one of its own.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from holdfast.protocol.records import Millis
from holdfast.server.errors import BadManagementRequest, Unauthenticated
from holdfast.server.grants import Grant
from holdfast.server.management.call import Call, Json

default_s: Final = 600
seconds_max: Final = 3_600


class StreamTicket(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    path: list[str]
    prefix: str
    until: Millis


class TicketSigner:
    def __init__(self, key: str) -> None:
        secret = key.encode() if key else secrets.token_bytes(32)
        self._key = hashlib.sha256(b"holdfast ticket\n" + secret).digest()

    def sign(self, path: Sequence[str], prefix: str, until: Millis) -> str:
        text = msgspec.json.encode(StreamTicket([*path], prefix, until))
        return f"{_encode(text)}.{_encode(self._signature(text))}"

    def check(self, ticket: str, path: Sequence[str], now: Millis) -> Grant:
        """What whoever shows it at this path may see. Raises `Unauthenticated`."""
        text, _, signature = ticket.partition(".")
        try:
            said, signed = _decode(text), _decode(signature)
        except (ValueError, binascii.Error):
            raise Unauthenticated("The ticket cannot be read") from None
        if not hmac.compare_digest(signed, self._signature(said)):
            raise Unauthenticated("The ticket was not signed by this server")
        found = msgspec.json.decode(said, type=StreamTicket)
        if found.path != [*path]:
            raise Unauthenticated("The ticket is for another path")
        if found.until <= now:
            raise Unauthenticated("The ticket has expired")
        return Grant(found.prefix)

    def _signature(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")


async def give(call: Call) -> Json:
    """For the events of one path; `seconds` is how long it can be used."""
    path = call.field("path", str) or ""
    parts = [unquote(part) for part in path.partition("?")[0].split("/") if part]
    if not call.services.has_events(parts):
        raise BadManagementRequest(f"There are no events at the path {path[:80]!r}")
    seconds = call.field("seconds", int, default_s)
    if not 0 < seconds <= seconds_max:
        raise BadManagementRequest(f"seconds must be from 1 to {seconds_max}")
    until = call.now() + seconds * 1_000
    if (token_ends := call.services.holds_until(call.headers)) is not None:
        until = min(until, token_ends)
    return {"ticket": call.services.sign(parts, call.grant.prefix, until), "until": until}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
