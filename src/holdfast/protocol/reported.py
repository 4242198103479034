"""How far a step or a background task has come, as it says itself: `hf.progress(0.4, rows=17)`.

It is kept with the task, one entry for each step that tells something; `step` is empty for a background task.
`data` is JSON, for people and for the next attempt; the engine does not look into it.
"""

from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.protocol import limits
from holdfast.protocol.text import check_text


class ReportedProgress(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a step said last, and when."""

    step: str = ""
    at: int = 0
    fraction: float | None = None
    data: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return {} if self.data is None else _decode_fields(self.data)


class ProgressUpdate(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The same in a heartbeat: of the task `id`."""

    id: str
    step: str = ""
    fraction: float | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        check_text("progress.id", self.id)
        check_text("progress.step", self.step, empty=True)
        if self.fraction is not None and not (isfinite(self.fraction) and 0 <= self.fraction <= 1):
            raise ValueError("progress.fraction must be a number from 0 to 1")
        if self.data is not None:
            check_text("progress.data", self.data, limits.progress_bytes_max)
            try:
                _decode_fields(self.data)
            except msgspec.DecodeError:
                raise ValueError("progress.data must be a JSON object") from None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[ReportedProgress]).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode


def reported_text(entries: list[ReportedProgress]) -> str | None:
    """As it is kept with a task."""
    return _encode(entries).decode() if entries else None


def read_reported(text: str | None) -> list[ReportedProgress]:
    return [] if text is None else _decode(text)
