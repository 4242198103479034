"""A worker whose every step writes a line into a ledger, until it is killed.

`raw` speaks the protocol itself: one line inside the database through `task.fence`, under an id that no other
worker would choose, and one outside it. `app` is an App with a workflow whose steps write outside. Outside,
the fencing token guards: whoever comes with a smaller one than was seen is refused, and says so.
"""

import asyncio
import importlib
import sys
from typing import Any
from uuid import uuid4

from holdfast import App, current, run
from holdfast.node import Node
from holdfast.node.message_router import WorkerMailbox
from holdfast.protocol.records import TaskRef, Value
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseSettle,
    Settle,
    TaskClaim,
    TaskFence,
    TaskFulfill,
    TaskHeartbeat,
)
from holdfast.protocol.requests.promises import CreateAction, SettleAction
from holdfast.store.urls import open_store
from tests.requests import FAR, ask

STEPS = 12
STEP_S = 0.03
LEASE_MS = 2_000
CONCURRENCY = 20
CLAIM = 2  # at a time, so that all get some

asyncpg: Any = importlib.import_module("asyncpg")  # it has no types


class Ledger:
    """A table outside of Holdfast. One line per task and step, in the order in which they were written."""

    def __init__(self, pool: Any, me: str) -> None:
        self._pool = pool
        self._me = me

    async def write(self, task: str, step: int, token: int) -> bool:
        """False: somebody came with a larger token."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(
                "INSERT INTO performed VALUES ($1, $2, $3, $4)", task, step, token, self._me
            )
            admitted = await connection.fetchval(_ADMIT, task, token)
            if admitted is None:
                await connection.execute("INSERT INTO refused VALUES ($1, $2, $3)", task, step, token)
                return False
            await connection.execute(_WRITE, task, step, token, self._me)
            return True


_ADMIT = """
    INSERT INTO guard VALUES ($1, $2) ON CONFLICT (task) DO UPDATE SET token = excluded.token
    WHERE guard.token <= excluded.token RETURNING token
"""
# The guard's row is held, so nobody else writes for this task meanwhile.
_WRITE = """
    INSERT INTO ledger (task, step, token, worker) SELECT $1, $2, $3, $4
    WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE task = $1 AND step = $2)
"""


class RawWorker:
    def __init__(self, node: Node, ledger: Ledger, me: str) -> None:
        self._node = node
        self._ledger = ledger
        self._me = me
        self._held: dict[str, int] = {}
        self._look = asyncio.Event()  # there may be work, or room for it

    async def work(self) -> None:
        mailbox = self._node.connect("g", self._me)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            group.create_task(self._listen(mailbox))
            while True:
                self._look.clear()
                room = CONCURRENCY - len(self._held)
                if room:
                    claim = TaskClaim(["g"], min(room, CLAIM), self._me, LEASE_MS)
                    [reply] = await self._node.request([ask(claim)])
                    for got in getattr(reply.data, "tasks", []):
                        self._look.set()
                        self._held[got.task.id] = got.task.version
                        group.create_task(self._drive(got.task.id, got.task.version, len(got.preload)))
                await self._look.wait()

    async def _listen(self, mailbox: WorkerMailbox) -> None:
        while True:
            await mailbox.receive()
            self._look.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 3_000)
            refs = [TaskRef(*held) for held in self._held.items()]
            if refs:
                await self._node.request([ask(TaskHeartbeat(self._me, refs))])

    async def _drive(self, task: str, token: int, done: int) -> None:
        for step in range(done, STEPS):
            await asyncio.sleep(STEP_S)
            if not await self._ledger.write(task, step, token) or not await self._record(task, step, token):
                break  # the claim is lost
        else:
            end = SettleAction(PromiseSettle(task, "resolved", Value(data="ZG9uZQ==")))
            await self._insist(TaskFulfill(task, token, end))
        if self._held.get(task) == token:  # else the task came back under another claim
            del self._held[task]
        self._look.set()

    async def _record(self, task: str, step: int, token: int) -> bool:
        line = PromiseCreate(
            f"{task}:{step}.{uuid4().hex}",
            FAR,
            tags={"resonate:branch": task, "step": str(step), "token": str(token)},
            settle=Settle("resolved"),
        )
        return await self._insist(TaskFence(task, token, CreateAction(line))) == 200

    async def _insist(self, data: Any) -> int:
        request = ask(data)
        while True:
            [reply] = await self._node.request([request])
            if reply.status != 503:
                return reply.status


async def run_raw(url: str, ledger: Ledger, me: str) -> None:
    async with Node(open_store(url)) as node:
        print("ready", flush=True)
        await RawWorker(node, ledger, me).work()


async def run_app(url: str, ledger: Ledger) -> None:
    app = App(url, group="g", lease=LEASE_MS / 1000, concurrency=CONCURRENCY)

    async def effect(task: str, step: int) -> int:
        token = current().token
        await asyncio.sleep(STEP_S)
        await ledger.write(task, step, token)
        return token

    @app.workflow
    async def keep_books(task: str) -> list[int]:
        return [await run(effect, task, step) for step in range(STEPS)]

    async with app:
        print("ready", flush=True)
        await asyncio.Event().wait()


async def main(mode: str, url: str, outside: str, me: str) -> None:
    async with asyncpg.create_pool(outside, min_size=2, max_size=8) as pool:
        ledger = Ledger(pool, me)
        await (run_raw(url, ledger, me) if mode == "raw" else run_app(url, ledger))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
