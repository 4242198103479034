"""Functions for steps in processes of their own: the child imports them from here."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast.runtime import step_signal
from holdfast.steps.child import is_child
from holdfast.steps.here import current_attempt
from holdfast.workflow.functions import current
from holdfast.workflow.step_functions import step


@dataclass
class Basket:
    items: list[str]
    total: Decimal


class Spoiled(Exception):
    def __init__(self, item: str) -> None:
        super().__init__(f"the {item} is spoiled")
        self.item = item


def pay(basket: Basket, tip: Decimal = Decimal(0)) -> Basket:
    assert isinstance(basket, Basket)
    print("this goes to standard error, not into the answers")
    return Basket(basket.items, basket.total + tip)


async def pay_async(basket: Basket) -> Decimal:
    await asyncio.sleep(0)
    return basket.total


def spoil(item: str) -> None:
    raise Spoiled(item)


def leave() -> None:
    sys.exit(3)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def vanish() -> None:
    os._exit(7)


def pid() -> int:
    return os.getpid()


def die_first(pids: str) -> int:
    with Path(pids).open("a") as file:
        file.write(f"{os.getpid()}\n")
    if current_attempt() == 1:
        die()
    return current_attempt()


def forever(pids: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with Path(pids).open("a") as file:
        file.write(f"{os.getpid()}\n{child.pid}\n")
    while True:
        time.sleep(0.01)


def is_wanted() -> bool:
    return not step_signal().is_set


def give_an_object() -> object:
    return object()


def who_am_i() -> list[Any]:
    """What `current()` says inside a step in a process of its own."""
    info = current()
    deadline = None if info.deadline is None else info.deadline.isoformat()
    return [info.id, info.step, info.token, info.workflow, deadline, current_attempt(), os.getpid()]


def attempt_in_the_end(path: str) -> int:
    """Fails in the first two attempts; then says which it is."""
    with Path(path).open("a+") as tries:
        tries.write("x")
        tries.seek(0)
        if len(tries.read()) < 3:
            raise ConnectionError
    return current().attempt


@step(mode="process")
def declared_square(number: int) -> int:
    return number * number if is_child() else -1
