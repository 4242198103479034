"""CPython's own test cases for asyncio, run as the code of a workflow: queues, locks, groups, timeouts,
gather, wait, as_completed, shield and sleep.

They come with the interpreter. Those that are left out look into the loop that asyncio brings, and are named
with the reason.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
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
from tests.workflow.asyncio_loop.rewritten_cases import load, prepare

MODULES = ("test_locks", "test_queues", "test_taskgroups", "test_timeouts", "test_waitfor")

# Of `test_tasks`, which drives its loop from outside: the classes, and the cases of them that do no I/O.
REWRITTEN = {
    "FutureGatherTests": ("test_",),
    "CoroutineGatherTests": ("test_",),
    "CTask_CFuture_Tests": ("test_gather", "test_wait", "test_as_completed", "test_shield", "test_sleep"),
}

NO_LOOP = "looks for a loop where none runs"
LEFT_OUT = {
    "test_tasks.test_constructor_empty_sequence_without_loop": NO_LOOP,
    "test_tasks.test_constructor_without_loop": NO_LOOP,
    "test_tasks.test_as_completed_coroutine_without_loop": NO_LOOP,
    "test_tasks.test_shield_coroutine_without_loop": NO_LOOP,
    "test_tasks.test_constructor_heterogenous_futures": "needs two loops",
    "test_tasks.test_issue46672": "replaces a function of the loop",
    "test_tasks.test_env_var_debug": "starts processes",
    "test_tasks.test_as_completed_reverse_wait": "keeps coroutines in a set: their order is by address",
    "test_tasks.test_as_completed": "moves the clock of its loop in the middle of a callback",
    "test_taskgroups.TestTaskGroup.test_coro_closed_when_tg_closed": "calls run_until_complete",
}
if sys.version_info >= (3, 13):
    LEFT_OUT |= dict.fromkeys(
        (
            "test_tasks.test_as_completed_same_tasks_in_as_out",
            "test_tasks.test_as_completed_with_timeout",
            "test_tasks.test_as_completed_with_unused_timeout",
        ),
        "makes a loop of its own for each way to iterate",
    )
if sys.version_info >= (3, 14):
    for group in ("test_taskgroups.TestTaskGroup", "test_taskgroups.TestEagerTaskTaskGroup"):
        LEFT_OUT |= dict.fromkeys(
            (
                f"{group}.test_exception_refcycles_base_error",
                f"{group}.test_exception_refcycles_direct",
                f"{group}.test_exception_refcycles_errors",
                f"{group}.test_exception_refcycles_parent_task",
                f"{group}.test_exception_refcycles_propagate_cancellation_error",
            ),
            "looks for its frame in the coroutine of its task, which a workflow does not await itself",
        )
        LEFT_OUT[f"{group}.test_exception_refcycles_parent_task_wr"] = (
            "switches the garbage collector off, which frees the frames of a closed fiber there"
        )


def rewritten_cases() -> Iterator[Any]:
    try:
        module = load("test_tasks")
    except ImportError:
        return
    for name, prefixes in REWRITTEN.items():
        kind = vars(module)[name]
        for test in unittest.defaultTestLoader.getTestCaseNames(kind):
            label = f"test_tasks.{name}.{test}"
            reason = LEFT_OUT.get(label) or LEFT_OUT.get(f"test_tasks.{test}")
            if test.startswith(prefixes):
                yield pytest.param(kind, test, id=label, marks=[pytest.mark.skip(reason)] if reason else [])


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


@pytest.mark.parametrize(("kind", "test"), [*cases(), *rewritten_cases()])
def test_a_case_of_cpython_passes_in_a_workflow(
    kind: type[unittest.TestCase], test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = hf.App("memory:")
    is_rewritten = kind.__module__.startswith("rewritten.")
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time(), sleep=time.sleep)
    if not is_rewritten:
        monkeypatch.setattr(importlib.import_module(kind.__module__), "time", clock, raising=False)

    @app.workflow(loop="asyncio")
    async def case() -> str:
        instance: Any = kind(test)
        if is_rewritten:
            prepare(instance)
        else:
            await called(instance.setUp)
            await called(getattr(instance, "asyncSetUp", None))
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
    if importlib.util.find_spec("test") and importlib.util.find_spec("test.test_asyncio"):
        assert sum(1 for _ in cases()) > 150
        assert sum(1 for _ in rewritten_cases()) > 40
