"""Queues and schedules as an app declares them: stored at the start, kept, updated when they change."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.app import bridge_of
from holdfast.protocol.jobs import Rate, parse_job
from holdfast.testing import World


def test_limits_are_stored_when_a_worker_starts() -> None:
    app = hf.App()
    queue = app.queue("email", priority=2, concurrency=3, per_key=1, rate="10/s", per_key_rate="5/10s")
    with World(app):
        info = queue.info()
        assert (info.concurrency, info.key_concurrency) == (3, 1)
        assert (info.rate, info.key_rate) == (Rate(10, 1_000), Rate(5, 10_000))
        assert not info.paused


def test_a_task_is_deleted_so_long_after_its_end_as_it_is_kept() -> None:
    app = hf.App()

    @app.task(keep="1h")
    def brief(number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return number

    @app.task
    def plain() -> None: ...

    @app.workflow
    async def calls() -> str:
        await hf.call(brief, 3)
        await hf.sleep("1d")
        return "done"

    def is_known(task_id: str) -> bool:
        try:
            app.task_handle(task_id).info()
        except hf.errors.TaskNotFound:
            return False
        return True

    with World(app) as world:
        called = app.start(calls)
        sent: list[hf.types.TaskHandle[Any, Any]] = [brief.send(1), brief.send(-1), plain.send()]
        assert [each.get().is_ok for each in sent] == [True, False, True]
        world.elapse("50m")
        assert [is_known(each.id) for each in sent] == [True, True, True]
        world.elapse("20m")
        assert [is_known(each.id) for each in sent] == [False, False, True]
        assert called.result() == "done"
        assert next(step.name for step in called.steps()) == "brief", "it goes with the workflow"


def test_no_more_run_at_once_than_a_queue_allows() -> None:
    app = hf.App()
    app.queue("narrow", concurrency=2, per_key=1)
    running: list[int] = []
    most: list[int] = []

    @app.task(queue="narrow")
    async def work(number: int) -> None:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(10)
        running.remove(number)

    with World(app) as world:
        began = world.now
        keyed = work.with_options(limit_key="same")
        sent = [keyed.send(0), keyed.send(1), work.send(2), work.send(3)]
        assert all(each.get().is_ok for each in sent)
        assert max(most) == 2
        assert world.now - began == timedelta(seconds=20)


def test_a_rate_spreads_what_is_sent_at_once() -> None:
    app = hf.App()
    app.queue("slow", rate="2/10s")
    begun: list[float] = []

    @app.task(queue="slow")
    async def work() -> None:
        begun.append(asyncio.get_running_loop().time())

    with World(app):
        for each in [work.send() for _ in range(6)]:
            assert each.get().is_ok
    assert all(later - earlier >= 9.6 for earlier, later in zip(begun, begun[2:], strict=False)), begun


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed() -> None:
    app = hf.App()
    queue = app.queue("email")

    @app.task(queue="email")
    def work() -> int:
        return 1

    with World(app) as world:
        queue.pause()
        handle = work.send()
        world.elapse("1h")
        assert handle.info().status is hf.TaskStatus.PENDING
        assert queue.info().pending == 1
        queue.resume()
        assert handle.get(timeout=1).ok_value == 1


def test_a_queue_keeps_its_pause_when_workers_start_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for is_first in (True, False):
        app = hf.App(url)
        queue = app.queue("email", concurrency=1 if is_first else 5)
        with app:
            if is_first:
                queue.pause()
            assert queue.info().paused
            assert queue.info().concurrency == (1 if is_first else 5)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"per_key": -1},
        {"rate": "fast"},
        {"rate": "0/s"},
        {"rate": 5},
        {"per_key_rate": "5/"},
        {"priority": "x"},
        {"speed": 3},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(hf.errors.BadOption):
        cast(Any, hf.App().queue)("email", **options)


def test_a_queue_declared_twice_must_say_the_same() -> None:
    app = hf.App()
    app.queue("email", concurrency=1)
    app.queue("email", concurrency=1)
    with pytest.raises(hf.errors.BadOption, match="twice"):
        app.queue("email", concurrency=2)


# --- schedules -------------------------------------------------------------------------------------------


def test_a_task_recurs_on_the_dot_with_its_retry_policy() -> None:
    app = hf.App()
    runs: list[float] = []

    @app.schedule(every="90s", args=["x"])
    @app.task(queue="periodic", retry=hf.Retry.fixed([1], jitter=0))
    async def beat(name: str) -> None:
        runs.append(round(asyncio.get_running_loop().time(), 3))
        if len(runs) == 1:
            raise ConnectionError

    with World(app) as world:
        world.elapse("5m")
        [schedule] = [entry.schedule for entry in world.store.schedules.values()]
        job = parse_job(schedule.promise_tags["holdfast:job"])
        assert job.retry is not None
        assert job.retry.limit == 1
    # 2030 begins a multiple of 90 s after the epoch, so the first is 90 s away; the second try 1 s later.
    assert runs == [90, 91, 180, 270]


def test_a_workflow_recurs_by_cron_in_its_time_zone() -> None:
    app = hf.App()
    runs: list[str] = []

    @app.schedule(cron="0 9 * * *", timezone="Europe/Paris")
    @app.workflow
    async def report() -> None:
        runs.append(str(await hf.now()))

    with World(app) as world:
        world.elapse("2d")
    assert runs == ["2030-01-01 08:00:00+00:00", "2030-01-02 08:00:00+00:00"]


def test_the_next_run_is_skipped_while_the_last_goes_on_if_the_schedule_says_so() -> None:
    app = hf.App()
    done: list[str] = []

    @app.schedule(every="10s", overlap="skip")
    @app.task
    async def slow() -> None:
        await asyncio.sleep(15)
        done.append("slow")

    with World(app) as world:
        world.elapse(60)
        assert len(world.store.tasks) == 3
    assert done == ["slow", "slow"]


def test_the_next_run_replaces_the_last_which_is_stopped_if_the_schedule_says_so() -> None:
    app = hf.App()
    told: list[str] = []

    @app.schedule(every="60s", overlap="replace")
    @app.task(retry=hf.Retry.fixed(["5s"]))
    async def slow() -> None:
        told.append("begins")
        try:
            await asyncio.sleep(90)
        except asyncio.CancelledError:
            told.append("is stopped")
            raise
        told.append("ends")

    with World(app) as world:
        world.elapse("190s")
        runs = [app.task_handle(each) for each in world.store.tasks]
        statuses = sorted(run.info().status.value for run in runs)
        assert statuses == ["CANCELLED", "CANCELLED", "RUNNING"]
        replaced = [run for run in runs if run.info().status is hf.TaskStatus.CANCELLED]
        assert [run.get(timeout=0).err_value.error_code for run in replaced] == ["TASK_CANCELLED"] * 2
        assert told == ["begins", "is stopped", "begins", "is stopped", "begins"]


def test_declaring_again_changes_nothing_and_another_way_updates_it_in_place(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"

    def start(every: str) -> tuple[int, str]:
        app = hf.App(url)

        @app.schedule(every=every)
        @app.task
        def beat() -> None: ...

        async def look() -> Any:
            from holdfast.client.caller import ask
            from holdfast.protocol.requests import ScheduleGet

            [reply] = await bridge_of(app).task_client.caller.client.request(
                [ask(ScheduleGet("beat-schedule"))]
            )
            return reply.data

        with app:
            schedule = bridge_of(app).block(look()).schedule
            return schedule.created_at, schedule.cron

    first = start("1h")
    assert start("1h") == first
    assert start("2h") == (first[0], "@every 7200s")


def test_a_run_that_begins_too_late_expires() -> None:
    app = hf.App()

    @app.schedule(every="1h", good_for="5m")
    @app.task
    def beat() -> None: ...

    with World(app) as world:
        app.queue("default").pause()
        world.elapse("1h10m")
        [task_id] = world.store.tasks
        assert app.task_handle(task_id).info().status is hf.TaskStatus.EXPIRED


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cron": "* * * * *", "every": 5},
        {"cron": "99 * * * *"},
        {"cron": "* * * * *", "timezone": "Mars/Base"},
        {"every": 0.5},
        {"every": "1h", "timezone": "UTC"},
        {"every": 5, "overlap": "maybe"},
        {"every": 5, "catch_up": -1},
        {"every": 5, "catch_up": True},
        {"every": 5, "catch_up": 1_001},
        {"every": 5, "good_for": "never"},
        {"every": 5, "at": "noon"},
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    app = hf.App()

    @app.task
    def beat() -> None: ...

    with pytest.raises(hf.errors.BadOption):
        cast(Any, app.schedule)(**options)(beat)


def test_a_schedule_is_for_tasks_and_workflows_each_under_its_own_id() -> None:
    app = hf.App()
    with pytest.raises(hf.errors.BadOption, match="above"):
        app.schedule(every=5)(print)

    @app.schedule(every=5)
    @app.task
    def beat() -> None: ...

    with pytest.raises(hf.errors.BadOption, match="twice"):
        app.schedule(every=6)(beat)
    app.schedule(every=6, id="other")(beat)


# --- tasks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "fast"},
        {"retry": 5},
        {"queue": "a@b"},
        {"priority": 1.5},
        {"time_limit": "long"},
        {"time_limit": 0},
        {"time_limit": "0s"},
        {"keep": "0s"},
        {"keep": "999ms"},
        {"keep": "long"},
        {"retries": 3},
        {"exception_codes": ["ValueError"]},
        {"exception_codes": {"ValueError": "X"}},
        {"exception_codes": {ValueError: "lower"}},
        {"exception_codes": {ValueError: "TASK_EXPIRED"}},
        {"default_error_code": "WORKER_CRASHED"},
    ],
)
def test_an_option_of_a_task_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises((hf.errors.BadOption, hf.errors.BadCode)):
        cast(Any, hf.App().task)(**options)(test_an_option_of_a_task_that_makes_no_sense_is_refused)


def test_two_tasks_of_one_name_are_refused_with_both_places() -> None:
    app = hf.App()

    @app.task(name="same")
    def one() -> None: ...

    with pytest.raises(hf.errors.DuplicateTask, match=r"test_declaring.py:\d+ and .*test_declaring.py:\d+"):

        @app.task(name="same")
        def two() -> None: ...
