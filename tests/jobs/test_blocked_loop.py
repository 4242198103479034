"""A function that blocks the event loop: it is named in the log, and its neighbours keep their leases.

Beside the app there may be another node on the same store, which takes from whoever is silent.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.host.loop_watch import find_blocker
from holdfast.node import Node
from holdfast.store.urls import open_store
from tests.postgres import database_url
from tests.processes import Server

lease_s = 4.0  # a busy machine is not silent for so long
blocked_s = 10.0
within_s = 60.0


@contextmanager
def node_elsewhere(url: str) -> Generator[None]:
    """Another node on the store, on a loop and in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def opened() -> Node:
        node = Node(open_store(url))
        await node.start()
        return node

    node = asyncio.run_coroutine_threadsafe(opened(), loop).result()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def place(where: str, folder: Path) -> Generator[str]:
    match where:
        case "memory":
            yield "memory:"
        case "server":
            with Server(folder) as server:
                yield server.url
        case _:
            url = database_url() if where.startswith("postgres") else f"sqlite:///{folder}/tasks.db"
            with node_elsewhere(url) if where.endswith("beside another") else nullcontext():
                yield url


class Neighbours:
    """An app with a task that blocks the loop while another task and an execution run beside it."""

    def __init__(self, url: str) -> None:
        self.app = app = hf.App(url, lease=lease_s)
        self.runs: list[str] = []
        self.is_over = threading.Event()
        beside = asyncio.Event()

        @app.task
        async def neighbour() -> str:
            self.runs.append("task")
            beside.set()
            while not self.is_over.is_set():  # noqa: ASYNC110 - it is set elsewhere
                await asyncio.sleep(0.01)
            return "task done"

        def step() -> str:
            self.runs.append("step")
            self.is_over.wait(within_s)
            return "step done"

        @app.workflow
        async def flow() -> str:
            return await hf.run(step)

        @app.task
        async def blocks() -> str:
            await beside.wait()
            while len(self.runs) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            time.sleep(blocked_s)  # noqa: ASYNC251 - that is the mistake
            self.is_over.set()
            return "blocked"

        self.neighbour, self.flow, self.blocks = neighbour, flow, blocks


@pytest.mark.parametrize(
    "where", ["memory", "sqlite", "sqlite beside another", "postgres beside another", "server"]
)
def test_a_task_that_blocks_the_loop_costs_its_neighbours_nothing(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with place(where, tmp_path) as url:
        here = Neighbours(url)
        with here.app, caplog.at_level(logging.INFO, "holdfast"):
            execution: Any = here.app.start(here.flow, id="flow")
            handles = [here.neighbour.send(), here.blocks.send()]
            results = [handle.get(timeout=within_s) for handle in handles]
            assert [result.ok_value for result in results] == ["task done", "blocked"]
            assert execution.result(within_s) == "step done"
            assert [len(handle.info().attempts) for handle in handles] == [1, 1]
            assert sorted(here.runs) == ["step", "task"]
    blocked = [record for record in caplog.records if "has been blocked" in record.getMessage()]
    [told] = [record for record in blocked if record.__dict__["function"].endswith("blocks")]
    assert told.levelname == "WARNING"
    assert told.__dict__["place"].startswith(__file__)


def test_what_blocks_is_named_by_its_outermost_function_and_its_innermost_line() -> None:
    seen: list[tuple[str, str]] = []

    def inner() -> None:
        seen.append(find_blocker(inspect.currentframe()))

    async def outer() -> None:
        inner()

    asyncio.run(outer())
    [(function, line)] = seen
    assert function.endswith("outer")
    assert line.startswith(__file__)


def test_an_app_that_is_closed_is_watched_no_more(tmp_path: Path) -> None:
    with hf.App(f"sqlite:///{tmp_path}/tasks.db"):
        assert "holdfast-watch" in {thread.name for thread in threading.enumerate()}
    deadline = time.monotonic() + within_s
    while any(thread.name == "holdfast-watch" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
