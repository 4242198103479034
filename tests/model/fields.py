"""Reading the fields of a request: each reader returns a checked value or refuses with 400.

Part of the oracle, so it shares nothing with the product. It owns what a single field may look like and the
named limits of docs/reference/protocol.md; what a request does with its fields is oracle.py's matter.

A field that may be left out may also be `null`, except the objects (`param`, `value`, tags): there it is 400.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

Json = dict[str, Any]

INSTANT_MAX = 2**53 - 1
NAME_BYTES_MAX = 1_024
TAGS_MAX = 64
TAG_VALUE_BYTES_MAX = 4_096
DATA_BYTES_MAX = 1_048_576
TTL_MAX = 86_400_000
PRIORITY_MAX = 1_000_000
CRON_BYTES_MAX = 256
DIALECT_A = "2026-04-01"

TARGET = "resonate:target"
INVOKE = "resonate:invoke"
DELAY = "resonate:delay"
PRIORITY = "holdfast:priority"
CRASHES = "holdfast:crashes"
CRASHES_MAX = 1_000_000
GRACE = "holdfast:grace"
GRACE_MS_MAX = 86_400_000
OF_THE_NODE = tuple(
    f"holdfast:{name}"
    for name in ("dependent", "lock", "ticket", "topic", "waits", "bucket", "wait", "event", "next-version")
)

ADDRESS = re.compile(
    r"poll://any@(?P<any>[^/@]+)(/.+)?|poll://uni@(?P<uni>[^/@]+)/.+|https?://[^/\s]+(/\S*)?", re.DOTALL
)


class Refused(Exception):
    """The request is answered with this status and changes nothing."""

    def __init__(self, status: int, why: str, code: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.code = code


def bad(why: str) -> Refused:
    return Refused(400, why)


def check_text(value: object, name: str, most: int) -> str:
    if not isinstance(value, str):
        raise bad(f"{name} must be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise bad(f"{name} holds a lone surrogate") from None
    if size > most:
        raise bad(f"{name} is longer than {most} bytes")
    if "\0" in value:
        raise bad(f"{name} holds a NUL")
    return value


def check_map(value: object, name: str) -> dict[str, str]:
    """A map of strings: tags or headers."""
    entries = check_object(value, name)
    if len(entries) > TAGS_MAX:
        raise bad(f"{name} has more than {TAGS_MAX} entries")
    for key, entry in entries.items():
        check_text(key, f"a key of {name}", NAME_BYTES_MAX)
        check_text(entry, f"{name}[{key!r}]", TAG_VALUE_BYTES_MAX)
    return entries


def optional_map(data: Json, name: str) -> dict[str, str]:
    """A filter of a search; unlike the tags of a promise it may be null."""
    return {} if data.get(name) is None else check_map(data[name], name)


def check_object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise bad(f"{name} must be an object")
    return cast(Json, value)


def check_address(value: object, name: str) -> str:
    address = check_text(value, name, NAME_BYTES_MAX)
    if not ADDRESS.fullmatch(address):
        raise bad(f"{name} is no address")
    return address


def reaches(scope: str, name: str) -> bool:
    """Does a prefix cover a name? It ends where a delimiter stands."""
    return re.fullmatch(re.escape(scope) + r"((?<=[-./:]).*|[-./:].*)?", name, re.DOTALL) is not None


def group_of(address: str, *, casts: tuple[str, ...] = ("any", "uni")) -> str | None:
    """The group of a poll address, None for any other address or cast."""
    match = ADDRESS.fullmatch(address)
    return next((match[cast] for cast in casts if match[cast]), None) if match else None


def identifier(data: Json, name: str) -> str:
    value = check_text(data.get(name), name, NAME_BYTES_MAX)
    if not value:
        raise bad(f"{name} is empty")
    return value


def optional_text(data: Json, name: str, most: int = NAME_BYTES_MAX) -> str | None:
    value = data.get(name)
    return None if value is None else check_text(value, name, most)


def integer(data: Json, name: str, least: int = 0, most: int = INSTANT_MAX) -> int:
    value = data.get(name)
    if type(value) is not int or not least <= value <= most:
        raise bad(f"{name} must be an integer from {least} to {most}")
    return value


def optional_integer(data: Json, name: str, least: int = 0, most: int = INSTANT_MAX) -> int | None:
    return None if data.get(name) is None else integer(data, name, least, most)


def one_of(data: Json, name: str, choices: tuple[str, ...]) -> str:
    value = data.get(name)
    if not isinstance(value, str) or value not in choices:
        raise bad(f"{name} must be one of {choices}")
    return value


def optional_one_of(data: Json, name: str, choices: tuple[str, ...]) -> str | None:
    return None if data.get(name) is None else one_of(data, name, choices)


def items(data: Json, name: str, least: int, most: int) -> list[Any]:
    value = data.get(name)
    if not isinstance(value, list):
        raise bad(f"{name} must be a list")
    found: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    if not least <= len(found) <= most:
        raise bad(f"{name} must have {least} to {most} items")
    return found


def payload(data: Json, name: str) -> Json:
    """A param or value as it is kept: `headers` and `data`, each only if it was given."""
    given = check_object(data.get(name, {}), name)
    kept: Json = {}
    if given.get("headers") is not None:
        kept["headers"] = check_map(given["headers"], f"{name}.headers")
    if given.get("data") is not None:
        kept["data"] = check_text(given["data"], f"{name}.data", DATA_BYTES_MAX)
    return kept


def tags(data: Json, name: str, dialect: str) -> dict[str, str]:
    """Tags whose meaning the server knows are checked; the rest may say anything."""
    given = check_map(data.get(name, {}), name)
    target = target_of(given, dialect)
    if target is not None:
        check_address(target, TARGET)
    for reserved in OF_THE_NODE:
        if reserved in given:
            raise bad(f"{reserved} is not for clients")
    priority = given.get(PRIORITY)
    if priority is not None and (
        not re.fullmatch(r"-?[0-9]{1,7}", priority) or abs(int(priority)) > PRIORITY_MAX
    ):
        raise bad(f"{PRIORITY} must be an integer from -{PRIORITY_MAX} to {PRIORITY_MAX}")
    crashes = given.get(CRASHES)
    if crashes is not None and (
        not re.fullmatch(r"[0-9]{1,16}", crashes) or not 1 <= int(crashes) <= CRASHES_MAX
    ):
        raise bad(f"{CRASHES} must be an integer from 1 to {CRASHES_MAX}")
    grace = given.get(GRACE)
    if grace is not None:
        if not re.fullmatch(r"[0-9]{1,16}", grace) or not 1 <= int(grace) <= GRACE_MS_MAX:
            raise bad(f"{GRACE} must be an integer from 1 to {GRACE_MS_MAX}")
        if TARGET not in given or given.get("resonate:timer") == "true" or "holdfast:job" in given:
            raise bad(f"{GRACE} is for executions")
    return given


def target_of(given: dict[str, str], dialect: str) -> str | None:
    if TARGET in given:
        return given[TARGET]
    return given.get(INVOKE) if dialect == "B" else None


def delay_of(given: dict[str, str]) -> int | None:
    """The instant of the delay tag; refused unless it is a plain number."""
    delay = given.get(DELAY)
    if delay is None:
        return None
    if not re.fullmatch(r"[0-9]{1,16}", delay) or int(delay) > INSTANT_MAX:
        raise bad(f"{DELAY} must be an instant in milliseconds")
    return int(delay)


def dialect_of(version: object) -> str:
    if version == DIALECT_A:
        return "A"
    if isinstance(version, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", version):
        try:
            date.fromisoformat(version)
        except ValueError:
            raise bad("head.version is no date") from None
        if version < DIALECT_A:
            return "B"
    raise bad(f"head.version is not supported; {DIALECT_A} is, and 2025-01-15")


def timezone(data: Json) -> str | None:
    name = optional_text(data, "timezone")
    if name is not None and zone(name) is None:
        raise bad("timezone is unknown")
    return name


@cache
def zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def cron(data: Json) -> str:
    expression = check_text(data.get("cron"), "cron", CRON_BYTES_MAX)
    if next_occurrence(expression, None, 0) is None:
        raise bad("cron is malformed or never matches")
    return expression


@lru_cache(maxsize=100_000)
def next_occurrence(expression: str, zone_name: str | None, after: int) -> int | None:
    """The first instant after `after` that the cron expression matches; None if malformed or never."""
    start = datetime.fromtimestamp(after / 1_000, zone(zone_name) if zone_name else UTC)
    try:
        return round(next(CronSim(expression, start)).timestamp() * 1_000)
    except (CronSimError, StopIteration):
        return None


def flag(data: Json, name: str) -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad(f"{name} must be true or false")
    return value is True
