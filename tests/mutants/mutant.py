"""What a mutant is."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tests.mutants.syntax import planted, planted_in_text


class Mutant(Struct, frozen=True):
    name: str
    rule: str
    layer: str  # a folder below src/holdfast
    old: str  # a pattern, see syntax.py; with `in_text`, a part of a string constant
    new: str
    suite: str  # arguments of pytest
    in_text: bool = False
    slow: bool = False  # its suite takes longer than about 20 s: left to `make mutants`

    def planted(self, sources: Path) -> tuple[Path, str]:
        """The file that it changes, and the changed text."""
        plant = planted_in_text if self.in_text else planted
        return plant(self.old, self.new, sources / "holdfast" / self.layer)
