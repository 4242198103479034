"""Steps in processes of their own: real children, really killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime import Signal, named
from holdfast.worker.errors import (
    StepCalledOff,
    StepExited,
    StepNotImportable,
    StepProcessDied,
    StepTimedOut,
    UnencodablePayload,
)
from holdfast.worker.fault import remote_traceback
from holdfast.worker.retry import Retry
from holdfast.worker.steps import Outcome, StepRunner
from tests.worker import processed
from tests.worker.processed import Basket, Spoiled
from tests.worker.test_steps import start, step
from tests.worker.waiting import until

ROOT = Path(__file__).parents[2]
TINY = Retry(attempts=3, delay=0.001, jitter=0)
BASKET = Basket(["tea"], Decimal("1.10"))


@pytest.fixture
async def runner() -> AsyncIterator[StepRunner]:
    runner = StepRunner(processes_max=2)
    yield runner
    await runner.close()
    assert not children()


async def outcome_of(runner: StepRunner, function: Any, *args: Any, **options: Any) -> Outcome:
    return await start(runner, step(function, *args), mode="process", **options)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def children() -> list[str]:
    task = f"/proc/self/task/{threading.main_thread().native_id}/children"
    return Path(task).read_text("ascii").split()


def pids_of(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


async def pids_in(file: Path, count: int) -> list[int]:
    await until(lambda: len(pids_of(file)) == count)
    return pids_of(file)


async def gone(pids: list[int]) -> None:
    await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_a_step_runs_in_another_process_typed_on_both_sides(runner: StepRunner) -> None:
    assert (await outcome_of(runner, processed.pid)).value != os.getpid()
    assert (await outcome_of(runner, processed.pay, BASKET, Decimal(1))).value == Basket(
        ["tea"], Decimal("2.10")
    )
    assert (await outcome_of(runner, processed.pay_async, BASKET)).value == Decimal("1.10")
    assert (await outcome_of(runner, named("renamed", processed.pay), BASKET)).value == BASKET
    assert (await outcome_of(runner, processed.is_wanted)).value is True


async def test_children_are_used_again_and_bounded(runner: StepRunner) -> None:
    outcomes = await asyncio.gather(*(outcome_of(runner, processed.pid) for _ in range(20)))
    assert len({outcome.value for outcome in outcomes}) <= 2


async def test_an_error_crosses_as_itself_with_its_traceback(runner: StepRunner) -> None:
    error = (await outcome_of(runner, processed.spoil, "milk")).error
    assert isinstance(error, Spoiled)
    assert error.item == "milk"
    assert "in spoil" in (remote_traceback(error) or "")


async def test_an_exit_fails_the_step_and_the_child_lives_on(runner: StepRunner) -> None:
    before = (await outcome_of(runner, processed.pid)).value
    assert isinstance((await outcome_of(runner, processed.leave)).error, StepExited)
    assert (await outcome_of(runner, processed.pid)).value == before


@pytest.mark.parametrize(
    ("function", "says"), [(processed.die, "killed by SIGKILL"), (processed.vanish, "ended with status 7")]
)
async def test_a_child_that_dies_fails_its_step_only(runner: StepRunner, function: Any, says: str) -> None:
    deadly, *others = await asyncio.gather(
        outcome_of(runner, function), *(outcome_of(runner, processed.pid) for _ in range(6))
    )
    assert isinstance(deadly.error, StepProcessDied)
    assert says in str(deadly.error)
    assert [other.error for other in others] == [None] * 6


async def test_a_step_whose_child_died_is_tried_again_in_another(runner: StepRunner, tmp_path: Path) -> None:
    outcome = await outcome_of(runner, processed.die_first, str(tmp_path / "pids"), retry=TINY)
    assert (outcome.value, outcome.attempts) == (2, 2)
    assert len(set(await pids_in(tmp_path / "pids", 2))) == 2


async def test_a_child_killed_from_outside_in_the_middle_of_a_step(
    runner: StepRunner, tmp_path: Path
) -> None:
    outcome = start(runner, step(processed.forever, str(tmp_path / "pids")), mode="process")
    victim, grandchild = await pids_in(tmp_path / "pids", 2)
    os.kill(victim, signal.SIGKILL)
    assert isinstance((await outcome).error, StepProcessDied)
    os.kill(grandchild, signal.SIGKILL)


async def test_an_idle_child_that_was_killed_is_replaced(runner: StepRunner) -> None:
    victim = (await outcome_of(runner, processed.pid)).value
    os.kill(victim, signal.SIGKILL)
    await gone([victim])
    await asyncio.sleep(0.05)
    outcome = await outcome_of(runner, processed.pid, retry=TINY)
    assert outcome.value not in (None, victim)


async def test_a_time_limit_kills_the_child_and_all_it_started(runner: StepRunner, tmp_path: Path) -> None:
    outcome = await outcome_of(runner, processed.forever, str(tmp_path / "pids"), time_limit_s=1.0)
    assert isinstance(outcome.error, StepTimedOut)
    await gone(await pids_in(tmp_path / "pids", 2))
    assert (await outcome_of(runner, processed.pid)).error is None


async def test_being_called_off_kills_the_child(runner: StepRunner, tmp_path: Path) -> None:
    above = Signal()
    outcome = start(runner, step(processed.forever, str(tmp_path / "pids"), above=above), mode="process")
    pids = await pids_in(tmp_path / "pids", 2)
    above.set(ValueError())
    assert isinstance((await outcome).error, StepCalledOff)
    await gone(pids)


async def test_being_called_off_while_the_child_is_made_forgets_none(runner: StepRunner) -> None:
    for turns in range(12):
        above = Signal()
        outcome = start(runner, step(processed.pid, above=above), mode="process")
        for _ in range(turns):
            await asyncio.sleep(0)
        above.set(ValueError())
        assert isinstance((await outcome).error, StepCalledOff)


async def test_closing_kills_the_children(runner: StepRunner, tmp_path: Path) -> None:
    other = StepRunner()
    outcome = start(other, step(processed.forever, str(tmp_path / "pids")), mode="process")
    pids = await pids_in(tmp_path / "pids", 2)
    await other.close()
    assert isinstance((await outcome).error, StepCalledOff)
    await gone(pids)


async def test_waiting_for_a_free_child_does_not_count_as_time(runner: StepRunner) -> None:
    outcomes = await asyncio.gather(
        *(outcome_of(runner, time.sleep, 0.4, time_limit_s=2.0) for _ in range(12))
    )
    assert [outcome.error for outcome in outcomes] == [None] * 12


@pytest.mark.parametrize("function", [lambda: 1, "".join])
async def test_a_function_that_the_child_cannot_import_is_refused(runner: StepRunner, function: Any) -> None:
    outcome = await outcome_of(runner, function, retry=TINY)
    assert isinstance(outcome.error, StepNotImportable)
    assert outcome.attempts == 1


async def test_what_cannot_cross_is_refused(runner: StepRunner) -> None:
    assert isinstance((await outcome_of(runner, processed.spoil, object())).error, UnencodablePayload)
    assert isinstance((await outcome_of(runner, processed.give_an_object)).error, UnencodablePayload)


async def test_large_values_cross(runner: StepRunner) -> None:
    basket = Basket(["x" * 1000] * 3000, Decimal(1))
    assert (await outcome_of(runner, processed.pay, basket)).value == basket


SCRIPT = """
import asyncio
from holdfast.runtime import Signal, Step
from holdfast.worker.steps import StepCall, StepRunner

def square(number: int) -> int:
    return number * number

async def main() -> None:
    runner = StepRunner()
    outcome = runner.loop.create_future()
    runner.start(StepCall(Step("square", square, (7,), {}, Signal()), mode="process"), outcome.set_result)
    print((await outcome).result())
    await runner.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]])
def test_a_function_of_the_main_script_can_be_a_process_step(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("49\n", "")


ORPHAN = """
import asyncio, sys
from holdfast.runtime import Signal, Step
from holdfast.worker.steps import StepCall, StepRunner
from tests.worker.processed import forever

async def main() -> None:
    runner = StepRunner()
    runner.start(StepCall(Step("f", forever, (sys.argv[1],), {}, Signal()), mode="process"), print)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ORPHAN, str(tmp_path / "pids")]
    parent = await asyncio.create_subprocess_exec(*command, env=environment)
    child, grandchild = await pids_in(tmp_path / "pids", 2)
    parent.kill()
    await parent.wait()
    await gone([child])
    os.kill(grandchild, signal.SIGKILL)
