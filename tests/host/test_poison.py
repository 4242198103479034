"""Executions that kill their worker, or whose code is not there; a step that waits while its worker is
killed, and an import that goes on. Real processes that die."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.processes import environment, holdfast

WORKER = """
import os, sys, time
from pathlib import Path
import holdfast as hf

here = Path(sys.argv[1])
app = hf.App(f"sqlite:///{here}/poison.db", lease="1s")

def note(word):
    with open(here / "calls", "a") as calls:
        calls.write(word + "\\n")

def poison():
    note("poison")
    if not (here / "cured").exists():
        os._exit(9)
    return "cured"

def flaky():
    note(f"attempt {hf.current().attempt}")
    if hf.current().attempt < 3:
        raise ConnectionError("down")
    return "up"

@app.task(retry=hf.Retry(attempts=3, delay="0.1s", jitter=0))
def load_rows(count: int) -> int:
    told = hf.current().progress
    for row in range(1 if told is None else told.fields["rows"] + 1, count + 1):
        note(f"row {row}")
        hf.progress(row / count, rows=row)
        while row == 6 and not (here / "cured").exists():
            time.sleep(0.01)  # until somebody kills this process
    return count

@app.workflow(crashes=3)
async def poisoned() -> str:
    return await hf.run(poison)

@app.workflow
async def patient() -> str:
    return await hf.run(flaky, retry=hf.Retry(attempts=3, delay="5s", factor=1, jitter=0))

with app:
    if sys.argv[2] != "-":
        work = globals()[sys.argv[2]].with_options(id=sys.argv[2])
        work.send(10) if work.callee_name == "load_rows" else work.start()
    print("ready", flush=True)
    time.sleep(600)
"""


class Yard:
    """A database, and processes that work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/poison.db"
        (folder / "worker.py").write_text(WORKER)

    def worker(self, workflow: str = "-") -> subprocess.Popen[str]:
        command = [sys.executable, str(self.folder / "worker.py"), str(self.folder), workflow]
        return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_an_execution_that_kills_its_worker_is_halted_and_goes_on_when_it_is_resumed(yard: Yard) -> None:
    for number in range(3):
        worker = yard.worker("poisoned" if number == 0 else "-")
        assert worker.wait(timeout=60) == 9, "it dies as soon as it has taken the execution"
        worker.communicate()
    assert yard.calls == ["poison"] * 3
    app = hf.App(yard.url, worker=False)
    with app:
        handle = app.handle("poisoned")
        until(lambda: handle.info().state == "halted")
        info = handle.info()
        assert info.error_code == "HF1408"
        assert info.error is not None
        assert info.error.startswith("its worker died 3 times in a row without progress")
        (yard.folder / "cured").touch()
        outcome = holdfast("tasks", "continue", "poisoned", "--server", yard.url)
        assert outcome.code == 0, outcome
    worker = yard.worker()
    try:
        with app:
            assert app.handle("poisoned").result() == "cured"
    finally:
        worker.kill()
        worker.communicate()


def test_a_step_that_waits_for_its_next_attempt_survives_kill_9(yard: Yard) -> None:
    worker = yard.worker("patient")
    assert worker.stdout is not None
    for count in (1, 2):
        until(partial(has_called, yard, count))
        os.kill(worker.pid, 9)
        worker.communicate()
        worker = yard.worker()
    try:
        until(lambda: "attempt 3" in yard.calls)
    finally:
        worker.kill()
        worker.communicate()
    assert set(yard.calls) == {"attempt 1", "attempt 2", "attempt 3"}


def test_an_import_that_is_killed_goes_on_from_the_progress_that_it_has_told(yard: Yard) -> None:
    worker = yard.worker("load_rows")
    with hf.App(yard.url, worker=False) as app:
        handle = app.task_handle("load_rows")
        until(lambda: rows_told(handle) == 6)
        os.kill(worker.pid, 9)
        worker.communicate()
        (yard.folder / "cured").touch()
        worker = yard.worker()
        try:
            assert handle.get(60).ok_value == 10
        finally:
            worker.kill()
            worker.communicate()
    assert yard.calls == [f"row {row}" for row in range(1, 11)], "no row was loaded twice"


def rows_told(handle: hf.types.TaskHandle[Any, Any]) -> int | None:
    try:
        progress = handle.info().progress
    except hf.errors.TaskNotFound:
        return None
    return None if progress is None else progress.fields["rows"]


def has_called(yard: Yard, count: int) -> bool:
    return f"attempt {count}" in yard.calls


def until(reached: Callable[[], bool]) -> None:
    for _ in range(1_200):
        if reached():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that in a minute")
