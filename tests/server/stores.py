"""Stores that fail or wait when a test says so."""

import asyncio
from typing import Any

from holdfast.store.interface import Save, Step
from holdfast.store.memory import MemoryStore


class GatedStore(MemoryStore):
    """A store that commits only while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def transact(self, work: Any) -> Any:
        await self.gate.wait()
        return await super().transact(work)


class BreakableStore(MemoryStore):
    """A store whose disk can be taken away."""

    broken = False
    full = False

    async def transact(self, work: Any) -> Any:
        if self.broken:
            raise OSError("no disk")
        return await super().transact(work)

    def _perform(self, step: Step) -> Any:
        if self.full and isinstance(step, Save):
            raise OSError("no space left")
        return super()._perform(step)
