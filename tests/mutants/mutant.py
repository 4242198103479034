"""What a mutant is."""

from __future__ import annotations

from msgspec import Struct


class Mutant(Struct, frozen=True):
    name: str
    rule: str
    path: str  # below src/holdfast
    old: str
    new: str
    suite: str  # arguments of pytest
