"""Prints what a bench measured against what was required of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One measured promise."""

    name: str
    measured: str
    required: str
    ok: bool


def print_table(title: str, rows: Sequence[Row]) -> None:
    """One line a row: `name | measured | required | ok or short`."""
    cells = [(row.name, row.measured, row.required, "ok" if row.ok else "short") for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    print(title)
    for name, measured, required, result in cells:
        print(f"{name:<{widths[0]}} | {measured:>{widths[1]}} | {required:>{widths[2]}} | {result}")
