"""`send` raises, `try_send` answers; results of many; options of one send."""

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.codes import SendCode
from holdfast.jobs.errors import BadPolicy, CannotReschedule, SendFailed
from holdfast.payloads.errors import BadTags

LONG_S = 60.0


@pytest.fixture
def app(tmp_path: Path) -> Generator[hf.App]:
    with hf.App(f"sqlite:///{tmp_path}/holdfast.db") as app:
        yield app


@pytest.fixture
def double(app: hf.App) -> Any:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    return double


def test_what_cannot_be_sent_raises_and_says_why(double: Any) -> None:
    with pytest.raises(SendFailed, match="VALIDATION_FAILED") as caught:
        double.send("x")
    assert caught.value.error.code is SendCode.VALIDATION_FAILED
    assert double.try_send("x").err_value.code is SendCode.VALIDATION_FAILED
    assert double.try_send(1).ok_value.get(LONG_S).ok_value == 2


def test_of_many_the_error_has_the_answers_of_all(double: Any) -> None:
    with pytest.raises(SendFailed, match="1 of 3 tasks were not sent") as caught:
        double.send_many([(1,), ("x",), (3,)])
    first, wrong, third = caught.value.results
    assert (first.is_ok, wrong.is_err, third.is_ok) == (True, True, True)
    assert third.ok_value.get(LONG_S).ok_value == 6


def test_a_schedule_and_a_rerun_raise_as_well(double: Any) -> None:
    with pytest.raises(SendFailed):
        double.schedule("1s", "x")
    late = double.schedule("1h", 1)
    late.cancel()
    assert late.rerun().get(LONG_S).ok_value == 2


def test_results_are_gathered_in_the_order_of_their_handles(double: Any) -> None:
    handles = double.send_many([(number,) for number in range(20)])
    assert [result.ok_value for result in hf.gather_results(handles, LONG_S)] == [2 * n for n in range(20)]
    assert hf.gather_results([]) == []


def test_what_is_not_over_in_time_is_a_result_too(double: Any) -> None:
    quick, late = double.send(1), double.schedule("1h", 2)
    assert quick.get(LONG_S).ok_value == 2
    results = hf.gather_results([quick, late], 0)
    assert results[0].ok_value == 2
    assert results[1].err_value.error_code == "WAIT_TIMEOUT"


async def test_all_of_it_in_asyncio() -> None:
    app = hf.App("memory:")

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        handles = await double.send_many_async([(1,), (2,)])
        assert [each.ok_value for each in await asyncio.gather(*handles)] == [2, 4]
        with pytest.raises(SendFailed):
            await cast(Any, double).send_async("x")
        assert (await cast(Any, double).try_send_async("x")).is_err


def test_one_send_has_retries_of_its_own(app: hf.App) -> None:
    @app.task(retry=hf.Retry(delay=0.001, attempts=5, jitter=0))
    def fail() -> None:
        raise ValueError("no")

    def attempts(handle: hf.types.TaskHandle[Any, Any]) -> int:
        assert handle.get(LONG_S).is_err
        return len(handle.info().attempts)

    once, thrice = hf.Retry(attempts=1), hf.Retry.fixed([0.001, 0.001], jitter=0)
    assert attempts(fail.with_options(retry=once).send()) == 1
    assert attempts(fail.with_options(retry=thrice).send()) == 3
    assert attempts(fail.with_options(retry=thrice).with_options(priority=1).send()) == 3
    assert attempts(fail.send()) == 5
    with pytest.raises(BadPolicy):
        fail.with_options(retry=hf.Retry(attempts=None))


def test_one_send_has_a_time_limit_of_its_own(app: hf.App) -> None:
    @app.task
    async def wait_long() -> None:
        import asyncio

        await asyncio.sleep(LONG_S)

    limited = wait_long.with_options(time_limit=0.05).send()
    assert limited.get(LONG_S).err_value.error_code == "TIME_LIMIT_EXCEEDED"
    with pytest.raises(hf.HoldfastError, match="must be more than 0"):
        wait_long.with_options(time_limit=0)


def test_one_send_has_tags_of_its_own(app: hf.App, double: Any) -> None:
    tagged = double.with_options(tags={"customer": "4"}).with_options(tags={"stage": "new"})
    handle = tagged.send(1)
    assert handle.get(LONG_S).is_ok
    from holdfast.app import bridge_of
    from holdfast.protocol.replies import TasksReply
    from holdfast.protocol.requests import TaskSearch

    async def find(**tags: str) -> list[str]:
        caller = bridge_of(app).task_client.caller
        return [each.id for each in (await caller.ask(TaskSearch(tags=tags), TasksReply)).tasks]

    assert bridge_of(app).block(find(customer="4", stage="new")) == [handle.id]
    assert bridge_of(app).block(find(customer="5")) == []
    with pytest.raises(BadTags):
        double.with_options(tags={"holdfast:job": "{}"})


def test_a_key_that_another_task_holds_is_a_conflict(app: hf.App, double: Any) -> None:
    @app.task
    def triple(number: int) -> int:
        return 3 * number

    held = double.with_options(key="k", delay="1h").send(1)
    for policy in ("existing", "replace", "reject"):
        sent = triple.with_options(key="k", on_conflict=policy).try_send(1)
        assert sent.err_value.code is SendCode.KEY_TAKEN
    assert double.with_options(key="k").send(1).id == held.id


def test_a_task_asks_to_be_run_again_later_and_no_attempt_is_counted(app: hf.App) -> None:
    seen: list[int] = []

    @app.task(retry=hf.Retry(attempts=1))
    def poll(wanted: int) -> int:
        seen.append(hf.current().attempt)
        if len(seen) < wanted:
            raise hf.Snooze(0.01)
        return len(seen)

    handle = poll.send(3)
    assert handle.get(LONG_S).ok_value == 3
    assert seen == [1, 1, 1]
    assert len(handle.info().attempts) == 1


def test_what_is_delayed_is_promoted_or_put_off(double: Any) -> None:
    late = double.schedule("1h", 1)
    late.reschedule(datetime.now(UTC) + timedelta(days=1))
    assert late.get(0).err_value.error_code == "WAIT_TIMEOUT"
    late.promote()
    assert late.get(LONG_S).ok_value == 2
    with pytest.raises(CannotReschedule):
        late.promote()
