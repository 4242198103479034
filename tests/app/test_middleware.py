"""Middleware around starts, sends, messages, workflows, steps and tasks."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import SendFailed, UnencodablePayload
from holdfast.steps.errors import BadMiddleware
from holdfast.testing import World
from holdfast.testing.mortal import CrashPoint

Around = Generator[None, Any, None]


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(f"sqlite:///{tmp_path}/holdfast.db")


def add(left: int, right: int) -> int:
    return left + right


async def add_async(left: int, right: int) -> int:
    return left + right


def test_it_is_around_everything_an_app_does(app: hf.App) -> None:
    seen: list[tuple[str, str, str, int, tuple[Any, ...], Any]] = []

    @app.middleware
    def watch(invocation: hf.types.Invocation) -> Around:
        result = yield
        seen.append(
            (
                invocation.kind,
                invocation.name,
                invocation.id,
                invocation.attempt,
                invocation.args,
                str(result) if invocation.kind == "send" else result,
            )
        )

    @app.task
    def mail(to: str) -> str:
        return to

    @app.workflow
    async def child(size: int) -> int:
        return size

    @app.workflow
    async def order(size: int) -> str:
        await hf.run(add, size, 1)
        await hf.run(add_async, size, 2)
        await hf.call(child, size)
        await hf.call(mail, "ada")
        return await hf.receive(str)

    with app:
        handle = order.with_options(id="o").start(3)
        app.tell("o", "hello")
        assert handle.result() == "hello"
        mail.with_options(id="m").send("bob").get()
    assert sorted(seen, key=lambda each: (each[0], each[2], each[1])) == [
        ("send", "mail", "m", 1, ("bob",), "<handle of task m>"),
        ("send", "mail", "o:4", 1, ("ada",), "o:4"),
        ("start", "order", "o", 1, (3,), "o"),
        ("start", "child", "o:3", 1, (3,), "o:3"),
        ("step", "add", "o:1", 1, (3, 1), 4),
        ("step", "add_async", "o:2", 1, (3, 2), 5),
        ("task", "mail", "m", 1, ("bob",), "bob"),
        ("task", "mail", "o:4", 1, ("ada",), "ada"),
        ("tell", "tell", "o", 1, ("hello",), None),
        ("workflow", "order", "o", 1, (3,), "hello"),
        ("workflow", "child", "o:3", 1, (3,), 3),
    ]


def test_the_first_that_is_declared_is_the_outermost(app: hf.App) -> None:
    order: list[str] = []

    def named(name: str) -> None:
        @app.middleware("step")
        def around(invocation: hf.types.Invocation) -> Around:
            order.append(f"before {name}")
            yield
            order.append(f"after {name}")

    named("first")
    named("second")

    @app.workflow
    async def flow() -> int:
        return await hf.run(add, 1, 2)

    with app:
        flow.start().result()
    assert order == ["before first", "before second", "after second", "after first"]


@pytest.mark.parametrize("function", [add, add_async])
def test_it_may_change_arguments_and_result(app: hf.App, function: Any) -> None:
    @app.middleware("step")
    def change(invocation: hf.types.Invocation) -> Around:
        invocation.args = (10, *invocation.args[1:])
        invocation.result = 2 * (yield)

    @app.workflow
    async def flow() -> int:
        return await hf.run(function, 1, 2)

    with app:
        assert flow.start().result() == 24


def test_it_may_refuse_a_start_before_anything_is_stored(app: hf.App) -> None:
    @app.middleware("start")
    def deny(invocation: hf.types.Invocation) -> Around:
        if invocation.args[0] > 100:
            raise PermissionError("too much")
        yield

    @app.workflow
    async def pay(cents: int) -> int:
        return cents

    with app:
        with pytest.raises(PermissionError):
            pay.with_options(id="p").start(101)
        assert not [*app.find(pay)]
        assert pay.with_options(id="p").start(100).result() == 100


def test_around_a_step_it_runs_for_each_attempt_and_sees_the_error(app: hf.App) -> None:
    attempts: list[tuple[int, str]] = []
    failures = [ValueError("once"), ValueError("twice")]

    def flaky() -> str:
        if failures:
            raise failures.pop(0)
        return "ok"

    @app.middleware("step")
    def watch(invocation: hf.types.Invocation) -> Around:
        try:
            yield
        except ValueError as error:
            attempts.append((invocation.attempt, str(error)))
            raise
        attempts.append((invocation.attempt, "ok"))

    @app.workflow
    async def flow() -> str:
        return await hf.run(flaky, retry=hf.Retry(attempts=5, delay=0.001))

    with app:
        assert flow.start().result() == "ok"
    assert attempts == [(1, "once"), (2, "twice"), (3, "ok")]


def test_an_error_that_it_swallows_is_handled(app: hf.App) -> None:
    @app.middleware("task", "step")
    def instead(invocation: hf.types.Invocation) -> Around:
        try:
            yield
        except ZeroDivisionError:
            invocation.result = -1

    @app.task
    def divide(by: int) -> int:
        return 1 // by

    @app.workflow
    async def flow() -> int:
        return await hf.run(divmod_of, 0)

    def divmod_of(by: int) -> int:
        return 1 // by

    with app:
        assert divide.send(0).get().ok_value == -1
        assert flow.start().result() == -1


def test_a_step_in_a_child_process_has_it_around_in_the_parent(app: hf.App) -> None:
    seen: list[Any] = []

    @app.middleware("step")
    def change(invocation: hf.types.Invocation) -> Around:
        invocation.args = (5, 6)
        seen.append((yield))

    @app.workflow
    async def flow() -> int:
        return await hf.run(add, 1, 2, mode="process")

    with app:
        assert flow.start().result() == 11
    assert seen == [11]


def test_around_a_workflow_it_runs_again_on_every_replay() -> None:
    app, began, ended = hf.App(), [0], list[Any]()

    @app.middleware("workflow")
    def watch(invocation: hf.types.Invocation) -> Around:
        began[-1] += 1
        ended.append((yield))

    @app.workflow
    async def flow() -> int:
        first = await hf.run(add, 1, 2)
        await hf.sleep(60)
        return await hf.run(add, first, 3)

    for write in range(1, 6):
        began.append(0)
        with World(app, crashes=[CrashPoint(write, "before")]):
            assert flow.start().result() == 6
    assert max(began) == 2, "a worker that dies is followed by one that runs the code again"
    assert ended == [6] * 5, "what was put aside has no end"


@pytest.mark.parametrize("loop", [None, "asyncio"])
def test_it_sees_how_a_workflow_fails(app: hf.App, loop: Any) -> None:
    seen: list[str] = []

    @app.middleware("workflow")
    def watch(invocation: hf.types.Invocation) -> Around:
        try:
            yield
        except Exception as error:
            seen.append(f"{type(error).__name__} in {invocation.name}")
            raise

    @app.workflow(loop=loop)
    async def flow() -> int:
        await hf.run(add, 1, 2)
        raise LookupError("gone")

    with app, pytest.raises(LookupError):
        flow.start().result()
    assert seen == ["LookupError in flow"]


def test_generators_are_workflows_with_middleware_too(app: hf.App) -> None:
    seen: list[Any] = []

    @app.middleware("workflow")
    def watch(invocation: hf.types.Invocation) -> Around:
        seen.append((yield))

    @app.workflow
    def flow() -> Generator[Any, Any, int]:
        return (yield from hf.run(add, 1, 2))

    with app:
        assert flow.start().result() == 3
    assert seen == [3]


def test_headers_that_it_adds_travel_with_the_call(app: hf.App) -> None:
    found: list[str | None] = []

    @app.middleware("start", "send", "tell")
    def add_header(invocation: hf.types.Invocation) -> Around:
        invocation.headers["x-reason"] = f"{invocation.kind} of {invocation.name}"
        yield

    @app.middleware("workflow", "task")
    def read_header(invocation: hf.types.Invocation) -> Around:
        found.append(invocation.headers.get("x-reason"))
        yield

    @app.task
    def mail() -> None: ...

    @app.workflow
    async def child() -> None: ...

    @app.workflow
    async def order() -> str | None:
        await hf.call(child)
        await hf.call(mail)
        message = await hf.mailbox(str).next()
        return message.headers.get("x-reason")

    with app:
        handle = order.with_options(id="o").start()
        app.tell("o", "hello")
        assert handle.result() == "tell of tell"
    assert found == ["start of order", "start of child", "send of mail"]


def test_the_call_of_an_entity_is_a_message(app: hf.App) -> None:
    seen: list[tuple[str, str, tuple[Any, ...], Any]] = []

    @app.middleware("tell")
    def change(invocation: hf.types.Invocation) -> Around:
        [cents] = invocation.args
        if cents < 0:
            raise PermissionError("no debts")
        invocation.args = (2 * cents,)
        result = yield
        seen.append((invocation.name, invocation.id, invocation.args, result))

    @app.entity
    class Account(hf.Entity):
        cents: int = 0

        async def deposit(self, cents: int) -> int:
            self.cents += cents
            return self.cents

    @app.workflow
    async def order() -> int:
        return await Account("ada").deposit(2)

    with app:
        account: Any = app.entity(Account, "ada")
        assert account.deposit(1) == 2
        with pytest.raises(PermissionError):
            account.deposit(-5)
        assert order.start().result() == 6
    assert seen == [
        ("Account.deposit", "Account/ada", (2,), 2),
        ("Account.deposit", "Account/ada", (4,), None),
    ]


def test_the_message_of_a_start_and_tell_has_both_around_it(app: hf.App) -> None:
    @app.middleware("start", "tell")
    def add_header(invocation: hf.types.Invocation) -> Around:
        invocation.headers["x-reason"] = invocation.kind
        if invocation.args == ("never",):
            raise PermissionError("no")
        yield

    @app.workflow
    async def order() -> str | None:
        return (await hf.mailbox(str).next()).headers.get("x-reason")

    with app:
        assert order.with_options(id="o").start_and_tell("hello").result() == "tell"
        with pytest.raises(PermissionError):
            order.with_options(id="p").start_and_tell("never")
        assert [each.id for each in app.find(order)] == ["o"]


def test_it_is_told_of_arguments_that_cannot_be_stored(app: hf.App) -> None:
    told: list[str] = []

    @app.middleware("start", "send", "tell")
    def watch(invocation: hf.types.Invocation) -> Around:
        try:
            yield
        except Exception as error:
            told.append(f"{invocation.kind} {invocation.name}: {type(error).__name__}")
            raise

    @app.task
    def mail(to: Any) -> None: ...

    @app.workflow
    async def flow(given: Any) -> None: ...

    @app.workflow
    async def calls() -> None:
        with pytest.raises(UnencodablePayload):
            await hf.tell("o", object())

    with app:
        for asked in (
            lambda: flow.start(object()),
            lambda: app.start("flow", object()),
            lambda: app.tell("o", object()),
        ):
            with pytest.raises(UnencodablePayload):
                asked()
        with pytest.raises(SendFailed):
            mail.send(object())
        calls.start().result()
    assert [each.partition(":")[0] for each in told] == [
        "start flow",
        "start flow",
        "tell tell",
        "send mail",
        "tell tell",
    ]


@pytest.mark.parametrize("given", [add, add_async, 17])
def test_what_is_no_generator_function_is_refused(app: hf.App, given: Any) -> None:
    with pytest.raises(BadMiddleware, match="no generator function"):
        app.middleware("step")(given)


def test_one_that_yields_twice_fails_what_it_is_around(app: hf.App) -> None:
    @app.middleware("start")
    def twice(invocation: hf.types.Invocation) -> Around:
        yield
        yield

    @app.workflow
    async def flow() -> None: ...

    with app, pytest.raises(BadMiddleware, match="more than once"):
        flow.start()
