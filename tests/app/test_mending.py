"""Executions that are mended: retried from where they failed, forked from a step, started anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import ExecutionCancelled, IdTaken, NoSuchExecution, Refused
from tests.postgres import database_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[hf.App]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holdfast.db"}
    async with hf.App(urls[request.param] if request.param in urls else database_url()) as opened:
        yield opened


class Ledger:
    """What steps did, and whether they fail."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken = True

    def good(self, name: str) -> str:
        self.done.append(name)
        return name

    def bad(self, name: str) -> str:
        self.done.append(name)
        if self.broken:
            raise ValueError(f"{name} is broken")
        return name

    def mend(self) -> None:
        self.broken = False
        self.done.clear()


async def failed(handle: hf.types.Handle[Any], error: type[BaseException] = ValueError) -> None:
    with pytest.raises(error):
        await asyncio.wait_for(handle, 60)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # each look is an answer of the node
        continue


async def value(handle: hf.types.Handle[Any]) -> Any:
    return await asyncio.wait_for(handle, 60)


async def test_a_retry_performs_only_what_failed(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        charged = await hf.run(ledger.good, "charge")
        shipped = await hf.run(ledger.bad, "ship")
        return f"{charged} {shipped}"

    handle = order.start()
    await failed(handle)
    ledger.mend()
    await handle.retry()
    assert await value(handle) == "charge ship"
    assert ledger.done == ["ship"]


async def test_after_a_bug_fix_a_retry_goes_on_behind_the_last_record(app: hf.App) -> None:
    ledger = Ledger()
    fixed: list[bool] = []

    @app.workflow
    async def order() -> int:
        text = await hf.run(ledger.good, "charge")
        if not fixed:
            raise KeyError("the bug")
        return len(text)

    handle = order.start()
    await failed(handle, KeyError)
    ledger.mend()
    fixed.append(True)
    await handle.retry()
    assert await value(handle) == 6
    assert ledger.done == []


async def test_a_call_that_failed_is_retried_with_its_caller_and_keeps_what_it_did(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def child() -> str:
        await hf.run(ledger.good, "child first")
        return await hf.run(ledger.bad, "child second")

    @app.workflow
    async def parent() -> str:
        await hf.run(ledger.good, "parent first")
        return await hf.call(child)

    handle = parent.start()
    await failed(handle)
    ledger.mend()
    await handle.retry()
    assert await value(handle) == "child second"
    assert ledger.done == ["child second"]


async def test_what_another_one_called_is_not_retried_by_itself(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def child() -> str:
        return await hf.run(ledger.bad, "child")

    @app.workflow
    async def parent() -> str:
        return await hf.call(child)

    handle = parent.start()
    await failed(handle)
    with pytest.raises(Refused, match="HF1703"):
        await app.handle(f"{handle.id}:1").retry()


async def test_a_step_whose_failure_was_caught_is_not_performed_again(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        try:
            await hf.run(ledger.bad, "first")
        except ValueError:
            await hf.run(ledger.good, "instead")
        return await hf.run(ledger.bad, "second")

    handle = order.start()
    await failed(handle)
    ledger.mend()
    await handle.retry()
    assert await value(handle) == "second"
    assert ledger.done == ["second"]


async def test_an_execution_that_has_cleaned_up_is_not_retried_but_forked(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        await hf.run(ledger.good, "charge")
        try:
            return await hf.run(ledger.bad, "ship")
        except ValueError:
            await hf.run(ledger.good, "refund")
            raise

    handle = order.start()
    await failed(handle)
    with pytest.raises(Refused, match="HF1704"):
        await handle.retry()
    ledger.mend()
    again = handle.fork(before="bad", id="again")
    assert await value(again) == "ship"
    assert ledger.done == ["ship"]


async def test_published_values_of_the_failure_are_replaced_after_a_retry(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        try:
            shipped = await hf.run(ledger.bad, "ship")
        except ValueError:
            await hf.publish("stage", "failed")
            raise
        await hf.publish("stage", "shipped")
        return shipped

    handle = order.start()
    await failed(handle)
    assert await handle.published("stage") == "failed"
    ledger.mend()
    await handle.retry()
    await value(handle)
    assert await handle.published("stage") == "shipped"


async def test_steps_that_completed_beside_the_failure_keep_their_results(app: hf.App) -> None:
    ledger = Ledger()
    release = asyncio.Event()

    async def slow(name: str) -> str:
        await release.wait()
        return ledger.bad(name)

    @app.workflow
    async def order() -> list[str]:
        late, fast = hf.run(slow, "late"), hf.run(ledger.good, "fast")
        return [await late, await fast]

    handle = order.start()
    await until(lambda: has_recorded(handle, 1))
    release.set()
    await failed(handle)
    ledger.mend()
    await handle.retry()
    assert await value(handle) == ["late", "fast"]
    assert ledger.done == ["late"]


async def has_recorded(handle: hf.types.Handle[Any], count: int) -> bool:
    return sum(step.state == "completed" for step in await handle.steps_async()) >= count


async def test_one_that_timed_out_goes_on_with_a_new_timeout(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def approval() -> str:
        await hf.run(ledger.good, "asked")
        return await hf.promise(str, name="answer")

    for timeout_s in (2, 10, 40):  # long enough for the step to be recorded by then
        handle = approval.with_options(timeout=timeout_s).start()
        await failed(handle, hf.TimedOut)
        if await has_recorded(handle, 1):
            break
    ledger.done.clear()
    await handle.retry(timeout="1h")
    await _resolve(app, handle.id)
    assert await value(handle) == "yes"
    assert ledger.done == []


async def _resolve(app: hf.App, execution_id: str) -> None:
    await app.resolve(execution_id, "yes", name="answer")


async def test_an_expired_block_is_given_its_time_again(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        await hf.run(ledger.good, "first")
        async with hf.timeout(0.2 if ledger.broken else 60):
            await hf.promise(str, name="answer")
        return "done"

    handle = order.start()
    await failed(handle, hf.TimedOut)
    ledger.mend()
    await handle.retry()
    await _resolve(app, handle.id)
    assert await value(handle) == "done"
    assert ledger.done == []


async def test_a_cancelled_execution_goes_on_as_if_nobody_had_asked(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order() -> str:
        await hf.run(ledger.good, "first")
        return await hf.promise(str, name="answer")

    handle = order.start()
    await until(lambda: has_recorded(handle, 1))
    await handle.cancel()
    await failed(handle, ExecutionCancelled)
    ledger.done.clear()
    await handle.retry()
    await _resolve(app, handle.id)
    assert await value(handle) == "yes"
    assert ledger.done == []
    await failed(_cancelled_again(order), ExecutionCancelled)


def _cancelled_again(order: Callable[..., Any]) -> Any:
    async def run() -> Any:
        handle = order.start()  # type: ignore[attr-defined]
        await handle.started()
        await handle.cancel(now=True)
        return await handle

    return run()


async def test_cancelling_at_once_reaches_what_was_called(app: hf.App) -> None:
    @app.workflow
    async def child() -> None:
        await hf.promise(name="never")

    @app.workflow
    async def parent() -> None:
        await hf.call(child)

    @app.workflow
    async def killer(other: str) -> None:
        await hf.cancel(other)

    def at_once(handle: hf.types.Handle[Any]) -> Awaitable[Any]:
        return handle.cancel(now=True)

    def from_a_workflow(handle: hf.types.Handle[Any]) -> Awaitable[Any]:
        return killer.start(handle.id)

    for cancel in (at_once, from_a_workflow):
        handle = parent.start()
        await handle.started()
        called = app.handle(f"{handle.id}:1")
        await until(partial(is_suspended, called))
        await cancel(handle)
        await failed(called, ExecutionCancelled)


async def is_suspended(handle: hf.types.Handle[Any]) -> bool:
    try:
        return (await handle.info_async()).state == "suspended"
    except NoSuchExecution:
        return False


async def test_a_fork_performs_the_step_and_what_follows_with_other_input(app: hf.App) -> None:
    ledger = Ledger()
    ledger.broken = False

    @app.workflow
    async def order(card: str) -> str:
        await hf.run(ledger.good, "reserve")
        return await hf.run(ledger.good, card)

    first = order.with_options(id="order-17").start("visa")
    assert await value(first) == "visa"
    ledger.done.clear()
    second = first.fork(before="order-17:2", id="order-17-b", args=["master"])
    assert await value(second) == "master"
    assert ledger.done == ["master"]
    assert (await second.info_async()).name == "order"


async def test_another_fork_under_the_id_of_one_is_refused(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order(card: str) -> str:
        await hf.run(ledger.good, "reserve")
        return await hf.run(ledger.good, card)

    first = order.with_options(id="order-17").start("visa")
    assert await value(first) == "visa"
    same: dict[str, Any] = {"before": "order-17:2", "id": "again", "args": ["master"]}
    assert await value(first.fork(**same)) == "master"
    assert await value(first.fork(**same)) == "master"
    others: list[dict[str, Any]] = [{"args": ["amex"]}, {"args": None}, {"before": "order-17:1"}]
    for other in others:
        with pytest.raises(hf.errors.IdTaken):
            await first.fork(**(same | other)).started()


async def test_what_becomes_of_an_execution_that_has_the_id(app: hf.App) -> None:
    ledger = Ledger()

    @app.workflow
    async def order(number: int) -> int:
        await hf.run(ledger.bad, str(number))
        return number

    first = order.with_options(id="o").start(1)
    await failed(first)
    await failed(order.with_options(id="o").start(1))
    with pytest.raises(IdTaken):
        await order.with_options(id="o", on_existing="reject").start(1).started()
    ledger.mend()
    again = order.with_options(id="o", on_existing="again_if_failed")
    assert await value(again.start(2)) == 2
    assert await value(again.start(2)) == 2
    assert ledger.done == ["2"]
    assert await value(app.start(order, 3, id="o", on_existing="replace")) == 3


async def test_the_steps_of_one_that_was_replaced_are_its_own(app: hf.App) -> None:
    @app.workflow
    async def child() -> int:
        return 1

    @app.workflow
    async def order(calls: bool) -> int:
        return await hf.call(child) if calls else 2

    assert await value(order.with_options(id="o").start(True)) == 1
    second = order.with_options(id="o", on_existing="replace").start(False)
    assert await value(second) == 2
    assert await second.steps_async() == []


async def test_the_idempotency_keys_of_a_new_run_are_its_own(app: hf.App) -> None:
    """A provider that knows the key of the old run would charge nothing."""
    charges: dict[str | None, int] = {}

    def charge(cents: int) -> int:
        return charges.setdefault(hf.current().step, cents)

    @app.workflow
    async def child(cents: int) -> int:
        return await hf.run(charge, cents)

    @app.workflow
    async def order(cents: int) -> list[int]:
        return [await hf.run(charge, cents), await hf.call(child, cents)]

    assert await value(order.with_options(id="o").start(5)) == [5, 5]
    for cents in (7, 9):
        again = order.with_options(id="o", on_existing="replace")
        assert await value(again.start(cents)) == [cents, cents]
    assert sorted(charges.values()) == [5, 5, 7, 7, 9, 9]


async def test_one_that_is_replaced_while_it_runs_is_cancelled_and_writes_nothing_more(app: hf.App) -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    async def work(number: int) -> int:
        if number == 1:
            entered.set()
            await release.wait()
        return number

    @app.workflow
    async def order(number: int) -> int:
        found = await hf.run(work, number)
        await hf.run(ended.append, number)
        return found

    first = order.with_options(id="o").start(1)
    waiting = asyncio.ensure_future(_outcome(first))
    await asyncio.wait_for(entered.wait(), 60)
    second = order.with_options(id="o", on_existing="replace").start(2)
    await second.started()
    release.set()
    assert await value(second) == 2
    assert isinstance(await asyncio.wait_for(waiting, 60), ExecutionCancelled)
    assert ended == [2]


async def _outcome(handle: hf.types.Handle[Any]) -> Any:
    try:
        return await handle
    except Exception as error:
        return error


async def test_on_existing_makes_no_sense_for_what_a_workflow_calls(app: hf.App) -> None:
    @app.workflow
    async def child() -> None: ...

    @app.workflow
    async def parent() -> None:
        await hf.call(child.with_options(on_existing="replace"))

    await failed(parent.start(), hf.errors.BadStartOption)
    with pytest.raises(hf.errors.BadStartOption):
        child.with_options(on_existing="maybe")  # type: ignore[arg-type]


async def test_one_that_is_halted_rests_until_it_is_resumed(app: hf.App) -> None:
    @app.workflow
    async def order() -> str:
        return await hf.promise(str, name="answer")

    handle = order.start()
    await until(partial(is_suspended, handle))
    await handle.halt("wait for the fix")
    assert (await handle.info_async()).error == "wait for the fix"
    await _resolve(app, handle.id)
    assert (await handle.info_async()).state == "halted"
    await handle.resume()
    assert await value(handle) == "yes"
