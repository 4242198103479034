"""Every decoder of the product as a target: a way to make an input, and a way to swallow it.

A target returns for whatever it was given, or raises one of the errors it promises; anything else is a find.
"""

from __future__ import annotations

import base64
import datetime
import json
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from holdfast.client.endpoints import parse_endpoint
from holdfast.client.errors import ClientError
from holdfast.client.wire import decode_message, decode_replies
from holdfast.payloads.durations import duration_s
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.errors import BadDuration
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.address import parse_address
from holdfast.protocol.cron import check_cron, check_timezone, due_occurrences, next_occurrence
from holdfast.protocol.errors import HoldfastError, Refusal
from holdfast.protocol.records import Value
from holdfast.server.auth import Authenticator
from holdfast.server.errors import SettingsError
from holdfast.server.grants import Grant
from holdfast.server.settings import Settings, load_settings
from tests.backends import NodeBackend
from tests.conformance.every_kind import EVERY_KIND
from tests.fuzz.more_targets import make_jobs, more_targets
from tests.fuzz.mutation import NASTY, damage_bytes, damage_json, damage_text, to_body
from tests.fuzz.target import MESSAGES, PROMISE, Target
from tests.requests import get
from tests.server.corpus import bodies
from tests.server.http import envelope

NOW = 1_700_000_000_000


# --- envelopes, through a whole node ----------------------------------------------------------------------

_ENVELOPES = [
    envelope(kind, data, version)
    for kind, data in EVERY_KIND.items()
    if not kind.startswith("debug.")
    for version in ("2026-04-01", "2025-01-15")
]
_BODIES = [*(to_body(each) for each in _ENVELOPES), *(body for body in bodies() if len(body) < 5_000)]
_INTERNAL = 500


def _make_body(chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        several = chance.random() < 0.2
        picked = [chance.choice(_ENVELOPES) for _ in range(3)] if several else chance.choice(_ENVELOPES)
        return to_body(picked if chance.random() < 0.1 else damage_json(picked, chance))
    return damage_bytes(chance.choice(_BODIES), chance, _BODIES)


def envelopes(backend: NodeBackend) -> list[Target]:
    def swallow(body: bytes) -> None:
        answer: Any = json.loads(backend.handle_bytes(body))
        replies: list[Any] = [answer] if isinstance(answer, dict) else answer
        for reply in replies:
            status = reply["head"]["status"]
            assert 200 <= status < _INTERNAL, f"{status}: {reply['data']}"
            assert status in (200, 300) or isinstance(reply["data"], str), reply

    return [Target("envelopes", _make_body, swallow), Target("jobs", make_jobs, swallow)]


# --- small parsers ----------------------------------------------------------------------------------------

_ADDRESSES = [
    "poll://any@workers",
    "poll://any@w/one",
    "poll://uni@w/one",
    "http://a.example/x?y=1",
    "https://[::1]:8/",
]
_CRONS = ["* * * * *", "*/5 0-6 1,15 * MON-FRI", "0 0 29 2 *", "59 59 23 31 12 *", "0 9 * * 1#2", "0 0 L * *"]
_ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]
_DURATIONS = ["5s", "1h30m", "250ms", "2d", "1w", "1.5h", "PT5M"]
_URLS = ["http://127.0.0.1:8001", "https://a.example/base/", "http://[::1]:80"]


def _texts(*seeds: str) -> Callable[[random.Random], str]:
    return lambda chance: damage_text(chance.choice(seeds), chance, seeds)


def _swallow_address(text: str) -> None:
    parse_address(text)
    Grant("a").require_address(text)


def _swallow_tags(entries: dict[str, str]) -> None:
    tags.is_timer(entries)
    tags.is_external(entries)
    tags.delay_of(entries)
    tags.priority_of(entries)


def _make_tags(chance: random.Random) -> dict[str, str]:
    names = [tags.DELAY, tags.PRIORITY, tags.TIMER, tags.EXTERNAL]
    return {name: damage_text("1700000000000", chance) for name in names}


def _swallow_cron(given: tuple[str, str]) -> None:
    expression, zone = given
    if len(expression.encode("utf-8", "replace")) > 256:
        return  # refused before anybody looks at it
    check_cron(expression)
    check_timezone(zone)
    following = next_occurrence(expression, zone, NOW)
    assert following > NOW
    found = due_occurrences(expression, zone, following, following + 86_400_000, 100)
    assert found == sorted(set(found))
    assert len(found) <= 100


def _make_cron(chance: random.Random) -> tuple[str, str]:
    zone = damage_text(chance.choice(_ZONES), chance) if chance.random() < 0.3 else chance.choice(_ZONES)
    return damage_text(chance.choice(_CRONS), chance, _CRONS), zone


# --- tokens -----------------------------------------------------------------------------------------------


def tokens(folder: Path) -> Target:
    private = Ed25519PrivateKey.generate()
    key = folder / "key.pem"
    key.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    authenticator = Authenticator(Settings(jwt_key=str(key), tokens=("a static-token-of-a",)))
    expiry = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    good = jwt.encode({"exp": expiry, "prefix": "a"}, private, algorithm="EdDSA")
    unsigned = jwt.encode({"exp": expiry, "role": "admin"}, "", algorithm="none")
    hmac_signed = jwt.encode({"exp": expiry, "role": "admin"}, "x" * 40, algorithm="HS256")
    seeds = [good, unsigned, hmac_signed, "static-token-of-a", "", "a.b.c"]

    def swallow(token: str) -> None:
        grant = authenticator.grant(token)
        assert not grant.is_admin, f"{token!r} opened every door"
        assert (
            token in (good, "static-token-of-a") or token.rstrip("=") == good or _same_token(token, good)
        ), f"{token!r} was accepted"

    return Target("tokens", _texts(*seeds), swallow, (Refusal,))


def _same_token(token: str, good: str) -> bool:
    """Base64 has spellings that mean the same bytes; the signature holds for those."""

    def parts(text: str) -> list[bytes]:
        return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split(".")]

    try:
        return parts(token) == parts(good)
    except ValueError:
        return False


# --- payloads ---------------------------------------------------------------------------------------------

_PAYLOADS = Payloads()
_TYPES: tuple[Any, ...] = (
    Any,
    int,
    str,
    list[int],
    dict[str, float],
    datetime.datetime,
    tuple[int, str],
    bool,
)
_VALUES: list[Any] = [
    {"func": "f", "args": [1, "a", None], "kwargs": {"x": 1}, "version": 1},
    {"__type": "builtins:ValueError", "message": "m", "args": [1]},
    {"type": "builtins:KeyError", "message": "m", "cause": {"type": "os:system", "message": "x"}},
    [1, 2.5, "x", {"a": None}],
    "text",
]


def _make_payload(chance: random.Random) -> Value:
    described = _PAYLOADS.encode_error(ValueError("x", 1)) if chance.random() < 0.3 else None
    body = to_body(damage_json(chance.choice(_VALUES), chance))
    encoded = described or Value(None, base64.b64encode(body).decode("ascii"))
    data = encoded.data or ""
    return Value(encoded.headers, damage_text(data, chance) if chance.random() < 0.5 else data)


def _swallow_payload(value: Value) -> None:
    error = _PAYLOADS.decode_error(value, KnownErrors())
    assert isinstance(error, Exception)
    for type_ in _TYPES:
        with suppress(HoldfastError):
            _PAYLOADS.decode(value, type_)
    _PAYLOADS.decode_call(value)


# --- settings ---------------------------------------------------------------------------------------------

_TOML = (
    b'[server]\nport = 8001\nhost = "127.0.0.1"\ntokens = ["a", "b c"]\nread_timeout_s = 1.5\ndebug = false\n'
)


def settings(folder: Path) -> Target:
    path = folder / "holdfast.toml"
    names = [*Settings.__struct_fields__, "unknown", ""]

    def make(chance: random.Random) -> tuple[dict[str, Any], dict[str, str], bytes]:
        flags = {chance.choice(names): chance.choice(NASTY)} if chance.random() < 0.4 else {}
        name = f"HOLDFAST_{chance.choice(names).upper()}"
        environment = {name: damage_text("8001", chance)} if chance.random() < 0.4 else {}
        return flags, environment, damage_bytes(_TOML, chance)

    def swallow(given: tuple[dict[str, Any], dict[str, str], bytes]) -> None:
        flags, environment, toml = given
        path.write_bytes(toml)
        load_settings(flags, environment, path)

    return Target("settings", make, swallow, (SettingsError,))


# --- what a client reads ----------------------------------------------------------------------------------

_HEAD = {"corrId": "r0", "status": 200, "version": "2026-04-01"}
_REPLIES = [
    to_body([{"kind": "promise.get", "head": _HEAD, "data": {"promise": PROMISE}}]),
    to_body([{"kind": "promise.get", "head": _HEAD | {"status": 404}, "data": "There is none. [HF1404]"}]),
]


def _swallow_replies(body: bytes) -> None:
    decode_replies([get("p")], body)


def _swallow_message(body: bytes) -> None:
    decode_message(body, "poll://uni@g/me")


def all_targets(backend: NodeBackend, folder: Path) -> list[Target]:
    return [
        *envelopes(backend),
        *more_targets(),
        Target("addresses", _texts(*_ADDRESSES), _swallow_address, (ValueError, Refusal)),
        Target("tags", _make_tags, _swallow_tags, (ValueError,)),
        Target("cron", _make_cron, _swallow_cron, (ValueError,)),
        tokens(folder),
        Target("payloads", _make_payload, _swallow_payload, (HoldfastError,)),
        settings(folder),
        Target("durations", _texts(*_DURATIONS), lambda text: _ignore(duration_s(text)), (BadDuration,)),
        Target("urls", _texts(*_URLS), lambda text: _ignore(parse_endpoint(text)), (ClientError,)),
        Target(
            "replies",
            lambda chance: damage_bytes(chance.choice(_REPLIES), chance, _REPLIES),
            _swallow_replies,
            (ClientError, msgspec.DecodeError),
        ),
        Target(
            "messages",
            lambda chance: damage_bytes(chance.choice(MESSAGES), chance, MESSAGES),
            _swallow_message,
            (msgspec.DecodeError, UnicodeDecodeError),
        ),
    ]


def _ignore(_: object) -> None:
    pass


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="holdfast-fuzz-")
