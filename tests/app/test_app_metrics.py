"""What an app counts of its own work: `app.metrics()`."""

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.host import app_metrics
from holdfast.steps.observer import EndedExecution, Observer


def shop(tmp_path: Path) -> hf.App:
    return hf.App(f"sqlite:///{tmp_path}/holdfast.db")


def test_executions_and_tasks_are_counted_by_name_and_outcome(tmp_path: Path) -> None:
    app = shop(tmp_path)

    @app.workflow
    async def divide(by: int) -> int:
        return await hf.run(lambda: 1 // by, name="divide")

    @app.task(queue="email", retry=hf.Retry(attempts=2, delay=0.01))
    def mail(to: str) -> str:
        raise ConnectionError(to)

    with app:
        assert divide.start(1).result() == 1
        with pytest.raises(ZeroDivisionError):
            divide.start(0).result()
        assert mail.send("ada").get().is_err
        lines = app.metrics().splitlines()
    assert 'holdfast_executions_started_total{workflow="divide"} 2' in lines
    assert 'holdfast_executions_ended_total{workflow="divide",outcome="completed"} 1' in lines
    assert 'holdfast_executions_ended_total{workflow="divide",outcome="failed"} 1' in lines
    assert 'holdfast_execution_duration_seconds_count{workflow="divide"} 2' in lines
    assert 'holdfast_step_failures_total{workflow="divide",step="divide"} 1' in lines
    assert 'holdfast_task_attempts_started_total{task="mail",queue="email"} 2' in lines
    code = "UNHANDLED_EXCEPTION"
    assert f'holdfast_task_attempts_ended_total{{task="mail",queue="email",code="{code}"}} 2' in lines
    assert 'holdfast_task_wait_seconds_count{task="mail",queue="email"} 2' in lines


async def test_what_waits_in_the_queues_of_its_own_node_is_there_too(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db", worker=False)

    @app.workflow
    async def order() -> None: ...

    async with app:
        await order.start().started()
        text = await app.metrics_async()
    assert 'holdfast_backlog{group="default"} 1' in text
    assert 'holdfast_oldest_pending_seconds{group="default"}' in text


def test_the_number_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(app_metrics, "names_max", 2)
    app = shop(tmp_path)

    @app.fallback
    async def anything(name: str) -> str:
        return name

    with app:
        for number in range(4):
            app.start(f"flow-{number}").result()
        text = app.metrics()
    assert 'holdfast_executions_ended_total{workflow="other",outcome="completed"} 2' in text
    assert "flow-3" not in text


def test_an_observer_that_fails_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = shop(tmp_path)

    class Broken(Observer):
        def execution_ended(self, ended: EndedExecution) -> None:
            raise LookupError("broken")

    app.use(Broken())

    @app.workflow
    async def order() -> int:
        return 1

    with app:
        assert order.start().result() == 1
    assert "an observer raised an exception: Broken.execution_ended" in caplog.text


@pytest.mark.parametrize(("given", "why"), [(Observer, r"write app.use\(Observer\(\)\)"), (None, "not None")])
def test_what_is_no_extension_is_refused(given: Any, why: str) -> None:
    with pytest.raises(hf.errors.BadSetting, match=why):
        hf.App("memory:").use(given)
