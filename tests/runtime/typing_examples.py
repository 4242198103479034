# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Checked by mypy and pyright, not run: types survive both spellings, and wrong arguments are errors.

Each `type: ignore` below is itself an assertion: both checkers complain about one that is not needed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, assert_type

from holdfast.runtime import (
    Channel,
    Err,
    Fiber,
    Future,
    Local,
    Ok,
    Operation,
    Queue,
    Selected,
    all_settled,
    any_of,
    as_completed,
    delegate,
    gather,
    map_over,
    named,
    operation,
    race,
    run,
    scope,
    select,
    shield,
    sleep,
    spawn,
    timeout,
    within,
)
from holdfast.runtime.testing import drive


def plain(number: int) -> str:
    return str(number)


async def asynchronous(number: int, *, label: str = "") -> bytes:
    return label.encode() * number


def generating(number: int) -> Generator[Any, Any, float]:
    yield from sleep(number)
    return float(number)


@operation
async def described(number: int) -> str:
    return str(number)


@operation
def generated(number: int) -> Generator[Any, Any, float]:
    return (yield from generating(number))


async def in_a_coroutine() -> None:
    assert_type(await run(plain, 1), str)
    assert_type(await run(asynchronous, 1, label="x"), bytes)
    assert_type(run(plain, 1), Future[str])
    assert_type(await sleep(1), None)
    assert_type(described(1), Operation[str])
    assert_type(await described(1), str)
    assert_type(await generated(1), float)
    assert_type(await delegate(generating(1)), float)
    assert_type(spawn(asynchronous, 1, label="x"), Fiber[bytes])
    assert_type(spawn(generating, 1), Fiber[float])
    assert_type(spawn(asynchronous(1), name="first"), Fiber[bytes])
    assert_type(await spawn(described, 1), str)
    assert_type(await spawn(described(1)), str)
    assert_type(await gather(run(plain, 1), asynchronous(1)), tuple[str, bytes])
    assert_type(await gather([run(plain, 1), run(plain, 2)]), list[str])
    assert_type(await race(run(plain, 1), run(asynchronous, 1)), str | bytes)
    assert_type(await any_of([run(plain, 1)]), str)
    assert_type(await all_settled([run(plain, 1)]), list[Ok[str] | Err[Exception]])
    assert_type(await select(a=run(plain, 1), b=run(plain, 2)), Selected[str])
    assert_type([await each for each in as_completed([run(plain, 1)])], list[str])
    assert_type(await map_over(asynchronous, [1, 2], limit=1), list[bytes])
    assert_type(await shield(asynchronous(1)), bytes)
    assert_type(await within(5, generating(1)), float)
    assert_type(await Channel[int]().receive, int)
    assert_type(await Queue[int]().get(), int)
    assert_type(Local("x").get(), str)
    assert_type(await run(named("step", plain), 1), str)
    async with scope() as tasks, timeout(5):
        assert_type(tasks.spawn(asynchronous, 1), Fiber[bytes])
        assert_type(tasks.spawn(generating(1), name="g"), Fiber[float])


def in_a_generator() -> Generator[Any, Any, None]:
    assert_type((yield from run(plain, 1)), str)
    assert_type((yield from run(asynchronous, 1)), bytes)
    assert_type((yield from described(1)), str)
    assert_type((yield from generated(1)), float)
    assert_type((yield from spawn(generating, 1)), float)
    assert_type((yield from gather(run(plain, 1), run(asynchronous, 1))), tuple[str, bytes])
    assert_type((yield from delegate(asynchronous(1))), bytes)


async def wrong_arguments_are_errors() -> None:
    run(plain, "one")  # type: ignore[call-overload]
    run(plain)  # type: ignore[call-overload]
    run(asynchronous, 1, label=2)  # type: ignore[arg-type]
    spawn(asynchronous, "one")  # type: ignore[call-overload]
    spawn(generating)  # type: ignore[call-overload]
    described("one")  # type: ignore[arg-type]
    Channel[int]().send("one")  # type: ignore[arg-type]
    Queue[int]().put("one")  # type: ignore[arg-type]


def the_driver_keeps_types_too() -> None:
    assert_type(drive(asynchronous, 1), bytes)
    assert_type(drive(generating, 1), float)
    assert_type(drive(described, 1), str)
