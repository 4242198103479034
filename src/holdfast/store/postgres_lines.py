"""How a PostgreSQL database is asked for the lines of a queue: see lines.py."""

from collections.abc import Sequence
from typing import Any

from holdfast.engine.scans import ClaimScan
from holdfast.store import lines


async def find_ids(connection: Any, scan: ClaimScan, group: str) -> list[str] | None:
    """What a claim is to hold of a group of which only some lines are wanted; None where nothing is left but
    the whole walk, or that is what is wanted. Nothing is held yet."""
    parameters = lines.parameters(scan, group)
    if group in scan.entered:
        names = lines.of_entered(group)
        found = await connection.fetch(lines.POSTGRES_DEEP, *parameters, scan.limit, names)
        return [row[-1] for row in found]
    if group not in scan.without:
        return None
    without = lines.left_out(scan, group)
    finding = lines.find_places(scan.limit)
    answer: Sequence[Any] | None = None
    while True:
        try:
            question = finding.send(answer)  # type: ignore[arg-type]  # the first is None, as it must be
        except StopIteration as done:
            places: list[lines.Place] | None = done.value
            return None if places is None else [place[-1] for place in places]
        match question:
            case lines.Heads(reach):
                answer = await connection.fetch(lines.POSTGRES_HEADS, *parameters, reach, without)
            case lines.Walk(reach):
                answer = await connection.fetch(lines.POSTGRES_WALK, *parameters, reach, without, scan.limit)
            case lines.Deep(names, each):
                answer = await connection.fetch(lines.POSTGRES_DEEP, *parameters, each, names)
