"""The progress that steps and tasks report, drawn as bars: for `holdfast info` and `holdfast tasks info`."""

from collections.abc import Sequence
from typing import Final

from holdfast.cli.output import instant, print_line, print_table
from holdfast.protocol.reported import ReportedProgress

bar_width: Final = 24


def draw_bar(fraction: float, width: int = bar_width) -> str:
    """A bar in plain characters: it is full only when the fraction is 1."""
    filled = int(fraction * width)
    return f"[{'#' * filled}{'.' * (width - filled)}] {int(fraction * 100):3d} %"


def print_progress(reported: Sequence[ReportedProgress] | None) -> None:
    if not reported:
        return
    print_line()
    print_table(
        ["progress", "", "of", "told"],
        [
            [
                "" if told.fraction is None else draw_bar(told.fraction),
                " ".join(f"{name}={value}" for name, value in told.fields.items()),
                told.step,
                instant(told.at) or "",
            ]
            for told in reported
        ],
    )
