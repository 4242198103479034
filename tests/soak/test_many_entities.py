"""A hundred thousand entities are ordinary: each has its own state, and idle ones hold no memory."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow.execution import Execution
from tests.counts import count_of

ENTITIES = count_of("HOLDFAST_ENTITIES", quick=120, full=100_000)
CALLERS = 32
wait_s = 60.0


@pytest.mark.sized
async def test_each_of_many_entities_keeps_its_state_and_idle_ones_are_not_in_memory(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.entity
    class Account(hf.Entity):
        balance: int = 0

        async def deposit(self, cents: int) -> int:
            self.balance += cents
            return self.balance

        @hf.read
        async def show(self) -> int:
            return self.balance

    def account(number: int) -> Any:
        return app.entity(Account, f"n{number}")

    async def call_some(caller: int) -> None:
        for number in range(caller, ENTITIES, CALLERS):
            assert await account(number).deposit(number) == number

    def kept() -> int:
        gc.collect()
        return sum(isinstance(it, Execution) and it.id.startswith("Account/") for it in gc.get_objects())

    async with app:
        await asyncio.gather(*map(call_some, range(CALLERS)))
        ends = asyncio.get_running_loop().time() + wait_s
        while kept():
            assert asyncio.get_running_loop().time() < ends, f"{kept()} of {ENTITIES} are in memory"
            await asyncio.sleep(0.05)
        for number in range(0, ENTITIES, max(1, ENTITIES // 500)):
            assert await account(number).show() == number
            assert await account(number).deposit(1) == number + 1
