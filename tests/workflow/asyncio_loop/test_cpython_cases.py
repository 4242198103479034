"""CPython's own test cases for asyncio's queues, locks, groups and timeouts, run as the code of a workflow.

They come with the interpreter. Those that are left out look into the loop that asyncio brings, and are named
with the reason.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import time
import unittest
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.testing.replay import check_replay

MODULES = ("test_locks", "test_queues", "test_taskgroups", "test_timeouts", "test_waitfor")

LEFT_OUT = {
    "test_taskgroups.TestTaskGroup.test_coro_closed_when_tg_closed": "calls run_until_complete",
}


def cases() -> Iterator[Any]:
    for name in MODULES:
        try:
            module = importlib.import_module(f"test.test_asyncio.{name}")
        except ImportError:  # a distribution without the tests of the standard library
            continue
        for kind in vars(module).values():
            if (
                inspect.isclass(kind)
                and issubclass(kind, unittest.TestCase)
                and kind.__module__ == module.__name__
            ):
                for test in unittest.defaultTestLoader.getTestCaseNames(kind):
                    label = f"{name}.{kind.__name__}.{test}"
                    reason = LEFT_OUT.get(label)
                    marks = [pytest.mark.skip(reason)] if reason else []
                    yield pytest.param(kind, test, id=label, marks=marks)


@pytest.mark.parametrize(("kind", "test"), [*cases()])
def test_a_case_of_cpython_passes_in_a_workflow(
    kind: type[unittest.TestCase], test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = hf.App("memory:")
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time(), sleep=time.sleep)
    monkeypatch.setattr(importlib.import_module(kind.__module__), "time", clock, raising=False)

    @app.workflow(loop="asyncio")
    async def case() -> str:
        instance: Any = kind(test)
        for prepare in (instance.setUp, getattr(instance, "asyncSetUp", None)):
            await called(prepare)
        await called(getattr(instance, test))
        await called(getattr(instance, "asyncTearDown", None))
        for function, args, kwargs in reversed(instance._cleanups):
            await called(partial(function, *args, **kwargs))
        return "passed"

    with World(app) as world:
        handle = app.start(case)
        handle.result()
        [root] = world.ended()
        world.run(check_replay(root, world.store, app.registry, world.worker_context(), world.performed))
        assert handle.result() == "passed"


async def called(function: Any) -> None:
    made = None if function is None else function()
    if inspect.isawaitable(made):
        await made


def test_the_cases_are_there() -> None:
    assert sum(1 for _ in cases()) > 150 or importlib.util.find_spec("test.test_asyncio") is None
