"""A small shop, as a user would write it, and the process that runs it until it is killed.

Every payment is an effect outside: a line in a ledger that takes no line from a replaced worker (its token is
older than one it has seen for that order) and none twice. `tries` counts how often a step was begun.
"""

import sqlite3
import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.app import App
from holdfast.runtime import gather, spawn
from holdfast.workflow import functions as hf

lease = "1500ms"


@dataclass
class Order:
    number: int
    items: list[str]


class Declined(Exception):
    pass


class Replaced(Exception):
    """Somebody else drives this execution now."""


class Ledger:
    def __init__(self, path: Path | str) -> None:
        self.path = path
        with closing(self._open()) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("CREATE TABLE IF NOT EXISTS lines (execution TEXT, what TEXT, token INTEGER)")
            file.execute("CREATE TABLE IF NOT EXISTS tries (execution TEXT, what TEXT, token INTEGER)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=20, isolation_level=None)

    def enter(self, what: str, seconds: float = 0.01) -> None:
        """Once, by whoever has the newest token."""
        execution, token = hf.current().id, hf.current().token
        with closing(self._open()) as file:
            file.execute("INSERT INTO tries VALUES (?, ?, ?)", (execution, what, token))
            time.sleep(seconds)
            file.execute("BEGIN IMMEDIATE")
            newest = file.execute(
                "SELECT max(token) FROM tries WHERE execution = ?", (execution,)
            ).fetchone()[0]
            if token < newest:
                file.execute("ROLLBACK")
                raise Replaced(f"{execution} is at {newest}, not {token}")
            line = "SELECT 1 FROM lines WHERE execution = ? AND what = ?"
            if file.execute(line, (execution, what)).fetchone() is None:
                file.execute("INSERT INTO lines VALUES (?, ?, ?)", (execution, what, token))
            file.execute("COMMIT")

    def lines(self) -> list[tuple[str, str]]:
        with closing(self._open()) as file:
            return [(row[0], row[1]) for row in file.execute("SELECT execution, what FROM lines")]

    def tries(self) -> int:
        with closing(self._open()) as file:
            return int(file.execute("SELECT count(*) FROM tries").fetchone()[0])


def open_shop(url: str, ledger: Ledger, **settings: Any) -> App:
    app = App(url, lease=lease, **settings)

    def pay(order: Order) -> int:
        ledger.enter("pay")
        return order.number * 100

    def pack(item: str) -> str:
        ledger.enter(f"pack {item}")
        return item.upper()

    async def look_up(number: int) -> int:
        return number + 1

    def decline() -> None:
        raise Declined("card", 51)

    @app.workflow
    def invoice(number: int) -> Generator[Any, Any, str]:
        next_number = yield from hf.run(look_up, number)
        yield from hf.sleep(0.02)
        return f"invoice {next_number}"

    @app.workflow
    async def order(order: Order) -> list[Any]:
        paid = await hf.run(pay, order)
        invoiced = spawn(_invoiced(order.number))
        packed = await gather(*(hf.run(pack, item) for item in order.items))
        await hf.sleep("50ms")
        return [paid, *packed, await invoiced]

    async def _invoiced(number: int) -> str:
        answer: str = await hf.call(invoice, number)
        return answer

    @app.workflow
    async def refused() -> None:
        await hf.run(decline)

    return app


def order_of(number: int) -> Order:
    return Order(number, [f"tea {number}", f"cup {number}"])


def receipt_of(number: int) -> list[Any]:
    return [number * 100, f"TEA {number}", f"CUP {number}", f"invoice {number + 1}"]


def effects_of(number: int) -> list[tuple[str, str]]:
    name = f"order-{number}"
    return sorted([(name, "pay"), (name, f"pack tea {number}"), (name, f"pack cup {number}")])


def main(url: str, ledger: str, count: int) -> None:
    """Be a worker. With a count, also start that many orders and end when all have their receipts."""
    with open_shop(url, Ledger(ledger)) as app:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not count:
            time.sleep(600)
        handles = [app.start("order", order_of(number), id=f"order-{number}") for number in range(count)]
        receipts = [handle.result(120) for handle in handles]
        assert receipts == [receipt_of(number) for number in range(count)], receipts
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
