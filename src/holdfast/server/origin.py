"""Checks the origin that browsers send, against web pages that call a server on the reader's own machine.

1. A request with an Origin that is not allowed is refused, whatever it asks for.
2. On a loopback address only loopback names are accepted as Host, so that a foreign name which resolves
   to this machine (DNS rebinding) leads nowhere.
3. Of two Host headers, one might be checked and the other believed: such a request is refused.
4. There are no cookies, so there are no credentials that a browser would add by itself.
"""

import ipaddress

from holdfast.server.asgi import Headers, header
from holdfast.server.errors import BadHttp, ForeignHost, ForeignOrigin
from holdfast.server.settings import Settings


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Visitors:
    def __init__(self, settings: Settings) -> None:
        self._origins = {origin.rstrip("/").encode() for origin in settings.allowed_origins}
        self._guards_host = is_loopback(settings.host)
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        self._known_hosts: set[bytes] = set()

    @property
    def answers_preflight(self) -> bool:
        return bool(self._origins)

    def admit(self, headers: Headers) -> Headers:
        """Refuse, or answer with the headers that the reply must carry."""
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
            raise ForeignOrigin("A page of this origin may not call this server")
        return self._cors(origin, header(headers, b"access-control-request-method") is not None)

    def _check_host(self, value: bytes) -> None:
        host = value.decode("latin-1").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if not is_loopback(name) and name not in self._hosts and host not in self._hosts:
            raise ForeignHost("This server does not answer to that host name")
        if len(self._known_hosts) < 100:
            self._known_hosts.add(value)

    def _cors(self, origin: bytes, preflight: bool) -> Headers:
        headers = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        if preflight:
            headers += [
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"authorization, content-type"),
                (b"access-control-max-age", b"600"),
            ]
        return headers
