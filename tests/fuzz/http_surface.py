"""Damaged requests over real sockets to a real server: alone, in pipelines, in chunks with trailers,
and to the management API (management_surface.py)."""

from __future__ import annotations

import json
import random
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos.processes import Node
from tests.fuzz.management_surface import check_management, make_request
from tests.fuzz.mutation import damage_bytes, damage_text
from tests.fuzz.targets import _make_body  # pyright: ignore[reportPrivateUsage]
from tests.server.corpus import RAW

answer_s_max = 1.0
growth_bytes_max = 50 * 1024 * 1024
health_every = 200
PATHS = [
    "/",
    "/poll/g/me",
    "/health",
    "/ready",
    "/metrics",
    "/promises/x",
    "/tasks/x/y",
    "//",
    "/poll/%2e%2e/%00",
]
Find = tuple[str, str]


def _whole(chance: random.Random) -> bytes:
    """A request that ends where it says: it must be answered."""
    path = damage_text(chance.choice(PATHS), chance)
    path = "".join(f"%{ord(c):02x}" if c in " \r\n\0" or not c.isprintable() else c for c in path)[:2_000]
    method = chance.choice(["POST", "POST", "POST", "GET", "PUT", "OPTIONS", "HEAD", "DELETE", "X"])
    path = "/" if method == "POST" and chance.random() < 0.9 else path or "/"
    body = _make_body(chance) if method in ("POST", "PUT") else b""
    extra = chance.choice(
        [
            "",
            "accept: */*\r\n",
            "origin: http://evil.example\r\n",
            "authorization: Bearer x\r\n",
            "x-y: z\r\n" * 50,
        ]
    )
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: 127.0.0.1",
        "connection: close",
        f"content-length: {len(body)}",
    ]
    head = "\r\n".join([*lines, extra]) + "\r\n"
    return head.encode("utf-8", "replace") + body


def _chunked(chance: random.Random) -> bytes:
    """The same with a body in chunks and headers after it, which must count for nothing."""
    body = _make_body(chance)
    chunks = b""
    while body:
        size = chance.randint(1, max(1, len(body)))
        chunks += b"%x%s\r\n%s\r\n" % (size, chance.choice([b"", b";a=b"]), body[:size])
        body = body[size:]
    trailers = chance.choice(
        [
            b"",
            b"host: evil.example\r\n",
            b"origin: http://evil.example\r\nauthorization: Bearer x\r\n",
            b"content-length: 5\r\n",
            b"x: y\r\n" * chance.randint(1, 5_000),
            b"x: " + b"y" * chance.randint(1, 50_000) + b"\r\n",
        ]
    )
    head = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n" + trailers + b"\r\n"


def _pipeline(chance: random.Random) -> tuple[bytes, int]:
    """Several requests at once, the last of which asks to hang up; and how many there are."""
    count = chance.choice([2, 3, 9, 10, 40, 300])
    requests = b""
    for number in range(count):
        close = b"connection: close\r\n" if number == count - 1 else b""
        if chance.random() < 0.5:
            requests += b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n%s\r\n" % close
        else:
            body = _make_body(chance)[:3_000]
            length = b"content-length: %d\r\n" % len(body)
            requests += b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n%s%s\r\n%s" % (length, close, body)
    return requests, count


def _check_pipeline(port: int, requests: bytes, count: int, findings: list[Find]) -> None:
    """All of them are answered, each once."""
    answers = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(requests)
        try:
            while data := connection.recv(65_536):
                answers += data
        except OSError as error:
            findings.append((repr(requests[:2_000]), f"a pipeline ended with {error!r}"))
    if answers.count(b"HTTP/1.1 ") != count:
        findings.append(
            (repr(requests[:2_000]), f"{answers.count(b'HTTP/1.1 ')} answers to {count} requests")
        )


def _ask(port: int, request: bytes, timeout_s: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        with suppress(ConnectionError):
            connection.sendall(request)
        answer = b""
        with suppress(ConnectionError):
            while b"\r\n\r\n" not in answer:
                data = connection.recv(65_536)
                if not data:
                    break
                answer += data
        return answer


def fuzz_http(seconds: float, seed: int) -> tuple[int, list[Find]]:
    findings: list[Find] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as name:
        node = Node("node", Path(name), "memory:")
        node.start()
        try:
            count = _pelt(node, seconds, seed, findings)
        finally:
            node.stop()
        log = node.log.read_text()
        if "Traceback" in log or '"error"' in log.lower():
            findings.append(("", f"the server logged a defect:\n{log[-3_000:]}"))
    return count, findings


def _pelt(node: Node, seconds: float, seed: int, findings: list[Find]) -> int:
    until = time.monotonic() + seconds
    count = 0
    resident = 0
    while time.monotonic() < until and len(findings) < 5:
        chance = random.Random(f"http:{seed}:{count}")
        count += 1
        way = chance.random()
        if way < 0.2:
            _throw(node.port, damage_bytes(chance.choice(RAW), chance, RAW))
        elif way < 0.25:
            _throw(node.port, damage_bytes(_chunked(chance), chance, RAW))
        elif way < 0.35:
            _check_answer(node.port, _chunked(chance), findings)
        elif way < 0.4:
            _check_pipeline(node.port, *_pipeline(chance), findings)
        elif way < 0.65:
            check_management(node.port, make_request(chance), findings)
        else:
            _check_answer(node.port, _whole(chance), findings)
        if count % health_every == 0:
            now = int(Path(f"/proc/{node.alive.pid}/statm").read_text().split()[1]) * 4096
            resident = resident or (now if count >= 5 * health_every else 0)
            if not node.is_ready:
                findings.append(("", "the server is not ready any more"))
            if resident and now - resident > growth_bytes_max:
                findings.append(("", f"memory grew from {resident:,} to {now:,} bytes"))
    return count


def _throw(port: int, data: bytes) -> None:
    """Raw bytes that may be no request at all: thrown, and not waited for."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(data)


def _check_answer(port: int, request: bytes, findings: list[Find]) -> None:
    began = time.monotonic()
    try:
        answer = _ask(port, request, 10)
    except OSError as error:
        findings.append((repr(request), f"no answer: {error!r}"))
        return
    took = time.monotonic() - began
    status = answer.split(b" ", 2)[1:2]
    if took > answer_s_max * 3:  # of wall time, on a machine that may be busy
        findings.append((repr(request), f"answered after {took:.2f} s"))
    if not status or not status[0].isdigit():
        findings.append((repr(request), f"answered with {answer[:200]!r}"))
    elif int(status[0]) >= 500 and int(status[0]) != 501:
        findings.append((repr(request), f"answered {json.dumps(answer[:500].decode('latin-1'))}"))
