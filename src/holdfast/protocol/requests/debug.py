"""debug.*"""

from __future__ import annotations

from holdfast.protocol.requests.checks import RequestData
from holdfast.protocol.text import check_integer


class DebugStart(RequestData, frozen=True):
    pass


class DebugStop(RequestData, frozen=True):
    pass


class DebugReset(RequestData, frozen=True):
    pass


class DebugSnap(RequestData, frozen=True):
    pass


class DebugTick(RequestData, frozen=True):
    time: int

    def __post_init__(self) -> None:
        check_integer("time", self.time, 0)
