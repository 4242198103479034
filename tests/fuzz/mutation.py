"""Damage: takes something valid and makes it almost valid. Everything comes from one `random.Random`."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final, cast

NASTY: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        -0.0,
        2**31,
        2**53 - 1,
        2**53,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
        10**40,
    ),
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ud800",
        "\u202e",
        "\ufeff",
        "é",
        "\U0010ffff",
        "../..",
        "%00",
        "%2e%2e/",
        "\r\nx: y",
    ),
    *(
        "'; DROP TABLE promises; --",
        '"',
        "{{.id}}",
        "{{.timestamp}}",
        "<img src=x onerror=alert(1)>",
        "%" * 50,
    ),
    *("x" * 1_024, "x" * 1_025, "x" * 5_000, "NaN", "true", "1e400", "-1", "00", "٣", "9" * 400),
    *("poll://any@g", "poll://uni@g/x", "poll://", "http://127.0.0.1:1/", "http://[::1", "https://a@b:c@d/"),
    *("2026-04-01", "2025-01-15", "0000-00-00", "resolved", "rejected", "pending", "rejected_timedout"),
    *(
        "* * * * *",
        "*/0 * * * *",
        "61 * * * *",
        "0 0 30 2 *",
        "0 0 29 2 */7",
        "@yearly",
        "* * * * * *",
        "L * * * *",
    ),
    *("Europe/Berlin", "../../etc/passwd", "UTC", "America/Nowhere"),
    *([], {}, [[]], [None], {"": ""}, {"a": {"b": []}}, [0] * 50, {"__proto__": "x"}, {"k": "v" * 5_000}),
)
TOKENS: Final = (
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"\\u0000",
        b"\\ud800",
        b"null",
        b"NaN",
        b"-",
        b"1e999",
    ),
    *(
        b"\x00",
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\t",
        b"%",
        b"%00",
        b"%zz",
    ),
    *(b"HTTP/1.1", b"content-length: 0\r\n", b"transfer-encoding: chunked\r\n", b"0\r\n\r\n", b"host: x\r\n"),
    *(
        b"authorization: Bearer x\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"expect: 100-continue\r\n",
    ),
)


def damage_bytes(data: bytes, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """A few changes: bits, pieces lost, doubled or moved, tokens put in, another input spliced on."""
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        place = chance.randrange(len(damaged) + 1)
        match chance.randrange(8):
            case 0 if damaged:
                damaged[place % len(damaged)] ^= 1 << chance.randrange(8)
            case 1 if damaged:
                damaged[place % len(damaged)] = chance.randrange(256)
            case 2:
                del damaged[place : place + chance.choice((1, 2, 8, 64))]
            case 3:
                piece = damaged[place : place + chance.choice((1, 4, 32))]
                damaged[place:place] = piece * chance.choice((1, 2, 50))
            case 4 | 5:
                damaged[place:place] = chance.choice(TOKENS)
            case 6 if others:
                damaged[place:] = chance.choice(others)[chance.randrange(20) :]
            case _:
                damaged[place:place] = chance.randbytes(chance.choice((1, 4, 16)))
    return bytes(damaged[:200_000])


def damage_text(text: str, chance: random.Random, others: Sequence[str] = ()) -> str:
    if chance.random() < 0.2:
        nasty = chance.choice(NASTY)
        return nasty if isinstance(nasty, str) else json.dumps(nasty)
    if others and chance.random() < 0.2:
        other = chance.choice(others)
        return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other) + 1) :]
    return damage_bytes(text.encode("utf-8", "surrogatepass"), chance).decode("utf-8", "replace")


def damage_json(value: Any, chance: random.Random) -> Any:
    """The same structure with a few of its places changed, lost, renamed or filled with something else."""
    copy = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = [*_places(copy)]
        if not places:
            return chance.choice(NASTY)
        holder, key = chance.choice(places)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                moved = cast("Any", holder[key])
                del holder[key]
                holder[str(chance.choice(NASTY))] = moved
            case 2:
                other, other_key = chance.choice(places)
                if not _is_inside(other, holder[key]):
                    holder[key] = (
                        json.loads(json.dumps(other[other_key])) if other_key in _keys(other) else None
                    )
            case 3 if isinstance(holder[key], str):
                holder[key] = damage_text(holder[key], chance)
            case _:
                holder[key] = json.loads(json.dumps(chance.choice(NASTY)))
    return copy


def _keys(holder: Any) -> list[Any]:
    return [*holder] if isinstance(holder, dict) else [*range(len(holder))]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_inside(needle: Any, straw: Any) -> bool:
    return needle is straw or (
        isinstance(straw, dict | list) and any(_is_inside(needle, straw[k]) for k in _keys(straw))
    )


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in _keys(value):
            yield value, key
            yield from _places(value[key])


def to_body(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
