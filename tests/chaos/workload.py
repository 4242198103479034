"""What the campaign runs: workflows whose results and effects can be written down beforehand.

Run as a program it is a worker, until it is killed. Every effect is a line in a ledger outside, which refuses
whoever has been replaced (its token is older than one it has seen for that execution). No step is retried, so
one holder tries each step at most once: a second try under one token would be a doubled effect.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

import holdfast as hf
from holdfast.payloads.payloads import Payloads

LEASE_S = 1.0
WIDTH, DEPTH = 3, 2
FAN = 6
KINDS = ("tree", "saga", "fan", "approval", "nap", "errand")
TICK_MS = 1_000


class Replaced(Exception):
    """Somebody else drives this execution now."""


class OutOfStock(Exception):
    """An order that must be undone."""


class Ledger:
    """Outside: what really happened."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        with closing(self._open()) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = OFF")
            file.execute(
                "CREATE TABLE IF NOT EXISTS lines (execution TEXT, step TEXT, what TEXT, token INTEGER)"
            )
            file.execute(
                "CREATE TABLE IF NOT EXISTS tries (execution TEXT, step TEXT, what TEXT, token INTEGER)"
            )
            file.execute("CREATE INDEX IF NOT EXISTS by_step ON lines (step)")
            file.execute("CREATE INDEX IF NOT EXISTS by_execution ON tries (execution)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60, isolation_level=None)

    def enter(self, what: str) -> None:
        """Once per step or background task, by whoever has the newest token."""
        info = hf.current()
        step = info.step or info.id
        with closing(self._open()) as file:
            file.execute("INSERT INTO tries VALUES (?, ?, ?, ?)", (info.id, step, what, info.token))
            time.sleep(0.01)  # a kill or a freeze may fall between the try and its effect
            file.execute("BEGIN IMMEDIATE")
            newest = file.execute("SELECT max(token) FROM tries WHERE execution = ?", (info.id,)).fetchone()[
                0
            ]
            if info.token < newest:
                file.execute("ROLLBACK")
                raise Replaced(f"{info.id} is at {newest}, not {info.token}")
            if file.execute("SELECT 1 FROM lines WHERE step = ?", (step,)).fetchone() is None:
                file.execute("INSERT INTO lines VALUES (?, ?, ?, ?)", (info.id, step, what, info.token))
            file.execute("COMMIT")

    def lines(self) -> list[tuple[str, str]]:
        with closing(self._open()) as file:
            return [(str(row[0]), str(row[1])) for row in file.execute("SELECT execution, what FROM lines")]

    def tried_twice(self) -> list[Any]:
        """Steps that one holder began more than once."""
        with closing(self._open()) as file:
            query = "SELECT step, token, count(*) FROM tries GROUP BY step, token HAVING count(*) > 1"
            return file.execute(query).fetchall()

    def counts(self) -> tuple[int, int]:
        with closing(self._open()) as file:
            [[tries]], [[lines]] = (file.execute(f"SELECT count(*) FROM {t}") for t in ("tries", "lines"))
            return int(tries), int(lines)


def open_app(url: str, ledger: Ledger, *, lease_s: float = LEASE_S, worker: bool = True) -> hf.App:
    app = hf.App(url, concurrency=12, lease=lease_s, worker=worker)
    never = hf.Retry.never()

    def act(what: str) -> str:
        ledger.enter(what)
        return what

    def square(number: int, index: int) -> int:
        ledger.enter(f"square {index}")
        return (number + index) ** 2

    def ship(number: int) -> str:
        if number % 3 == 0:
            raise OutOfStock(number)
        ledger.enter("ship")
        return "shipped"

    @app.workflow
    async def tree(width: int, depth: int) -> int:
        if depth == 0:
            return 1
        return sum(await hf.gather(*(hf.call(tree, width, depth - 1) for _ in range(width))))

    @app.workflow
    async def saga(number: int) -> str:
        done: list[str] = []
        try:
            for what in ("reserve", "charge"):
                await hf.run(act, what, retry=never)
                done.append(what)
            return await hf.run(ship, number, retry=never)
        except OutOfStock:
            for what in reversed(done):
                await hf.run(act, f"undo {what}", retry=never)
            return "undone"

    @app.workflow
    async def fan(number: int) -> int:
        return sum(await hf.gather(*(hf.run(square, number, index, retry=never) for index in range(FAN))))

    @app.workflow
    async def approval(number: int) -> str:
        await hf.run(act, "ask", retry=never)
        answer = hf.promise(bool)
        if not await answer:
            return "refused"
        return await hf.run(act, "publish", retry=never)

    @app.workflow
    async def nap(number: int) -> int:
        await hf.run(act, "lie down", retry=never)
        await hf.sleep(0.05 * (number % 5))
        tag, _ = await hf.select(work=hf.run(act, "work", retry=never), late=hf.sleep("3s"))
        await hf.run(act, f"saw {tag}", retry=never)
        return number

    @app.workflow
    async def tick() -> None:
        """What the schedule starts."""
        await hf.run(act, "tick", retry=never)

    @app.task(name="errand", retry=hf.Retry.fixed([0.1] * 20, retry_for=["WORKER_CRASHED"]))
    def errand(number: int) -> int:
        ledger.enter("errand")
        return number + 1

    return app


def schedule_of(app: hf.App) -> dict[str, Any]:
    """The data of a schedule that starts a tick every second."""
    return {
        "id": "tick",
        "cron": f"@every {TICK_MS // 1000}s",
        "promiseId": "{{.id}}-{{.timestamp}}",
        "promiseTimeout": 2**50,
        "promiseParam": msgspec.to_builtins(Payloads().encode_call("tick", (), {}, 1)),
        "promiseTags": {"resonate:target": f"poll://any@{app.settings.group}"},
        "catchUp": 60,
    }


def arguments_of(kind: str, number: int) -> tuple[Any, ...]:
    return (WIDTH, DEPTH) if kind == "tree" else (number,)


def result_of(kind: str, number: int) -> Any:
    match kind:
        case "tree":
            return WIDTH**DEPTH
        case "saga":
            return "undone" if number % 3 == 0 else "shipped"
        case "fan":
            return sum((number + index) ** 2 for index in range(FAN))
        case "approval":
            return "publish" if approves(number) else "refused"
        case "errand":
            return number + 1
        case _:
            return number


def effects_of(kind: str, number: int) -> list[str]:
    match kind:
        case "tree":
            return []
        case "saga":
            return ["reserve", "charge"] + (["undo charge", "undo reserve"] if number % 3 == 0 else ["ship"])
        case "fan":
            return [f"square {index}" for index in range(FAN)]
        case "approval":
            return ["ask", "publish"] if approves(number) else ["ask"]
        case "errand":
            return ["errand"]
        case _:
            return ["lie down", "work", "saw work"]


def are_effects_of(kind: str, number: int, found: list[str]) -> bool:
    """Whether exactly this happened. In a nap the clock may win the race, but only one is ever seen."""
    wanted = [effects_of(kind, number)]
    if kind == "nap":
        wanted += [["lie down", "work", "saw late"], ["lie down", "saw late"]]
    return sorted(found) in [sorted(effects) for effects in wanted]


def tasks_of(kind: str) -> int:
    """How many tasks one execution has, its own included."""
    return sum(WIDTH**level for level in range(DEPTH + 1)) if kind == "tree" else 1


def approves(number: int) -> bool:
    return number % 4 != 0


def main(url: str, ledger: str, lease_s: float) -> None:
    with open_app(url, Ledger(ledger), lease_s=lease_s):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
