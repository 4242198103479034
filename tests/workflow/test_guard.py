"""Calls that a replay could not repeat are found in the code of workflows, and nowhere else."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import random
import secrets
import socket
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere
from holdfast.testing.crashes import CrashFailure
from holdfast.workflow.errors import NondeterminismWarning, NondeterministicCall
from holdfast.workflow.guard import calls_of_a_run_max, first_runs, guard, has_monitoring

monitored = pytest.mark.skipif(not has_monitoring, reason="Python 3.11 has no sys.monitoring")
profiled = pytest.mark.skipif(has_monitoring, reason="only Python 3.11 has to look at every call")


def opens_a_file() -> None:
    with open(__file__):  # noqa: PTH123
        pass


def starts_a_thread() -> None:
    threading.Thread(target=int).start()


def submits_to_a_thread() -> None:
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int)


def maps_over_threads() -> None:
    with ThreadPoolExecutor(1) as executor:
        list(executor.map(int, ["1"]))


CALLS: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "time.monotonic": lambda: time.monotonic(),
    "datetime.now": lambda: datetime.datetime.now(),  # noqa: DTZ005
    "datetime.utcnow": lambda: datetime.datetime.utcnow(),  # noqa: DTZ003  # pyright: ignore[reportDeprecated]
    "datetime.today": lambda: datetime.datetime.today(),  # noqa: DTZ002
    "date.today": lambda: datetime.date.today(),  # noqa: DTZ011
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice([1]),
    "random.randint": lambda: random.randint(1, 2),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "os.urandom": lambda: os.urandom(1),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "open": opens_a_file,
    "Path.read_text": lambda: Path(__file__).read_text(),
    "input": lambda: input(),
    "socket.socket": lambda: socket.socket().close(),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 1),
    "Thread.start": starts_a_thread,
    "ThreadPoolExecutor.submit": submits_to_a_thread,
    "Executor.map": maps_over_threads,
}

HARMLESS: dict[str, Callable[[], Any]] = {
    "a generator with a seed": lambda: random.Random(3).choice([1, 2, 3]),
    "a logger": lambda: logging.getLogger("anything").warning("it has read the clock"),
    "an instant that is known": lambda: datetime.datetime.fromtimestamp(0, datetime.UTC),
    "a uuid of a name": lambda: uuid.uuid5(uuid.NAMESPACE_URL, "x"),
    "text": lambda: "x".join(["a", "b"]),
}


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize("loop", [None, "asyncio"])
@pytest.mark.parametrize("name", CALLS)
def test_under_the_testing_kit_it_is_an_error_that_names_the_line(name: str, loop: Any) -> None:
    app = hf.App("memory:")

    @app.workflow(loop=loop)
    async def careless() -> str:
        try:
            CALLS[name]()
        except NondeterministicCall as error:
            return str(error)
        return "not found"

    with World(app):
        sentence = app.start(careless).result()
    assert name in sentence
    assert "test_guard.py:" in sentence
    assert "hf." in sentence
    assert "HF5115" in sentence


@pytest.mark.parametrize("name", HARMLESS)
def test_what_comes_out_the_same_and_what_libraries_do_is_let_be(name: str) -> None:
    app = hf.App("memory:")

    @app.workflow
    async def careful() -> str:
        HARMLESS[name]()
        return "fine"

    with World(app):
        assert app.start(careful).result() == "fine"


def test_a_step_may_do_all_of_it() -> None:
    app = hf.App("memory:")

    def both() -> float:
        return time.time()

    @app.workflow
    async def careful() -> bool:
        return await hf.run(both) > 0

    with World(app):
        assert app.start(careful).result()


def test_those_who_know_say_so() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def knowing() -> list[str]:
        seen: list[str] = []
        with hf.unguarded():
            time.time()
            await hf.sleep(1)
            time.time()
        try:
            time.time()
        except NondeterministicCall:
            seen.append("outside")
        return seen

    with World(app):
        assert app.start(knowing).result() == ["outside"]


def test_crash_everywhere_fails_with_it() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def careless() -> float:
        return time.time()

    with pytest.raises(CrashFailure, match=r"NondeterministicCall: time\.time"):
        crash_everywhere(careless, app=app)


def helper() -> float:
    return time.time()


def test_outside_the_kit_it_is_a_warning_once_a_line_also_in_a_function_that_is_called() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def careless() -> None:
        for _ in range(3):
            helper()
            random.random()
        await hf.sleep(0)
        helper()

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with app:
            app.start(careless).result()
    found = [each for each in heard if each.category is NondeterminismWarning]
    assert len(found) == 2
    assert all(each.filename == __file__ for each in found)
    assert "time.time" in str(found[0].message)
    assert "await hf.now()" in str(found[0].message)
    assert found[0].lineno == helper.__code__.co_firstlineno + 1


@monitored
def test_it_is_gone_when_the_last_app_is_closed() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def workflow() -> None:
        await hf.sleep(0)

    def tools() -> list[str | None]:
        return [cast(Any, sys).monitoring.get_tool(tool) for tool in (3, 4)]

    before = tools()
    with app:
        assert tools() == before  # nothing until a workflow runs
        app.start(workflow).result()
        assert tools() != before
    assert tools() == before
    assert guard.profile is None


@profiled
def test_where_every_call_must_be_looked_at_only_the_first_runs_are() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def workflow(careless: bool) -> None:
        for _ in range(calls_of_a_run_max):
            helper.__name__.lower()
        if careless:
            helper()

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with app:
            for _ in range(first_runs):
                app.start(workflow, False).result()
            app.start(workflow, True).result()
            assert guard.profile is None
    assert not [each for each in heard if each.category is NondeterminismWarning]


@profiled
def test_a_profiler_of_the_users_own_is_left_alone() -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    @app.workflow
    async def workflow() -> None:
        helper()

    def record(frame: Any, event: str, argument: Any) -> None:
        if frame.f_code is helper.__code__:
            seen.append(event)

    async def main() -> None:
        sys.setprofile(record)
        try:
            async with app:
                await app.start(workflow)
        finally:
            sys.setprofile(None)

    asyncio.run(main())
    assert "call" in seen


def test_what_a_dataclass_calls_for_a_default_is_nobodys_line() -> None:
    """Its generated `__init__` names no file: the class may be one of a library."""
    app = hf.App("memory:")

    @dataclass
    class Started:
        at: float = field(default_factory=time.perf_counter)

    @app.workflow
    async def workflow() -> bool:
        return Started().at > 0

    with World(app):
        assert app.start(workflow).result()


def test_code_outside_of_workflows_is_not_its_business() -> None:
    app = hf.App("memory:")
    seen: list[float] = []

    @app.workflow
    async def workflow() -> None:
        with hf.unguarded():
            seen.append(helper())

    with World(app):
        app.start(workflow).result()
        seen.append(helper())
        with asyncio.Runner() as runner:
            assert runner is not None
    assert len(seen) == 2
