"""The addresses of the nodes, which one to use next, and how long to wait before trying again."""

from collections.abc import Sequence
from random import Random
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.client.errors import InvalidToken, InvalidUrl
from holdfast.protocol.text import hide_password

rest_s_min: Final = 0.05
rest_s_max: Final = 5.0
hop_s_max: Final = 0.02  # between two different nodes there is no need to wait


class Endpoint(Struct, frozen=True):
    """One node's address."""

    host: str
    port: int
    tls: bool
    path: str  # of the base URL, without a slash at its end

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.path}"


def parse_endpoint(url: str) -> Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidUrl(f"{hide_password(url)!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise InvalidUrl(f"{hide_password(url)!r} is not the address of a server")
    if not parts.path.isascii() or any(character.isspace() for character in url):
        raise InvalidUrl(f"{hide_password(url)!r} contains characters that a URL cannot have")
    tls = parts.scheme == "https"
    return Endpoint(host, port or (443 if tls else 80), tls, parts.path.rstrip("/"))


class EndpointTurn:
    """A turn through the endpoints: the current one until it fails, then the next.

    The rests grow once every endpoint has failed, with jitter, so that many clients of one node that comes
    back do not all arrive at once.
    """

    def __init__(self, endpoints: Sequence[Endpoint], chance: Random) -> None:
        assert endpoints
        self._endpoints = endpoints
        self._chance = chance
        self._index = chance.randrange(len(endpoints))
        self._failures = 0

    @property
    def current(self) -> Endpoint:
        return self._endpoints[self._index]

    @property
    def rounds(self) -> int:
        """How often every endpoint has failed since one last worked."""
        return self._failures // len(self._endpoints)

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> float:
        """Turn to the next endpoint; the seconds to rest before using it."""
        self._failures += 1
        self._index = (self._index + 1) % len(self._endpoints)
        if self._failures % len(self._endpoints):
            return self._chance.uniform(0, hop_s_max)
        return growing_rest(self.rounds, self._chance)


def growing_rest(attempt: int, chance: Random) -> float:
    """Seconds to rest after the n-th failure: doubling, bounded, somewhere in the upper half."""
    longest = min(rest_s_max, rest_s_min * 2 ** min(attempt - 1, 20))
    return chance.uniform(longest / 2, longest)


def check_token(token: str | None) -> None:
    """A token is part of a header: it may hold nothing that ends one."""
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise InvalidToken("The token contains characters that cannot be sent")
