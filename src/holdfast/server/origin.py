"""Checks the origin that browsers send, against web pages that call a server on the reader's own machine.

1. A request with an Origin that is not allowed is refused, whatever it asks for. The server's own pages (the
   console) are allowed: their Origin is the Host that was asked, or `public_url`.
2. On a loopback address only loopback names are accepted as Host, so that a foreign name which resolves
   to this machine (DNS rebinding) leads nowhere.
3. Of two Host headers, one might be checked and the other believed: such a request is refused.
   So where nobody needs a token, and the address is not a loopback one, such a page is not our own either,
   unless it was asked for by an address in numbers or a name in `allowed_hosts`.
4. Files that are the same for everybody (those of the console) are given to any page. Browsers send an Origin
   with modules, and behind a proxy that changes Host it is not known as our own: the page shall open and say
   what to set, and not stay blank.
5. There are no cookies, so there are no credentials that a browser would add by itself.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from holdfast.server.asgi import Headers, header
from holdfast.server.errors import BadHttp, ForeignHost, ForeignOrigin
from holdfast.server.settings import Settings

shown_max: Final = 100  # characters of an origin or host in a refusal


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Without its port."""
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host


def _is_address(name: str) -> bool:
    """In numbers: no name that somebody could let lead here."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _shown(value: bytes) -> str:
    return ascii(value.decode("latin-1")[:shown_max])


class Visitors:
    def __init__(self, settings: Settings) -> None:
        self._origins = {origin.rstrip("/").encode() for origin in settings.allowed_origins}
        self._guards_host = is_loopback(settings.host)
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        self._known_hosts: set[bytes] = set()
        self._asks_for_tokens = bool(settings.tokens or settings.token_file or settings.jwt_key)
        public = urlsplit(settings.public_url)
        self._public = f"{public.scheme}://{public.netloc}".encode() if public.netloc else b""

    @property
    def answers_preflight(self) -> bool:
        return bool(self._origins)

    def admit(self, headers: Headers, *, is_file: bool = False) -> Headers:
        """Refuse, or answer with the headers that the reply must carry. `is_file`: rule 4."""
        origin = host = None
        for name, value in headers:
            if name == b"origin":
                origin = value
            elif name == b"host":
                if host is not None:
                    raise BadHttp("The request has more than one Host header")
                host = value
        if self._guards_host and host is not None and host not in self._known_hosts:
            self._check_host(host)
        if origin is None:
            return []
        if origin not in self._origins:
            if is_file or self._is_own(origin, host):
                return []
            raise ForeignOrigin(self._why(origin, host))
        return self._cors(origin, header(headers, b"access-control-request-method") is not None)

    def _is_own(self, origin: bytes, host: bytes | None) -> bool:
        if self._public and origin == self._public:
            return True
        scheme, _, authority = origin.partition(b"://")
        if host is None or authority.lower() != host.lower() or scheme not in (b"http", b"https"):
            return False
        if self._guards_host or self._asks_for_tokens:
            return True
        name = _name_of(host.decode("latin-1").lower())
        return name in self._hosts or _is_address(name)

    def _why(self, origin: bytes, host: bytes | None) -> str:
        """Both sides: whoever set up a proxy sees which of them is not what he thought."""
        page, asked = _shown(origin), "no host" if host is None else _shown(host)
        if host is not None and origin.partition(b"://")[2].lower() == host.lower():
            return (
                f"A page of {page} may not call this server: it asks for no token, so it trusts no page "
                "under a name that is not in allowed_hosts"
            )
        return f"A page of {page} may not call this server, which was asked as {asked}"

    def _check_host(self, value: bytes) -> None:
        host = value.decode("latin-1").lower()
        name = _name_of(host)
        if not is_loopback(name) and name not in self._hosts and host not in self._hosts:
            raise ForeignHost("This server does not answer to that host name")
        if len(self._known_hosts) < 100:
            self._known_hosts.add(value)

    def _cors(self, origin: bytes, preflight: bool) -> Headers:
        headers = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        if preflight:
            headers += [
                (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
                (
                    b"access-control-allow-headers",
                    b"authorization, content-type, idempotency-key, last-event-id",
                ),
                (b"access-control-max-age", b"600"),
            ]
        return headers
