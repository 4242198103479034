"""The files of the console over HTTP: what is served, how it is kept, what a browser may do with it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from holdfast.server import Settings, running
from holdfast.server.console import Console, security_headers
from holdfast.server.errors import ForeignOrigin, NoSuchPath, SettingsError
from holdfast.server.origin import Visitors
from tests.server.http import create, envelope, get, post

memory = Settings(port=0, store="memory:")
INDEX = '<script type="module" src="@assets@/js/main.js"></script>\n@modulepreload@'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "js").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "js" / "main.js").write_text("export const a = 1;\n" * 50)
    (tmp_path / "notes.md").write_text("not for everybody")
    (tmp_path / "__init__.py").write_text("secret = 1")
    (tmp_path / ".hidden.js").write_text("secret")
    return tmp_path


class Served:
    def __init__(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


async def ask(console: Console, path: str, method: str = "GET", **headers: str) -> Served:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await console.handle({"path": path, "method": method, "headers": given}, receive, send)
    start, body = sent
    return Served(start["status"], dict(start["headers"]), body["body"])  # type: ignore[call-overload,arg-type]


async def test_the_page_names_its_files_below_a_digest_that_may_be_kept_for_good(folder: Path) -> None:
    console = Console(folder=folder)
    page = await ask(console, "/console/")
    assert page.headers[b"content-type"] == b"text/html; charset=utf-8"
    assert page.headers[b"cache-control"] == b"no-cache"
    assert b"@" not in page.body
    [script] = [part for part in page.body.decode().split('"') if part.endswith("main.js")][:1]
    assert script.startswith("_/")
    assert f'rel="modulepreload" href="{script}"' in page.body.decode()
    kept = await ask(console, f"/console/{script}", accept_encoding="gzip, br")
    assert b"immutable" in kept.headers[b"cache-control"]
    assert kept.headers[b"content-type"] == b"text/javascript; charset=utf-8"
    assert kept.headers[b"content-encoding"] == b"gzip"
    assert gzip.decompress(kept.body) == (folder / "js" / "main.js").read_bytes()
    plain = await ask(console, "/console/js/main.js")
    assert plain.body == (folder / "js" / "main.js").read_bytes()
    assert plain.headers[b"cache-control"] == b"no-cache"
    (folder / "js" / "main.js").write_text("changed")
    other = await ask(Console(folder=folder), "/console/")
    assert script not in other.body.decode()


async def test_the_page_names_the_modules_of_each_view_and_one_file_of_styles() -> None:
    console = Console()
    page = (await ask(console, "/console/")).body.decode()
    at_once = re.findall(r'<link rel="modulepreload" href="_/[0-9a-f]+/([^"]+)">', page)
    more = dict(re.findall(r'<meta name="modules" data-view="(\w+)" content="([^"]*)">', page))
    assert {"executions", "execution", "overview", "task", "start", "audit"} <= more.keys()
    assert "execution_waiting" not in more, "which is a part of a view, and none"
    assert more["executions"] == "", "its modules are asked for at once"
    assert {"js/early.js", "js/api.js", "js/main.js", "js/views/executions.js", "js/kit/table.js"} <= set(
        at_once
    )
    assert {"js/views/execution.js", "js/draw/timeline.js", "js/draw/scale.js"} <= set(
        more["execution"].split()
    )
    assert not set(more["execution"].split()) & set(at_once)
    [style] = re.findall(r'<link rel="stylesheet" href="([^"]+)">', page)
    served = await ask(console, f"/console/{style}")
    assert served.headers[b"content-type"] == b"text/css; charset=utf-8"
    for name in ("css/tokens.css", "css/base.css", "css/layout.css", "css/kit.css", "css/views.css"):
        assert (await ask(console, f"/console/{name}")).body in served.body


async def test_what_has_not_changed_is_not_sent_again(folder: Path) -> None:
    console = Console(folder=folder)
    page = await ask(console, "/console/")
    again = await ask(console, "/console/", if_none_match=page.headers[b"etag"].decode())
    assert (again.status, again.body) == (304, b"")
    head = await ask(console, "/console/", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers[b"content-length"]) == len(page.body)


async def test_nothing_else_of_the_folder_or_outside_of_it_is_served(folder: Path) -> None:
    console = Console(folder=folder)
    for path in (
        "notes.md",
        "__init__.py",
        ".hidden.js",
        "../index.html",
        "js",
        "js/",
        "_/x/js/main.js",
        "nope",
    ):
        with pytest.raises(NoSuchPath):
            await ask(console, f"/console/{path}")


async def test_a_path_without_its_slash_leads_there_relative_to_where_it_is(folder: Path) -> None:
    led = await ask(Console(folder=folder), "/any/prefix/console")
    assert (led.status, led.headers[b"location"]) == (302, b"console/")


def test_the_policy_allows_nothing_inline_and_no_other_origin() -> None:
    policy = dict(security_headers(""))[b"content-security-policy"].decode()
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "connect-src 'self';" in policy
    with_codec = dict(security_headers("https://user@codec.example:8443/decode?x=1"))
    assert b"connect-src 'self' https://codec.example:8443;" in with_codec[b"content-security-policy"]


@pytest.mark.parametrize(
    "url", ["ftp://x", "javascript:1", "https://a; script-src *", "codec.example", "https://"]
)
def test_an_address_that_could_widen_the_policy_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="codec_url"):
        security_headers(url)


async def test_a_browser_is_led_to_the_console_and_the_protocol_is_not() -> None:
    async with running(memory) as server:
        led = await get(server.url, "/", {"accept": "text/html,application/xhtml+xml"})
        assert (led.status, led.headers["location"]) == (302, "console/")
        refused = await get(server.url, "/", {"accept": "*/*"})
        assert refused.status == 405
        led = await get(server.url, "/console")
        assert (led.status, led.headers["location"]) == (302, "console/")
    async with running(Settings(port=0, store="memory:", console=False)) as server:
        assert (await get(server.url, "/", {"accept": "text/html"})).status == 405
        assert (await get(server.url, "/console/")).status == 404


async def test_pages_of_the_server_itself_may_call_it() -> None:
    async with running(memory) as server:
        own = server.url
        port = own.rpartition(":")[2]
        for origin, host in ((own, None), (f"http://localhost:{port}", f"localhost:{port}")):
            headers = {"origin": origin} | ({} if host is None else {"host": host})
            answer = await post(server.url, envelope("promise.get", {"id": "p"}), headers)
            assert answer.status == 404, answer.body
            assert "access-control-allow-origin" not in answer.headers
        for origin in (
            f"http://127.0.0.1:{int(port) + 1}",
            f"http://localhost:{port}",
            "null",
            f"ftp://127.0.0.1:{port}",
        ):
            answer = await post(server.url, envelope("promise.create", create("p")), {"origin": origin})
            assert (answer.status, answer.json["code"]) == (403, "HF3103"), origin


async def test_a_name_that_was_made_to_lead_to_an_open_server_is_not_its_own() -> None:
    settings = Settings(port=0, store="memory:", host="0.0.0.0", allow_unauthenticated=True)
    async with running(settings) as server:
        port = server.url.rpartition(":")[2]
        rebound = {"origin": f"http://evil.example:{port}", "host": f"evil.example:{port}"}
        answer = await post(server.url, envelope("promise.get", {"id": "p"}), rebound)
        assert (answer.status, answer.json["code"]) == (403, "HF3103")
        assert f"A page of 'http://evil.example:{port}'" in answer.json["error"]
        assert "not in allowed_hosts" in answer.json["error"]
        own = {"origin": f"http://127.0.0.1:{port}", "host": f"127.0.0.1:{port}"}
        assert (await post(server.url, envelope("promise.get", {"id": "p"}), own)).status == 404
    public = Visitors(Settings(public_url="https://holdfast.example/x/"))
    inner = (b"host", b"127.0.0.1:8001")  # as a proxy asks that names what it asks
    assert public.admit([inner, (b"origin", b"https://holdfast.example")]) == []
    with pytest.raises(ForeignOrigin):
        public.admit([inner, (b"origin", b"https://holdfast.example.evil")])
