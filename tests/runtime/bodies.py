"""Fiber bodies that many tests use."""

from __future__ import annotations

from typing import Any

from holdfast.runtime import FiberInterrupted
from holdfast.runtime.testing import promise


def work() -> None:
    """A step that does nothing."""


async def follow(name: str) -> Any:
    """Wait for a promise and return its value."""
    return await promise(name)


async def watch(name: str, trace: list[str]) -> None:
    """Wait for a promise and note how the wait ended."""
    try:
        await promise(name)
        trace.append(f"{name} done")
    except FiberInterrupted:
        trace.append(f"{name} interrupted")
        raise
