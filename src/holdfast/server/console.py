"""Serves the web console: the static files of `holdfast/console`, as they stand in the package.

1. Only what has a known suffix is served, read once, and small enough to be kept (`console_bytes_max`).
2. `index.html` names every file below `@assets@`. That becomes `_/<digest of all files>`: what is below it
   never changes, so browsers keep it for good; another release has another digest.
3. The modules that the page and its list of executions need are named in it, so that a browser asks for all
   of them at once instead of finding out one by one who imports whom. What another view needs beyond them is
   named too, and `js/early.js` asks for that if the address names this view. Styles are one file.
4. Every reference is relative, so it works below any path behind a reverse proxy.
5. The policy allows scripts, styles and requests of this origin alone, and nothing inline. The one exception
   is an address of the operator's own that decodes payloads (`codec_url`).
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.server.asgi import Header, Headers, Receive, Scope, Send, header, respond
from holdfast.server.errors import NoSuchPath, SettingsError

package: Final = "holdfast.console"
console_bytes_max: Final = 8_388_608
assets_mark: Final = b"@assets@"
preload_mark: Final = b"@modulepreload@"
gzip_bytes_min: Final = 256
entries: Final = ("js/early.js", "js/main.js", "js/views/executions.js")
views: Final = "js/views/"
styles: Final = tuple(f"css/{name}.css" for name in ("tokens", "base", "layout", "kit", "views"))
all_styles: Final = "css/all.css"
_imported: Final = re.compile(rb"""^(?:import|export)\b[^;]*?from "(\.[^"]+)";$""", re.MULTILINE)

TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
    ".txt": b"text/plain; charset=utf-8",
    ".json": b"application/json",
    ".webmanifest": b"application/manifest+json",
}
PACKED: Final = (".png", ".ico", ".woff2")  # compressed already
FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
ASK_AGAIN: Final = (b"cache-control", b"no-cache")


class Asset(Struct, frozen=True):
    kind: bytes
    body: bytes
    packed: bytes | None
    tag: bytes


class Console:
    def __init__(self, codec_url: str = "", folder: Traversable | None = None) -> None:
        self._folder = folder
        self._assets: dict[str, Asset] | None = None
        self._digest = ""
        self._security = security_headers(codec_url)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.endswith("/console"):  # relative to where we are: a proxy may have put something in front
            await respond(send, 302, b"", [(b"location", b"console/"), *self._security])
            return
        inside = path.lstrip("/").removeprefix("console").lstrip("/")
        assets = self._load()
        forever = inside.startswith(f"_/{self._digest}/")
        asset = assets.get(inside.removeprefix(f"_/{self._digest}/") or "index.html")
        if asset is None or (forever and inside.endswith("index.html")):
            raise NoSuchPath("The console has no such file")
        headers: Headers = [(b"etag", asset.tag), FOREVER if forever else ASK_AGAIN, *self._security]
        headers.append((b"vary", b"accept-encoding"))
        if header(scope["headers"], b"if-none-match") == asset.tag:
            await respond(send, 304, b"", headers)
            return
        body = asset.body
        if asset.packed is not None and b"gzip" in (header(scope["headers"], b"accept-encoding") or b""):
            body = asset.packed
            headers.append((b"content-encoding", b"gzip"))
        headers.append((b"content-type", asset.kind))
        if scope["method"] == "HEAD":
            headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await respond(send, 200, body, headers)

    def _load(self) -> dict[str, Asset]:
        if self._assets is None:
            found = dict(_read(self._folder or files(package)))
            found[all_styles] = b"".join(found[path] for path in styles if path in found)
            if sum(map(len, found.values())) > console_bytes_max:
                raise NoSuchPath(f"The files of the console have more than {console_bytes_max} bytes")
            every = hashlib.sha256()
            for path, body in sorted(found.items()):
                every.update(f"{path} {len(body)} ".encode() + body)
            self._digest = every.hexdigest()[:16]
            if (index := found.get("index.html")) is not None:
                found["index.html"] = self._complete(index, found)
            self._assets = {path: _asset(path, body) for path, body in found.items()}
        return self._assets

    def _complete(self, index: bytes, found: dict[str, bytes]) -> bytes:
        below = f"_/{self._digest}".encode()
        first = _needed(found, entries)
        links = [f'<link rel="modulepreload" href="_/{self._digest}/{path}">' for path in first]
        for path in sorted(found):
            if path.startswith(views) and b"function view(" in found[path]:
                more = " ".join(each for each in _needed(found, [path]) if each not in first)
                links.append(f'<meta name="modules" data-view="{PurePosixPath(path).stem}" content="{more}">')
        return index.replace(preload_mark, "\n".join(links).encode()).replace(assets_mark, below)


def _needed(found: dict[str, bytes], paths: Sequence[str]) -> list[str]:
    """These modules and what they import, each once, those that are needed first in front."""
    needed = {path: None for path in paths if path in found}
    for path in (coming := [*needed]):
        for name in _imported.findall(found[path]):
            wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name.decode()))
            if wanted in found and wanted not in needed:
                needed[wanted] = None
                coming.append(wanted)
    return [*needed]


def security_headers(codec_url: str) -> list[Header]:
    policy = [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "manifest-src 'self'",
        f"connect-src 'self'{_origin_of(codec_url)}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
    return [
        (b"content-security-policy", "; ".join(policy).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"x-frame-options", b"DENY"),
    ]


def _origin_of(url: str) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    is_plain = url.isascii() and not any(sign in url for sign in " ;,'\"\r\n")
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise SettingsError(f"codec_url must be an http or https address, not {url[:80]!r}.")
    return f" {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _read(folder: Traversable, below: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir():
            found += _read(entry, f"{below}{entry.name}/")
        elif PurePosixPath(entry.name).suffix in TYPES:
            found.append((below + entry.name, entry.read_bytes()))
    return found


def _asset(path: str, body: bytes) -> Asset:
    suffix = PurePosixPath(path).suffix
    packs = suffix not in PACKED and len(body) >= gzip_bytes_min
    packed = gzip.compress(body, 9, mtime=0) if packs else None
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
    return Asset(TYPES[suffix], body, packed, tag)
