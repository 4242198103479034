"""Schedules at run time: made, found and steered from scripts and asyncio; orphans."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.jobs.errors import BadOption, ScheduleExists, ScheduleNotFound
from tests.processes import Server

LONG_S = 60.0
YEARLY = "0 0 1 1 *"


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    if request.param == "http":
        with Server(tmp_path) as server:
            yield server.url
    else:
        yield f"sqlite:///{tmp_path}/holdfast.db"


@pytest.fixture
def app(url: str) -> Generator[hf.App]:
    with hf.App(url) as app:
        yield app


def test_a_task_and_a_workflow_are_scheduled_triggered_and_listed(app: hf.App) -> None:
    @app.task
    def double(number: int, more: int = 0) -> int:
        return 2 * number + more

    @app.workflow
    async def greet(name: str) -> str:
        return f"hello {name}"

    daily = app.schedules.create("double-4", double, 4, cron=YEARLY, kwargs={"more": 1})
    app.schedules.create("greet-ada", greet, "ada", cron=YEARLY, timezone="Europe/Paris")
    assert app.task_handle(daily.trigger()).get(LONG_S).ok_value == 9
    assert app.handle(app.schedules.get("greet-ada").trigger()).result(LONG_S) == "hello ada"
    page = app.schedules.list(limit=1)
    [first] = page.schedules
    [second] = app.schedules.list(cursor=page.cursor).schedules
    assert (first.id, second.id, second.timezone) == ("double-4", "greet-ada", "Europe/Paris")
    assert first.last_run_at is not None
    assert first.next_run_at is not None
    assert first.next_run_at.month == 1
    assert (first.declared_by, first.is_orphan) == (None, False)


def test_a_schedule_is_paused_updated_resumed_and_deleted(app: hf.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    schedule = app.schedules.create("s", double, 1, every="1h", overlap="skip", catch_up=0)
    schedule.pause()
    paused = schedule.info()
    assert paused.paused_at is not None
    assert paused.next_run_at is None
    schedule.update(cron=YEARLY, catch_up=3)
    schedule.update(double, 21)
    changed = schedule.info()
    assert (changed.cron, changed.catch_up, changed.overlap) == (YEARLY, 3, "skip")
    assert changed.paused_at == paused.paused_at
    assert app.task_handle(schedule.trigger()).get(LONG_S).ok_value == 42
    schedule.resume()
    assert schedule.info().next_run_at is not None
    schedule.delete()
    for ask in (schedule.info, schedule.pause, schedule.trigger, schedule.delete):
        with pytest.raises(ScheduleNotFound):
            ask()
    with pytest.raises(ScheduleNotFound):
        app.schedules.get("s")


def test_a_backfill_of_more_than_one_request_runs_each_occurrence_once(app: hf.App) -> None:
    @app.task(queue="elsewhere")
    def double(number: int) -> int:
        return 2 * number

    schedule = app.schedules.create("s", double, 1, cron=YEARLY)
    schedule.update(every="1m")
    until = datetime.now(UTC) - timedelta(minutes=1)
    assert schedule.backfill(until - timedelta(minutes=250), until) in (250, 251)
    assert schedule.backfill(until - timedelta(minutes=250), until) == 0
    with pytest.raises(BadOption):
        schedule.backfill(datetime(2026, 1, 1), until)  # noqa: DTZ001
    with pytest.raises(BadOption, match="until must not be before since"):
        schedule.backfill(until, until - timedelta(minutes=1))


def test_an_id_is_an_agreement(app: hf.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    app.schedules.create("s", double, 1, cron=YEARLY)
    app.schedules.create("s", double, 1, cron=YEARLY, timezone="UTC", overlap="allow")
    with pytest.raises(ScheduleExists):
        app.schedules.create("s", double, 2, cron=YEARLY)
    with pytest.raises(BadOption):
        app.schedules.create("t", len, "x", cron=YEARLY)
    with pytest.raises(BadOption):
        app.schedules.create("t", double, 1)
    with pytest.raises(BadOption):
        app.schedules.create("t", double, 1, cron=YEARLY, catch_up=-1)


def test_a_run_has_the_tags_the_queue_and_the_key_of_what_is_scheduled(app: hf.App) -> None:
    app.queue("reports", per_key=1)

    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.workflow(tags={"shop": "north"})
    async def report(name: str) -> str:
        return f"{name} at {hf.current().id}"

    wanted = report.with_options(queue="reports", limit_key="acme", priority=4, tags={"for": "acme"})
    weekly = app.schedules.create("weekly", wanted, "acme", cron=YEARLY)
    run = app.handle(weekly.trigger())
    assert run.result(LONG_S) == f"acme at {run.id}"
    info = run.info()
    assert (info.queue, info.tags) == ("reports", {"shop": "north", "for": "acme"})
    assert [each.id for each in app.find(report, tags={"for": "acme"}, schedule="weekly")] == [run.id]
    app.schedules.create("weekly", wanted, "acme", cron=YEARLY)
    with pytest.raises(ScheduleExists):
        app.schedules.create("weekly", report, "acme", cron=YEARLY)

    retried = double.with_options(queue="reports", limit_key="acme", tags={"for": "acme"}, priority=2)
    task = app.task_handle(app.schedules.create("doubled", retried, 4, cron=YEARLY).trigger())
    assert task.get(LONG_S).ok_value == 8
    found = task.info()
    assert (found.queue, found.limit_key, found.priority) == ("reports", "acme", 2)
    assert [each.id for each in app.find(double, tags={"for": "acme"})] == [task.id]


def test_what_is_about_one_run_is_refused_in_a_schedule(app: hf.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.workflow
    async def report() -> None: ...

    for wrong in (report.with_options(id="r"), report.with_options(delay="1s")):
        with pytest.raises(BadOption, match="for a single run"):
            app.schedules.create("s", wrong, cron=YEARLY)
    with pytest.raises(BadOption, match="on_existing= is for a single run"):
        app.schedules.create("s", report.with_options(on_existing="replace"), cron=YEARLY)
    for late in (double.with_options(id="d"), double.with_options(at=datetime.now(UTC))):
        with pytest.raises(BadOption, match="for a single run"):
            app.schedules.create("s", late, 1, cron=YEARLY)


async def test_all_of_it_from_asyncio(url: str) -> None:
    app = hf.App(url)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        schedule = await app.schedules.create_async("s", double, 4, cron=YEARLY)
        await schedule.pause_async()
        assert (await schedule.info_async()).next_run_at is None
        await schedule.resume_async()
        await schedule.update_async(catch_up=0)
        run = await schedule.trigger_async()
        assert (await app.task_handle(run).get_async(LONG_S)).ok_value == 8
        day = timedelta(days=1)
        assert await schedule.backfill_async(
            datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC) + day
        )
        assert [each.id for each in (await app.schedules.list_async(prefix="s")).schedules] == ["s"]
        await (await app.schedules.get_async("s")).delete_async()
        with pytest.raises(ScheduleNotFound):
            await app.schedules.get_async("s")


def declaring(
    url: str, *ids: str, group: str = "default", orphans: str = "keep", every: str = "1h"
) -> hf.App:
    app = hf.App(url, group=group, orphan_schedules=orphans)  # type: ignore[arg-type]

    @app.task
    def double(number: int) -> int:
        return 2 * number

    for each in ids:
        app.schedule(every=every, id=each, args=[1])(double)
    return app


def test_what_an_app_declares_no_more_is_an_orphan_and_removed_if_it_says_so(url: str) -> None:
    with declaring(url, "theirs", group="other"), declaring(url, "kept", "dropped") as app:
        app.schedules.create("made", next(iter(app.tasks)), 1, every="1h")
    with declaring(url, "kept") as app:
        found = {each.id: (each.declared_by, each.is_orphan) for each in app.schedules.list().schedules}
    assert found == {
        "theirs": ("other", False),
        "kept": ("default", False),
        "dropped": ("default", True),
        "made": (None, False),
    }
    with declaring(url, "kept", orphans="remove") as app:
        assert [each.id for each in app.schedules.list().schedules] == ["kept", "made", "theirs"]


def test_a_declaration_that_changed_leaves_a_pause_and_the_last_run_alone(url: str) -> None:
    with declaring(url, "s") as app:
        schedule = app.schedules.get("s")
        schedule.trigger()
        schedule.pause()
        before = schedule.info()
    with declaring(url, "s", every="2h") as app:
        after = app.schedules.get("s").info()
    assert (after.cron, after.paused_at) == ("@every 7200s", before.paused_at)
    assert (after.last_run_at, after.created_at) == (before.last_run_at, before.created_at)


def test_an_unknown_way_with_orphans_is_refused(url: str) -> None:
    with pytest.raises(hf.HoldfastError, match="orphan_schedules must be one of keep, remove"):
        declaring(url, orphans="forget")
