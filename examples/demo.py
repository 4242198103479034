"""An order in three steps. Its worker is killed with SIGKILL in the middle; another one finishes it.

The parent starts workers as real processes on one SQLite file. A worker claims the order's task, and records
each step under the task's fence. The first one is killed after the second step. The second one acquires the
same task once the lease has lapsed, sees which steps are done, and does the rest.
"""

import asyncio
import base64
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.node import Node
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import AcquireReply, ClaimReply, PromiseReply, PromisesReply, Reply
from holdfast.protocol.requests import (
    CreateAction,
    PromiseCreate,
    PromiseGet,
    PromiseSearch,
    PromiseSettle,
    Request,
    RequestData,
    SettleAction,
    TaskClaim,
    TaskFence,
    TaskFulfill,
)
from holdfast.store.sqlite import SqliteStore

STEPS = ("reserve stock", "charge card", "ship parcel")
LEASE_MS = 1_500
FAR = 2**52


def ask(kind: str, data: RequestData) -> Request:
    return Request(kind, "demo", "2026-04-01", "A", data)


def value(text: str) -> Value:
    return Value(data=base64.b64encode(text.encode()).decode())


def text_of(promise: Promise) -> str:
    return base64.b64decode(promise.value.data or "").decode()


def say(who: str, what: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')}  {who:<9} {what}", flush=True)


async def worker(name: str, path: Path) -> None:
    async with Node(SqliteStore(path)) as node:
        order = await claim(node, name)
        say(name, f"claims {order.task.id!r} at version {order.task.version}")
        done = {promise.id for promise in order.preload}
        for number, step in enumerate(STEPS):
            step_id = f"{order.task.id}:{number}"
            if step_id in done:
                say(name, f"step {number} {step!r}: done before, not repeated")
                continue
            await asyncio.sleep(0.4)  # the work
            await record(node, order.task.id, order.task.version, step_id, step)
            say(name, f"step {number} {step!r}: done and on disk")
        fulfil = TaskFulfill(
            order.task.id,
            order.task.version,
            SettleAction(PromiseSettle(order.task.id, "resolved", value("delivered"))),
        )
        check(await node.request([ask("task.fulfill", fulfil)]))
        say(name, "fulfils the order")


async def claim(node: Node, name: str) -> AcquireReply:
    mailbox = node.connect("orders", name)
    while True:
        [reply] = await node.request([ask("task.claim", TaskClaim(["orders"], 1, name, LEASE_MS))])
        if isinstance(reply.data, ClaimReply) and reply.data.tasks:
            return reply.data.tasks[0]
        await mailbox.receive()  # told the moment the lease of the dead worker lapses


async def record(node: Node, task_id: str, version: int, step_id: str, step: str) -> None:
    """Create and settle a step's promise in one commit, only as long as this worker drives the task."""
    tags = {"resonate:branch": task_id, "resonate:parent": task_id, "resonate:origin": task_id}
    made = CreateAction(PromiseCreate(step_id, FAR, tags=tags))
    settled = SettleAction(PromiseSettle(step_id, "resolved", value(step)))
    fences = [TaskFence(task_id, version, made), TaskFence(task_id, version, settled)]
    check(await node.request([ask("task.fence", fence) for fence in fences]))


def check(replies: list[Reply]) -> None:
    for reply in replies:
        if reply.status != 200:
            raise SystemExit(f"refused: {reply.data}")


async def place_order(path: Path) -> None:
    tags = {
        "resonate:target": "poll://any@orders",
        "resonate:branch": "order-17",
        "resonate:origin": "order-17",
    }
    async with Node(SqliteStore(path)) as node:
        check(
            await node.request(
                [ask("promise.create", PromiseCreate("order-17", FAR, value("a kettle"), tags))]
            )
        )


async def show(path: Path) -> None:
    async with Node(SqliteStore(path)) as node:
        root, steps = await node.request(
            [
                ask("promise.get", PromiseGet("order-17")),
                ask("promise.search", PromiseSearch(prefix="order-17:")),
            ]
        )
        assert isinstance(root.data, PromiseReply)
        assert isinstance(steps.data, PromisesReply)
        order, found = root.data.promise, steps.data.promises
        print(f"\n  {order.id}  {order.state}: {text_of(order)}")
        for index, step in enumerate(found):
            branch = "└─" if index == len(found) - 1 else "├─"
            print(f"  {branch} {step.id}  {step.state}: {text_of(step)}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = Path(folder) / "holdfast.db"
        print("An order of three steps, one SQLite file, and a worker that will not live long.\n")
        asyncio.run(place_order(path))
        say("customer", "places 'order-17'")
        first = start("worker-1", path)
        assert first.stdout is not None
        for line in first.stdout:
            sys.stdout.write(line)
            if "charge card" in line:
                first.send_signal(signal.SIGKILL)
                break
        first.wait()
        first.stdout.close()
        say("you", "kill -9 worker-1")
        say("node", f"waits for its lease to lapse ({LEASE_MS / 1000} s)")
        second = start("worker-2", path)
        assert second.stdout is not None
        for line in second.stdout:
            sys.stdout.write(line)
        second.stdout.close()
        if second.wait() != 0:
            raise SystemExit("worker-2 failed")
        asyncio.run(show(path))
        print("\n  Each step ran once, nothing on disk was lost, and no two workers ever held the order.")


def start(name: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, name, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(worker(sys.argv[1], Path(sys.argv[2])))
    else:
        main()
