"""Bulk operations: cancel, retry, halt and resume all that a filter finds, by the node, in the background."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import BadOption, IdTaken, NoSuchExecution
from holdfast.node import bulk
from holdfast.testing import World
from tests.postgres import database_url

CHILD = """
import os, sys
import holdfast as hf
from holdfast.node import bulk

bulk.lease_ms = 300
bulk.page_executions = 10
pages = []
done = bulk._Operation.count

def count(self, actions, replies):
    done(self, actions, replies)
    pages.append(1)
    if len(pages) == 5:
        os._exit(9)  # the fifth page is durable, and its outcomes are not counted

bulk._Operation.count = count
app = hf.App(sys.argv[1], worker=False)
with app:
    app.find("waiting").cancel(now=True, id="all")
    app.handle("all").result(60)
"""


class Shop:
    """Workflows and a task that fail until they are mended."""

    def __init__(self, url: str) -> None:
        self.app = app = hf.App(url)
        self.broken = True
        self.done: list[str] = []

        def ship(name: str) -> str:
            self.done.append(name)
            if self.broken:
                raise ValueError("no ship")
            return name

        @app.workflow
        async def order(name: str) -> str:
            return await hf.run(ship, name)

        @app.workflow
        async def parent(name: str) -> str:
            return await hf.call(order, name)

        @app.workflow
        async def tidy(name: str) -> str:
            try:
                return await hf.run(ship, name)
            except ValueError:
                await hf.run(self.done.append, "tidied")
                raise

        @app.workflow
        async def waiting() -> None:
            await hf.promise(name="never")

        @app.task
        def mail(name: str) -> str:
            return ship(name)

        self.order, self.parent, self.tidy, self.waiting, self.mail = order, parent, tidy, waiting, mail

    def fail(self, *handles: hf.types.Handle[Any]) -> None:
        for handle in handles:
            with pytest.raises(ValueError, match="no ship"):
                handle.result(60)

    def mend(self) -> None:
        self.broken = False
        self.done.clear()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holdfast.db"}
    found = Shop(urls[request.param] if request.param in urls else database_url())
    with found.app:
        yield found


def test_all_that_failed_since_yesterday_are_retried(shop: Shop) -> None:
    handles = [shop.order.start(f"o{number}") for number in range(120)]
    shop.fail(*handles)
    shop.mend()
    progress = shop.app.find(shop.order, status="failed", since="1d").retry().wait(60)
    assert (progress.state, progress.done, progress.failed, progress.left) == ("completed", 120, 0, 0)
    assert [handle.result(60) for handle in handles] == [f"o{number}" for number in range(120)]
    assert sorted(shop.done) == sorted(f"o{number}" for number in range(120))


def test_what_was_called_is_retried_with_its_caller_and_what_has_cleaned_up_is_counted(shop: Shop) -> None:
    shop.fail(shop.parent.start("a"), tidy := shop.tidy.start("b"))
    shop.mend()
    progress = shop.app.find(status="failed").retry().wait(60)
    assert (progress.done, progress.failed, progress.skipped) == (1, 1, 1)
    assert (progress.codes, progress.examples) == ({"HF1704": 1}, (tidy.id,))


def test_all_are_halted_resumed_and_cancelled(shop: Shop) -> None:
    for _ in range(60):
        shop.waiting.start()
    assert shop.app.find(shop.waiting).halt("the bank is closed").wait(60).done == 60
    assert shop.app.find(shop.waiting).count() == {"halted": 60}
    [one, *_] = shop.app.find(shop.waiting, status="halted")
    assert one.error == "the bank is closed"
    assert shop.app.find(shop.waiting).resume().wait(60).done == 60
    assert shop.app.find(shop.waiting).cancel(now=True).wait(60).done == 60
    assert shop.app.find(shop.waiting).count() == {"cancelled": 60}


def test_background_tasks_are_cancelled_and_sent_again(shop: Shop) -> None:
    sent = [shop.mail.send(f"m{number}") for number in range(3)]
    for handle in sent:
        assert not handle.get(60).ok
    shop.mend()
    assert shop.app.find(shop.mail, status="failed", kind="task").retry().wait(60).done == 3
    while shop.app.find(shop.mail, status="completed").count() != {"completed": 3}:
        pass
    assert sorted(shop.done) == ["m0", "m1", "m2"]
    later = shop.mail.with_options(delay="1h").send("late")
    assert shop.app.find(kind="task").cancel().wait(60).done == 1
    assert not later.get(60).ok


def test_all_that_failed_are_forked_before_a_step(shop: Shop) -> None:
    handles = [shop.tidy.start(f"o{number}") for number in range(60)]
    shop.fail(*handles, shop.parent.start("child"))
    shop.mend()
    progress = shop.app.find(status="failed").fork("ship", id="again").wait(60)
    # Of the parent nothing was a step; what it called is its own business.
    assert (progress.done, progress.failed, progress.skipped) == (60, 1, 1)
    assert progress.codes == {"HF1707": 1}
    forks = [shop.app.handle(f"{handle.id}-again") for handle in handles]
    assert [fork.result(60) for fork in forks] == [f"o{number}" for number in range(60)]
    assert sorted(shop.done) == sorted(f"o{number}" for number in range(60))
    assert shop.app.find(shop.tidy).count() == {"failed": 60, "completed": 60}
    assert shop.app.find(status="failed").fork("ship", id="again").progress().done == 60
    with pytest.raises(IdTaken):
        shop.app.find(status="failed").fork("charge", id="again")
    with pytest.raises(hf.errors.BadOption, match="before"):
        shop.app.find(status="failed").fork("")


def test_an_operation_that_rests_for_long_beside_others_keeps_its_claim_and_counts_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a slow machine it rests for longer than its lease. Whoever claims it again counts all as done."""
    monkeypatch.setattr(bulk, "rest_s_min", 3 * bulk.lease_ms / 1000)
    shop = Shop("memory:")

    @shop.app.workflow
    async def busy() -> None:
        for number in range(300):  # without others it does not rest
            await hf.run(int, number)

    with World(shop.app) as world:
        shop.fail(*[shop.order.start(f"o{number}") for number in range(60)], shop.parent.start("child"))
        shop.mend()
        busy.start()
        operation = shop.app.find(status="failed").fork("ship", id="again")
        world.elapse(600)
        progress = operation.progress()
        assert (progress.state, progress.done, progress.failed, progress.skipped) == ("completed", 60, 1, 1)
        assert progress.codes == {"HF1707": 1}


def test_a_fork_whose_id_would_be_too_long_is_counted_and_the_others_are_forked(shop: Shop) -> None:
    operation = "again" * 50
    long = shop.tidy.with_options(id="x" * 900).start("long")
    short = shop.tidy.start("short")
    shop.fail(long, short)
    shop.mend()
    progress = shop.app.find(status="failed").fork("ship", id=operation).wait(60)
    assert (progress.done, progress.failed, progress.codes) == (1, 1, {"HF1001": 1})
    assert progress.examples == (long.id,)
    assert shop.app.handle(f"{short.id}-{operation}").result(60) == "short"


def test_background_tasks_are_not_forked_nor_is_anything_else_instead(shop: Shop) -> None:
    shop.fail(shop.tidy.start("o"))
    with pytest.raises(hf.errors.BadOption, match="background task has no steps"):
        shop.app.find(kind="task").fork("ship")


def test_the_same_id_is_the_same_operation_and_what_comes_later_is_left_out(shop: Shop) -> None:
    shop.waiting.start()
    assert shop.app.find(shop.waiting).cancel(now=True, id="once").wait(60).done == 1
    shop.waiting.start()
    assert shop.app.find(shop.waiting).cancel(now=True, id="once").wait(60).done == 1
    assert shop.app.find(shop.waiting).count()["cancelled"] == 1


def test_without_a_filter_everything_must_be_asked_for_by_name(shop: Shop) -> None:
    handle = shop.waiting.start()
    for everything in (shop.app.find(), shop.app.find(tags={}, page_size=7)):
        for begin in (everything.cancel, everything.retry, everything.halt, everything.resume):
            with pytest.raises(hf.errors.BadOption, match=r"all=True.*\[HF6001\]"):
                begin()
    assert handle.info().state in ("pending", "running", "suspended")
    assert shop.app.find(kind="execution").cancel(now=True).wait(60).done == 1, "that is a filter"


async def test_in_asyncio_too_everything_must_be_asked_for_by_name() -> None:
    async with Shop("memory://").app as app:
        for begin in ("cancel_async", "retry_async", "halt_async", "resume_async"):
            with pytest.raises(hf.errors.BadOption, match="all=True"):
                await getattr(app.find(), begin)()
        assert (await (await app.find().cancel_async(all=True)).wait_async()).done == 0


def test_a_bulk_operation_can_be_found_and_is_cancelled_by_nobody_else(shop: Shop) -> None:
    shop.waiting.start()
    progress = shop.app.find().cancel(now=True, id="everything", all=True).wait(60)
    assert progress.done == 1
    assert shop.app.handle("everything").info().state == "completed"


def test_what_is_no_bulk_operation_is_refused(shop: Shop) -> None:
    handle = shop.waiting.start()
    for ask in (shop.app.bulk(handle.id).progress, shop.app.bulk(handle.id).wait):
        with pytest.raises(BadOption, match="not a bulk operation"):
            ask()
    with pytest.raises(BadOption, match="not a bulk operation"):
        shop.app.bulk(handle.id).cancel()
    assert handle.info().state in ("pending", "running", "suspended")
    with pytest.raises(NoSuchExecution):
        shop.app.bulk("nobody").progress()


def test_an_id_that_something_else_has_is_taken(shop: Shop) -> None:
    handle = shop.waiting.start()
    with pytest.raises(IdTaken):
        shop.app.find(shop.waiting).cancel(id=handle.id)
    shop.app.find(shop.waiting).halt(id="once").wait(60)
    with pytest.raises(IdTaken):
        shop.app.find(shop.waiting).cancel(id="once")
    with pytest.raises(IdTaken):
        shop.app.find(shop.order).halt(id="once")
    assert shop.app.bulk("once").progress().action == "halt"
    assert handle.info().state == "halted"


def test_a_bulk_operation_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holdfast.db"
    with hf.App(url, worker=False) as app:

        @app.workflow
        async def waiting() -> None: ...

        for _ in range(100):
            waiting.start()
    killed = subprocess.run([sys.executable, "-c", CHILD, url], timeout=120, check=False)
    assert killed.returncode == 9
    with hf.App(url, worker=False) as app:
        app.handle("all").result(60)
        assert app.find("waiting").count() == {"cancelled": 100}
        progress = app.bulk("all").progress()
        assert (progress.done, progress.failed, progress.left) == (100, 0, 0)
