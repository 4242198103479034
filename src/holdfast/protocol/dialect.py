"""Two vocabularies for one state machine, chosen by the date in `head.version`."""

from datetime import date
from typing import Final, Literal

from holdfast.protocol.errors import UnsupportedVersion

Dialect = Literal["A", "B"]

CURRENT_VERSION: Final = "2026-04-01"


def dialect_of(version: str) -> Dialect:
    if version == CURRENT_VERSION:
        return "A"
    try:
        known = len(version) == 10 and date.fromisoformat(version).isoformat() == version
    except ValueError:
        known = False
    if not known or version > CURRENT_VERSION:
        raise UnsupportedVersion(f"Protocol version {version[:40]!r} is not supported")
    return "B"
