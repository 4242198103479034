"""Sending, waiting, looking, cancelling, running again: an app in virtual time, a real node and worker."""

import asyncio
from collections.abc import Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.client.embedded import EmbeddedClient
from holdfast.client.errors import Unreachable
from holdfast.jobs.task_client import TaskClient
from holdfast.protocol.replies import Reply
from holdfast.testing import World, crash_everywhere
from tests.processes import Server

Code = hf.codes.OutcomeCode


class Shop:
    """An app with a few tasks, and what they did."""

    def __init__(self) -> None:
        self.app = app = hf.App(exception_codes={ConnectionError: "SMTP_DOWN"})
        self.runs: list[str] = []
        self.fail_times = 0

        @app.task(queue="email", retry=hf.Retry.fixed([60, 600], jitter=0, retry_for=["SMTP_DOWN"]))
        def send_email(to: str, count: int = 1) -> hf.TaskResult[str, hf.TaskError]:
            self.runs.append(to)
            if self.fail_times:
                self.fail_times -= 1
                raise ConnectionError("no route")
            if to == "nobody":
                return hf.TaskResult(err=hf.TaskError("NO_SUCH_USER", "who?", {"to": to}))
            return hf.TaskResult(ok=f"sent {count} to {to}")

        @app.task(retry=hf.Retry.fixed([1] * 10))
        async def double(number: int) -> int:
            await asyncio.sleep(5)
            self.runs.append(str(number))
            return number * 2

        @app.task(time_limit="1m", priority=3)
        async def forever() -> None:
            await asyncio.sleep(3600)

        self.send_email, self.double, self.forever = send_email, double, forever


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def world(shop: Shop) -> Generator[World]:
    with World(shop.app) as world:
        yield world


def test_a_call_runs_right_here(shop: Shop) -> None:
    assert shop.send_email("a").ok_value == "sent 1 to a"
    assert shop.runs == ["a"]


def test_what_was_sent_is_run_and_its_result_waits(shop: Shop, world: World) -> None:
    handle = shop.send_email.send("a@b.c", count=2)
    assert handle.get(timeout=10).ok_value == "sent 2 to a@b.c"
    info = handle.info()
    assert info.status is hf.TaskStatus.COMPLETED
    assert (info.name, info.queue, info.priority, info.retry_count, info.retry_limit) == (
        "send_email",
        "email",
        0,
        0,
        2,
    )
    assert info.sent_at == info.enqueued_at == info.claimed_at == info.started_at == info.completed_at
    assert info.failed_at is info.next_retry_at is info.good_until is None
    assert info.error_code is None
    assert info.claimed_by
    [attempt] = info.attempts
    assert (attempt.number, attempt.status, attempt.will_retry) == (1, "COMPLETED", False)


def test_an_error_is_a_result_and_not_an_exception(shop: Shop, world: World) -> None:
    handle = shop.send_email.send("nobody")
    error = handle.get().err_value
    assert (error.error_code, error.message, error.data) == ("NO_SUCH_USER", "who?", {"to": "nobody"})
    info = handle.info()
    assert (info.status, info.error_code) == ("FAILED", "NO_SUCH_USER")
    assert info.failed_at is not None
    assert shop.runs == ["nobody"], "its code is not one that is retried"


def test_a_retry_comes_after_its_delay_and_leaves_its_attempt(shop: Shop, world: World) -> None:
    shop.fail_times = 2
    began = world.now
    handle = shop.send_email.send("a")
    world.elapse(1)
    waiting = handle.info()
    assert (waiting.status, waiting.retry_count) == ("PENDING", 1)
    assert waiting.next_retry_at == waiting.enqueued_at == began + timedelta(seconds=60)
    assert waiting.sent_at == began, "when the caller called does not change"
    assert handle.get().is_ok
    assert world.now - began == timedelta(seconds=660)
    assert [(each.number, each.error_code, each.will_retry) for each in handle.info().attempts] == [
        (1, "SMTP_DOWN", True),
        (2, "SMTP_DOWN", True),
        (3, None, False),
    ]


def test_when_retries_are_used_up_it_has_failed_with_the_exception(shop: Shop, world: World) -> None:
    shop.fail_times = 9
    error = shop.send_email.send("a").get().err_value
    assert error.error_code == "SMTP_DOWN"
    assert isinstance(error.exception, ConnectionError)
    assert len(shop.runs) == 3


def test_waiting_has_a_limit_which_is_not_remembered(shop: Shop, world: World) -> None:
    handle = shop.double.send(4)
    began = world.now
    assert handle.get(timeout=0).err_value.error_code is hf.codes.RetrievalCode.WAIT_TIMEOUT
    assert world.now == began, "timeout=0 looks and returns"
    assert handle.get(timeout=3).err_value.error_code is hf.codes.RetrievalCode.WAIT_TIMEOUT
    assert world.now - began == timedelta(seconds=3)
    assert handle.get(timeout=3).ok_value == 8
    assert handle.get(timeout=0).ok_value == 8


def test_an_outcome_is_remembered(shop: Shop, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = shop.double.send(4)
    assert handle.get().ok_value == 8
    monkeypatch.setattr(TaskClient, "result", None)
    assert handle.get().ok_value == 8


def test_a_task_that_nobody_sent_is_not_found(shop: Shop, world: World) -> None:
    handle = shop.app.task_handle("none")
    assert handle.get().err_value.error_code is hf.codes.RetrievalCode.TASK_NOT_FOUND
    assert handle.get(0).err_value.error_code is hf.codes.RetrievalCode.TASK_NOT_FOUND
    for ask in (handle.info, handle.cancel, handle.rerun):
        with pytest.raises(hf.errors.TaskNotFound):
            ask()


def test_a_handle_is_found_by_its_id_and_its_result_is_typed(shop: Shop, world: World) -> None:
    sent = shop.double.send(4)
    assert shop.app.task_handle(sent.id).get().ok_value == 8


def test_a_delay_is_kept_to_the_instant(shop: Shop, world: World) -> None:
    began = world.now
    handle = shop.double.schedule("3d", 4)
    assert handle.info().enqueued_at == began + timedelta(days=3)
    assert handle.get().is_ok
    assert handle.info().started_at == began + timedelta(days=3)


def test_the_names_of_celery_lead_to_ours(shop: Shop) -> None:
    with pytest.raises(AttributeError, match=r"has no 'delay'. Use send\(\.\.\.\)"):
        cast(Any, shop.send_email).delay("a")
    with pytest.raises(AttributeError, match=r"has no 'retries'$"):
        cast(Any, shop.send_email).retries  # noqa: B018


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((), {}, "'to' is missing"),
        ((3,), {}, "'to' does not fit"),
        (("a", "many"), {}, "'count' does not fit"),
        (("a",), {"amount": 1}, "no parameter 'amount'"),
        (("a",), {"to": "b"}, "given twice"),
        ((object(),), {}, "cannot be encoded"),
    ],
)
def test_wrong_arguments_are_found_where_they_are_sent(
    shop: Shop, world: World, args: tuple[Any, ...], kwargs: dict[str, Any], what: str
) -> None:
    error = cast(Any, shop.send_email).try_send(*args, **kwargs).err_value
    assert error.code is hf.codes.SendCode.VALIDATION_FAILED
    assert what in error.message
    assert not world.store.tasks


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"good_until": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"good_until": 5}, "datetime"),
        ({"priority": "high"}, "whole number"),
        ({"priority": 2_000_000}, "whole number"),
        ({"queue": "a/b"}, "name of a queue"),
        ({"queue": ""}, "name of a queue"),
        ({"delay": "soon"}, "not a duration"),
        ({"on_conflict": "replace"}, "need a key"),
        ({"key": "k", "on_conflict": "ignore"}, "one of"),
        ({"debounce": 2}, "need a key"),
        ({"key": "k", "debounce": 2, "delay": 1}, "leave out delay"),
        ({"id": ""}, "cannot be used"),
        ({"id": 17}, "id=17 is not a string"),
        ({"key": "k" * 300}, "cannot be used"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_written(
    shop: Shop, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(hf.errors.BadOption, match=what):
        cast(Any, shop.send_email).with_options(**options)


def test_good_until_passes_before_the_start(shop: Shop, world: World) -> None:
    shop.app.queue("email").pause()
    deadline = world.now + timedelta(minutes=5)
    handle = shop.send_email.with_options(good_until=deadline).send("a")
    world.elapse("5m")
    error = handle.get(0).err_value
    assert error.error_code is Code.TASK_EXPIRED
    assert error.data == {"task_id": handle.id, "worker_id": None}
    info = handle.info()
    assert (info.status, info.failed_at, info.attempts) == ("EXPIRED", deadline, ())


def test_a_deadline_before_its_delay_is_refused(shop: Shop, world: World) -> None:
    later = shop.send_email.with_options(good_until=world.now + timedelta(seconds=5), delay=5)
    assert later.try_send("a").err_value.code is hf.codes.SendCode.VALIDATION_FAILED


def test_the_same_id_again_is_the_same_task(shop: Shop, world: World) -> None:
    first = shop.send_email.with_options(id="welcome").send("a")
    again = shop.send_email.with_options(id="welcome").send("a")
    assert first.id == again.id == "welcome"
    assert again.get().is_ok
    assert shop.runs == ["a"]


def test_the_same_id_for_something_else_is_a_mismatch(shop: Shop, world: World) -> None:
    assert shop.send_email.with_options(id="w").try_send("a").is_ok
    assert (
        shop.send_email.with_options(id="w").try_send("b").err_value.code
        is hf.codes.SendCode.PAYLOAD_MISMATCH
    )
    assert shop.double.with_options(id="w").try_send(1).err_value.code is hf.codes.SendCode.PAYLOAD_MISMATCH
    assert len(world.store.tasks) == 1


def test_a_key_finds_the_task_that_is_open(shop: Shop, world: World) -> None:
    keyed = shop.double.with_options(key="k")
    first, second = keyed.send(1), keyed.send(2)
    assert first.id == second.id
    assert (first.is_new, second.is_new) == (True, False)
    assert first.get().ok_value == 2
    assert keyed.send(3).is_new, "the key is free again"


def test_a_key_can_refuse_the_second(shop: Shop, world: World) -> None:
    keyed = shop.double.with_options(key="k", on_conflict="reject")
    assert keyed.try_send(1).is_ok
    assert keyed.try_send(2).err_value.code is hf.codes.SendCode.KEY_TAKEN


def test_a_key_can_replace_the_first_unless_it_runs(shop: Shop, world: World) -> None:
    keyed = shop.double.with_options(key="k", on_conflict="replace", delay=10)
    first, second = keyed.send(1), keyed.send(2)
    assert first.get().err_value.error_code is Code.TASK_CANCELLED
    world.elapse(12)
    assert second.info().status == "RUNNING"
    assert keyed.try_send(3).err_value.code is hf.codes.SendCode.KEY_TAKEN
    assert second.get().ok_value == 4


def test_debounce_waits_until_nobody_asks_any_more(shop: Shop, world: World) -> None:
    typed = shop.send_email.with_options(key="search", debounce="2s")
    for pending in ("h", "ho", "hol", "hold"):
        last = typed.send(pending)
        world.elapse(1)
    assert not shop.runs
    assert last.get().is_ok
    assert shop.runs == ["hold"]


def test_higher_priorities_come_first_and_equal_ones_in_order(shop: Shop, world: World) -> None:
    shop.app.queue("email").pause()
    for to, priority in (("c", 0), ("a", 5), ("d", 0), ("b", 5), ("e", -1)):
        shop.send_email.with_options(priority=priority).send(to)
    shop.app.queue("email").resume()
    world.elapse(1)
    assert shop.runs == ["a", "b", "c", "d", "e"]


def test_a_queue_gives_its_priority_unless_the_task_or_the_send_says_otherwise(
    shop: Shop, world: World
) -> None:
    shop.app.queue("default", priority=7)
    assert shop.double.send(1).info().priority == 7
    assert shop.forever.send().info().priority == 3
    assert shop.forever.with_options(priority=1).send().info().priority == 1


def test_many_are_sent_in_one_commit_each_with_its_own_answer(shop: Shop, world: World) -> None:
    commits = world.node.stats.commits
    calls: list[Any] = [("a",), ("b", 2), {"to": "c", "count": 3}, (4,)]
    sent = shop.send_email.try_send_many(calls)
    assert world.node.stats.commits == commits + 1
    assert [each.is_ok for each in sent] == [True, True, True, False]
    assert [each.ok_value.get().ok_value for each in sent[:3]] == [
        "sent 1 to a",
        "sent 2 to b",
        "sent 3 to c",
    ]


def test_calls_of_different_tasks_are_sent_together(shop: Shop, world: World) -> None:
    calls = [shop.send_email.prepare("a"), shop.double.prepare(2), cast(Any, shop.double).prepare("x")]
    email, double, wrong = shop.app.try_send_many(calls)
    assert email.ok_value.get().ok_value == "sent 1 to a"
    assert double.ok_value.get().ok_value == 4
    assert wrong.err_value.code is hf.codes.SendCode.VALIDATION_FAILED
    assert shop.app.send_many([]) == []


def test_cancelling_before_the_start(shop: Shop, world: World) -> None:
    handle = shop.double.schedule(60, 1)
    handle.cancel()
    handle.cancel()
    assert handle.get().err_value.error_code is Code.TASK_CANCELLED
    assert handle.info().status is hf.TaskStatus.CANCELLED
    world.elapse(120)
    assert not shop.runs


def test_cancelling_what_runs_needs_force_and_stops_it(shop: Shop, world: World) -> None:
    handle = shop.double.send(1)
    world.elapse(1)
    with pytest.raises(hf.errors.CannotCancel, match="running"):
        handle.cancel()
    handle.cancel(force=True)
    assert handle.get().err_value.error_code is Code.TASK_CANCELLED
    world.elapse(60)
    assert not shop.runs


def test_what_is_over_cannot_be_cancelled(shop: Shop, world: World) -> None:
    handle = shop.send_email.send("a")
    assert handle.get().is_ok
    with pytest.raises(hf.errors.CannotCancel):
        handle.cancel(force=True)


def test_a_failed_task_is_run_again_under_a_new_id(shop: Shop, world: World) -> None:
    shop.fail_times = 3
    failed = shop.send_email.with_options(priority=4, limit_key="user-1").send("a", count=2)
    assert failed.get().is_err
    again = failed.rerun()
    assert again.id != failed.id
    assert again.get().ok_value == "sent 2 to a"
    info = again.info()
    assert (info.rerun_of, info.priority, info.limit_key, info.retry_limit) == (failed.id, 4, "user-1", 2)
    assert failed.info().status is hf.TaskStatus.FAILED
    with pytest.raises(hf.errors.CannotRerun, match="COMPLETED"):
        again.rerun()


def test_a_task_over_its_time_limit_has_failed(shop: Shop, world: World) -> None:
    began = world.now
    error = shop.forever.send().get().err_value
    assert error.error_code is hf.codes.OperationalCode.TIME_LIMIT_EXCEEDED
    assert world.now - began == timedelta(minutes=1)


def test_a_task_over_its_deadline_is_timed_out(shop: Shop, world: World) -> None:
    handle = shop.forever.with_options(timeout="30s").send()
    assert handle.get().err_value.error_code is Code.TASK_TIMED_OUT
    assert handle.info().status is hf.TaskStatus.FAILED


def test_asyncio_has_the_same_by_other_names(shop: Shop, world: World) -> None:
    async def main() -> None:
        handle = await shop.double.send_async(2)
        assert (await handle.get_async(timeout=1)).err_value.error_code is hf.codes.RetrievalCode.WAIT_TIMEOUT
        assert (await handle.info_async()).status is hf.TaskStatus.RUNNING
        assert (await handle).ok_value == 4
        late = await shop.double.schedule_async(60, 2)
        await late.cancel_async()
        again = await late.rerun_async()
        assert (await again).ok_value == 4
        many = await shop.double.send_many_async([(1,), (2,)])
        assert [(await each).ok_value for each in many] == [2, 4]
        together = await shop.app.send_many_async([shop.double.prepare(3)])
        assert (await together[0]).ok_value == 6
        await shop.app.queue("default").pause_async()
        assert (await shop.app.queue("default").info_async()).paused
        await shop.app.queue("default").resume_async()

    world.run(main())


def test_blocking_the_loop_that_has_to_do_the_work_is_refused(shop: Shop, world: World) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="await"):
            shop.double.send(2)

    world.run(main())


def test_a_node_that_cannot_be_asked_is_an_err_and_never_an_exception(
    shop: Shop, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(client: Any, requests: Any) -> list[Reply]:
        raise Unreachable("nobody there")

    monkeypatch.setattr(EmbeddedClient, "request", unreachable)
    error = shop.double.try_send(1).err_value
    assert (error.code, error.retryable) == (hf.codes.SendCode.ENQUEUE_FAILED, True)
    assert error.task_id is not None
    result = shop.app.task_handle("x").get(timeout=5)
    assert result.err_value.error_code is hf.codes.RetrievalCode.RESULT_NOT_AVAILABLE


def test_a_node_without_room_is_asked_again(
    shop: Shop, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = EmbeddedClient.request, 2

    async def busy(client: Any, requests: Any) -> list[Reply]:
        nonlocal refused
        if refused and requests[0].kind == "promise.create":
            refused -= 1
            return [Reply(429, "no room [HF1901]")] * len(requests)
        return await real(client, requests)

    monkeypatch.setattr(EmbeddedClient, "request", busy)
    assert shop.double.send(1).get().ok_value == 2


def test_a_store_that_cannot_be_opened_is_an_err() -> None:
    app = hf.App("sqlite:////nowhere/at/all.db")

    @app.task
    def nothing() -> None: ...

    error = nothing.try_send().err_value
    assert error.code is hf.codes.SendCode.ENQUEUE_FAILED
    assert "cannot be created" in error.message


# --- workflows -------------------------------------------------------------------------------------------


def test_a_workflow_awaits_tasks_and_sees_their_results(shop: Shop) -> None:
    @shop.app.workflow
    async def order() -> list[Any]:
        good, bad = await hf.gather(
            hf.call(shop.send_email, "a", count=2),
            hf.call(shop.send_email.with_options(priority=3), "nobody"),
        )
        return [good.ok, bad.err_value.error_code]

    with World(shop.app):
        assert shop.app.start(order).result() == ["sent 2 to a", "NO_SUCH_USER"]


def test_a_workflow_with_tasks_survives_every_crash(shop: Shop) -> None:
    @shop.app.workflow
    async def sums() -> int:
        results = await hf.gather(*(hf.call(shop.double, number) for number in range(3)))
        rest = await hf.call(shop.double, sum(result.ok_value for result in results))
        return rest.ok_value

    assert crash_everywhere(sums, app=shop.app).result == 12


def test_a_workflow_only_starts_a_task(shop: Shop) -> None:
    @shop.app.workflow
    async def order() -> str:
        return await hf.start(shop.double, 4)

    with World(shop.app):
        task_id = shop.app.start(order, id="o").result()
        assert task_id == "o:1"
        assert shop.app.task_handle(task_id).get().ok_value == 8


def test_wrong_arguments_of_a_task_are_raised_in_the_workflow(shop: Shop) -> None:
    @shop.app.workflow
    async def order() -> str:
        try:
            await cast(Any, hf.call)(shop.double, "four")
        except hf.errors.BadArguments:
            return "found"
        return "not found"

    with World(shop.app):
        assert shop.app.start(order).result() == "found"


@pytest.mark.parametrize("options", [{"id": "x"}, {"key": "x"}, {"connection": object()}])
def test_options_that_name_the_task_make_no_sense_in_a_workflow(shop: Shop, options: dict[str, Any]) -> None:
    with pytest.raises(hf.errors.BadOption):
        cast(Any, shop.double.with_options)(**options).as_call((1,), {}, waits=True)


def test_a_task_that_a_workflow_calls_with_a_delay_begins_after_it(shop: Shop, world: World) -> None:
    @shop.app.workflow
    async def workflow() -> str:
        return (await hf.call(shop.send_email.with_options(delay="10m"), "a")).ok_value

    began = world.now
    assert shop.app.start(workflow).result() == "sent 1 to a"
    assert world.now - began == timedelta(minutes=10)


def test_a_task_that_a_workflow_starts_with_a_delay_begins_after_it(shop: Shop, world: World) -> None:
    @shop.app.workflow
    async def workflow() -> str:
        return await hf.start(shop.send_email.with_options(delay="10m"), "a")

    began = world.now
    handle = shop.app.task_handle(shop.app.start(workflow).result())
    assert (shop.runs, world.now) == ([], began)
    assert handle.get().ok_value == "sent 1 to a"
    assert world.now - began == timedelta(minutes=10)


@pytest.mark.parametrize("url", ["ftp://nowhere", "http://:/nobody", "sqlite:/one-slash"])
def test_a_url_that_leads_nowhere_is_not_worth_another_attempt(url: str) -> None:
    app = hf.App(url)

    @app.task
    def job_call() -> None: ...

    sent = job_call.try_send()
    assert sent.is_err
    assert sent.err_value.code is hf.codes.SendCode.ENQUEUE_FAILED
    assert not sent.err_value.retryable


def test_a_token_that_is_refused_is_no_mistake_in_the_task(tmp_path: Path) -> None:
    with Server(tmp_path, "--tokens", "shop the-secret-of-the-shop") as server:
        for token, code in (("another-secret", "HF3101"), ("the-secret-of-the-shop", "HF3102")):
            app = hf.App(server.url, token=token, worker=False)

            @app.task
            def mail(to: str) -> str:
                return to

            with app:
                error = mail.with_options(id="elsewhere-1").try_send("ada").err_value
            assert (error.code, error.retryable) == (hf.codes.SendCode.ENQUEUE_FAILED, False)
            assert code in error.message
