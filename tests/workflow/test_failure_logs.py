"""What fails is logged: once, with who, what, which attempt and why, and never again by a replay."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World as AppWorld
from tests.workflow.world import World, virtual

Records = list[logging.LogRecord]


@pytest.fixture
def logged() -> Iterator[Records]:
    records: Records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record)  # type: ignore[method-assign]
    log = logging.getLogger("holdfast")
    log.addHandler(handler)
    yield records
    log.removeHandler(handler)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    names = ("levelname", "execution", "workflow", "step", "attempt", "code")
    return {name: vars(record)[name] for name in names if name in vars(record)}


class Declined(Exception):
    pass


tries: list[int] = []


async def pay() -> str:
    tries.append(1)
    if len(tries) < 3:
        raise Declined("not yet")
    return "paid"


async def refuse() -> None:
    raise Declined("never")


@virtual
async def test_each_attempt_of_a_step_that_fails_is_logged_once_though_it_is_replayed(
    world: World, logged: Records
) -> None:
    tries.clear()

    @world.workflow
    async def flow() -> str:
        paid = await hf.run(pay, retry=hf.Retry(attempts=3, delay=1))
        await hf.promise()
        return str(paid)

    first = world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    world.worker()
    await world.settle("x:2")
    assert await world.result("x") == "paid"
    told = [fields(record) for record in logged if record.levelno >= logging.WARNING]
    common = {"levelname": "WARNING", "execution": "x", "workflow": "flow", "step": "pay", "code": "Declined"}
    assert told == [common | {"attempt": 1}, common | {"attempt": 2}]
    first_told = logged[0]
    assert "step pay of flow x failed in attempt 1 and will be tried again in" in first_told.getMessage()
    assert "Declined: not yet" in first_told.getMessage()
    assert first_told.exc_info is not None
    assert first_told.exc_info[0] is Declined
    assert vars(first_told)["worker"] == "w1"
    assert vars(first_told)["promise"] == "x:1"


@virtual
async def test_the_last_attempt_and_the_failed_execution_are_errors(world: World, logged: Records) -> None:
    @world.workflow
    async def flow() -> None:
        await hf.run(refuse, retry=hf.Retry(attempts=2, delay=1))

    world.worker()
    await world.start(flow, id="x")
    await world.settled("x")
    await asyncio.sleep(1)
    told = [(record.levelname, record.getMessage()) for record in logged]
    assert [level for level, _ in told] == ["WARNING", "ERROR", "ERROR"]
    assert (
        told[1][1] == "step refuse of flow x failed in attempt 2 and will not be tried again: Declined: never"
    )
    assert told[2][1] == "flow x failed: Declined: never"
    assert fields(logged[2])["code"] == "Declined"
    assert logged[2].exc_text is not None
    assert "refuse" in logged[2].exc_text, "the traceback of the step is in it"


def test_a_cancelled_execution_is_no_failure(logged: Records) -> None:
    async def slow() -> None:
        await asyncio.sleep(1_000)

    app = hf.App()

    @app.workflow
    async def flow() -> None:
        await hf.run(slow)

    with AppWorld(app) as world:
        handle = app.start(flow)
        world.elapse(10)
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
    assert [record.getMessage() for record in logged if record.levelno >= logging.WARNING] == []


@virtual
async def test_a_lost_lease_and_the_takeover_are_logged_once_each(world: World, logged: Records) -> None:
    @world.workflow
    async def flow() -> None:
        await hf.run(asyncio.sleep, 100)

    first = world.worker()
    await world.start(flow, id="x")
    await asyncio.sleep(5)
    first.freeze()
    second = world.worker()
    await asyncio.sleep(60)
    first.thaw()
    await world.settled("x")
    await asyncio.sleep(100)
    told = [record for record in logged if record.levelno == logging.WARNING and hasattr(record, "attempt")]
    lost, taken = sorted(told, key=lambda record: record.getMessage())
    assert lost.getMessage() == "flow x is no longer driven by w1: its lease is over"
    assert taken.getMessage() == "flow x is taken over by w2: the lease of w1 lapsed"
    assert (vars(taken)["worker"], vars(taken)["attempt"]) == (second.name, 2)
    assert not [record for record in logged if record.levelno > logging.WARNING]


@virtual
async def test_stopping_a_worker_is_no_lost_lease(world: World, logged: Records) -> None:
    @world.workflow
    async def flow() -> None:
        await hf.run(asyncio.sleep, 100)

    first = world.worker()
    await world.start(flow, id="x")
    await asyncio.sleep(5)
    await first.stop(grace_s=0)
    world.worker()
    await world.settled("x")
    assert [record.getMessage() for record in logged if record.levelno >= logging.WARNING] == []


@virtual
async def test_what_cannot_be_run_here_is_a_warning_with_its_code(world: World, logged: Records) -> None:
    world.worker()
    await world.start("unheard of", id="x")
    await asyncio.sleep(0.5)
    [record] = [each for each in logged if each.levelno >= logging.WARNING]
    assert record.levelno == logging.WARNING
    assert fields(record)["code"] == "HF5104"
    assert "x cannot be run here and will be offered again in 1 s" in record.getMessage()


@virtual
async def test_control_characters_of_users_are_escaped_in_logs(world: World, logged: Records) -> None:
    async def shout() -> None:
        raise Declined("\x1b]0;owned\x07 \u202e\n2026-01-01 ERROR forged")

    @world.workflow
    async def flow() -> None:
        await hf.run(shout, name="st\x1b[31mep")

    world.worker()
    await world.start(flow, id="x\x9b31m")
    await world.settled("x\x9b31m")
    await asyncio.sleep(1)
    formatter = logging.Formatter("%(message)s %(execution)s %(step)s", defaults={"step": ""})
    text = "".join(formatter.format(record) for record in logged)
    assert "step st\\x1b[31mep of flow x\\x9b31m failed" in text
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert all("\n" not in record.getMessage() for record in logged)


def test_an_execution_that_fails_is_logged_once_in_a_test_world(logged: Records) -> None:
    app = hf.App()

    @app.workflow
    async def flow() -> None:
        raise Declined("no")

    with AppWorld(app), pytest.raises(Declined):
        app.start(flow).result()
    assert [record.levelname for record in logged] == ["ERROR"]


SCRIPT = """
import holdfast as hf

app = hf.App("memory:")

def charge():
    raise ConnectionError("the bank is away")

@app.workflow
async def checkout():
    await hf.run(charge, retry=hf.Retry(attempts=2, delay="1ms"))

try:
    app.start(checkout, id="order-17").result()
except ConnectionError:
    print("failed")
"""


def test_a_script_that_configures_no_logging_shows_what_failed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "failed\n"
    for attempt, follows in ((1, "will be tried again in"), (2, "will not be tried again")):
        assert f"step charge of checkout order-17 failed in attempt {attempt} and {follows}" in done.stderr
    assert "checkout order-17 failed: ConnectionError: the bank is away" in done.stderr
    assert f'File "{script}", line 7, in charge' in done.stderr


STUBBORN = """
import threading
import holdfast as hf

app = hf.App("memory:")
begun = threading.Event()

@app.workflow
async def stubborn():
    await hf.run(begun.set)
    while True:
        try:
            await hf.sleep("1d")
        except:
            continue

with app:
    app.start(stubborn, id="order-17")
    begun.wait()
print("closed")
"""


def test_closing_ends_though_a_workflow_catches_everything_and_the_line_is_logged(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STUBBORN)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60)
    assert done.stdout == "closed\n"
    [line] = [line for line in done.stderr.splitlines() if "was given up" in line]
    assert "order-17" in line
    assert f'File "{script}", line 13, in stubborn' in line
