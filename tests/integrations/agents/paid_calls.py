"""A ledger outside: a line for each call of a model or a tool that was made, whoever made it. And where the
process that makes them is killed: before a call, inside of it (it is paid for, and not recorded), or after it
was recorded."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import holdfast as hf
from holdfast.steps.observer import EndedOperation, Observer


class Point(NamedTuple):
    side: Literal["before", "inside", "after"]
    number: int  # of the call, from 1


class PaidCalls(Observer):
    """What the agents of the tests call first, wherever something would be paid for."""

    def __init__(self, ledger: Path, point: Point | None) -> None:
        self._ledger = ledger
        self._point = point

    def pay(self, what: str) -> None:
        number = len(entries(self._ledger)) + 1
        self._perhaps_die("before", number)
        with self._ledger.open("a") as ledger:
            ledger.write(json.dumps({"what": what, "step": hf.current().step}) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        self._perhaps_die("inside", number)

    def operation_ended(self, ended: EndedOperation) -> None:
        """Told after the commit that records it."""
        if ended.kind == "step":
            self._perhaps_die("after", len(entries(self._ledger)))

    def _perhaps_die(self, side: str, number: int) -> None:
        if self._point is not None and (side, number) == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


Build = Callable[[hf.App, PaidCalls], Any]  # gives the workflow


def entries(ledger: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
