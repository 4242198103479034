# pyright: reportPrivateUsage=false
"""The one look behind the curtain that tests take: how many waiters a future holds."""

from __future__ import annotations

from typing import Any, cast

from holdfast.runtime import Future


def waiters(future: Future[Any]) -> int:
    held = future._waiters
    if isinstance(held, dict):
        return len(cast("dict[Any, None]", held))
    return int(held is not None)
