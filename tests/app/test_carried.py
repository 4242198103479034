"""Context variables that travel with the work."""

import asyncio
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import holdfast as hf
from holdfast.steps.errors import BadCarried
from holdfast.testing import World
from holdfast.testing.mortal import CrashPoint

tenant: ContextVar[str] = ContextVar("tenant of the carried tests")


class User(Struct):
    name: str


user: ContextVar[User] = ContextVar("user of the carried tests")


def read_tenant() -> str:
    return tenant.get("nobody")


async def read_tenant_async() -> str:
    return tenant.get("nobody")


def read_user() -> str:
    found = user.get()
    assert isinstance(found, User)
    return found.name


# As in a program: whoever imports the module knows the variables, a child process too.
program = hf.App("sqlite:///never-opened.db")
program.carry(tenant)
program.carry(user, type=User)


@program.task(mode="process")
def mail_in_a_process() -> str:
    return read_tenant()


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.carry(tenant)
    app.carry(user, type=User)
    return app


def as_tenant(name: str, call: Any) -> Any:
    """Call it where the variable is set, and only there."""
    context = copy_context()
    context.run(tenant.set, name)
    return context.run(call)


def test_it_goes_to_steps_children_tasks_and_processes(app: hf.App) -> None:
    @app.task
    def mail() -> str:
        return read_tenant()

    @app.workflow
    async def child() -> str:
        return await hf.run(read_tenant)

    @app.workflow
    async def order() -> list[str]:
        return [
            read_tenant(),
            await hf.run(read_tenant),
            await hf.run(read_tenant_async),
            await hf.run(read_tenant, mode="process"),
            await hf.call(child),
            (await hf.call(mail)).ok_value,
        ]

    with app:
        assert as_tenant("acme", lambda: order.start().result()) == ["acme"] * 6
        assert as_tenant("acme", lambda: mail.send().get().ok_value) == "acme"
        assert order.start().result() == ["nobody"] * 6


def test_it_goes_to_a_task_that_is_the_first_thing_a_child_process_does(
    app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child imports the module that declares the variable only when it looks for the task."""
    mail = app.task(mode="process")(mail_in_a_process.function)
    monkeypatch.setitem(globals(), "mail_in_a_process", mail)
    with app:
        assert as_tenant("acme", lambda: mail.send().get().ok_value) == "acme"
        assert mail.send().get().ok_value == "nobody"


def test_the_call_of_an_entity_has_the_values_of_its_caller(app: hf.App) -> None:
    @app.entity
    class Account(hf.Entity):
        calls: int = 0

        async def owner(self) -> str:
            self.calls += 1
            await hf.sleep(0.01)  # it is put aside, and goes on elsewhere
            return await hf.run(read_tenant)

    @app.workflow
    async def order() -> str:
        return await Account("ada").owner()

    with app:
        account: Any = app.entity(Account, "ada")
        assert as_tenant("acme", account.owner) == "acme"
        assert as_tenant("zoo", lambda: order.start().result()) == "zoo"
        assert account.owner() == "nobody"


async def test_what_is_set_where_the_worker_was_opened_does_not_leak_into_executions(app: hf.App) -> None:
    @app.workflow
    async def order() -> list[str]:
        return [read_tenant(), await hf.run(read_tenant)]

    opened = copy_context()
    opened.run(tenant.set, "operator")
    await asyncio.create_task(app.__aenter__(), context=opened)
    try:
        assert await order.start() == ["nobody", "nobody"]
    finally:
        await asyncio.create_task(app.__aexit__(None, None, None), context=opened)


def test_a_value_comes_back_as_its_type(app: hf.App) -> None:
    @app.workflow
    async def order() -> list[str]:
        return [user.get().name, await hf.run(read_user), await hf.run(read_user, mode="process")]

    def start() -> Any:
        user.set(User("ada"))
        return order.start().result()

    with app:
        assert copy_context().run(start) == ["ada"] * 3


def test_a_replay_sees_what_the_start_saw() -> None:
    app = hf.App()
    app.carry(tenant)

    @app.workflow
    async def order() -> list[str]:
        before = await hf.run(read_tenant)
        await hf.sleep(60)
        return [before, read_tenant(), await hf.run(read_tenant)]

    for side in ("before", "after"):
        for write in range(1, 6):
            with World(app, crashes=[CrashPoint(write, side)]):
                found = as_tenant("acme", lambda: order.start().result())
            assert found == ["acme"] * 3


def test_the_code_of_a_workflow_may_set_it_for_what_follows(app: hf.App) -> None:
    @app.workflow
    async def order() -> list[str]:
        before = await hf.run(read_tenant)
        tenant.set("other")
        return [before, await hf.run(read_tenant)]

    with app:
        assert as_tenant("acme", lambda: order.start().result()) == ["acme", "other"]


def test_a_message_has_the_values_of_its_sender_beside_it(app: hf.App) -> None:
    @app.workflow
    async def order() -> list[str]:
        seen: list[str] = []
        box = hf.mailbox(str)
        for _ in range(2):
            message = await box.next()
            with message.context():
                seen.append(await hf.run(read_tenant))
            seen.append(await hf.run(read_tenant))
        return seen

    with app:
        handle = as_tenant("acme", lambda: order.with_options(id="o").start())
        as_tenant("globex", lambda: app.tell("o", "one"))
        app.tell("o", "two")
        assert handle.result() == ["globex", "acme", "acme", "acme"]


def test_it_is_written_by_the_codec_of_the_app(tmp_path: Path) -> None:
    class Reversed:
        def encode(self, raw: bytes) -> bytes:
            return raw[::-1]

        def decode(self, raw: bytes) -> bytes:
            return raw[::-1]

    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db", codec=Reversed())
    app.carry(tenant)

    @app.workflow
    async def order() -> str:
        return await hf.run(read_tenant)

    with app:
        assert as_tenant("acme", lambda: order.start().result()) == "acme"


def test_too_much_is_refused_where_it_is_started(app: hf.App) -> None:
    @app.workflow
    async def order() -> None: ...

    with app, pytest.raises(BadCarried, match="the limit is 4,096"):
        as_tenant("x" * 4_000, order.start)


def test_what_is_no_json_is_refused_where_it_is_started(app: hf.App) -> None:
    @app.workflow
    async def order() -> None: ...

    with app, pytest.raises(BadCarried, match="cannot be stored"):
        as_tenant(object(), order.start)  # type: ignore[arg-type]


def test_two_variables_under_one_name_are_refused(app: hf.App) -> None:
    with pytest.raises(BadCarried, match="Two context variables"):
        app.carry(ContextVar("another"), name=tenant.name)


def test_what_is_no_context_variable_is_refused(app: hf.App) -> None:
    with pytest.raises(BadCarried, match="'tenant' is no ContextVar"):
        app.carry("tenant")  # type: ignore[arg-type]


async def test_a_fork_with_other_arguments_has_the_values_of_the_start(app: hf.App) -> None:
    @app.workflow
    async def order(cents: int) -> str:
        first = await hf.run(read_tenant)
        return f"{first} {await hf.run(read_tenant)} {cents}"

    async with app:
        tenant.set("acme")
        started = order.with_options(id="order-17").start(5)
        assert await started == "acme acme 5"
        tenant.set("another")
        assert await started.fork(before="order-17:2", id="order-18", args=[6]) == "acme acme 6"


async def test_an_execution_that_an_event_starts_has_the_values_of_who_sent_it(app: hf.App) -> None:
    @app.on("signed.up")
    async def from_outside(event: dict[str, str]) -> str:
        await hf.send_event("welcomed", id=event["user"])
        return await hf.run(read_tenant)

    @app.on("welcomed")
    async def from_workflow(event: dict[str, str]) -> str:
        return await hf.run(read_tenant)

    async with app:
        tenant.set("acme")
        await app.event("signed.up", id="evt-1", user="ada")
        tenant.set("another")
        assert await app.handle("from_outside-evt-1") == "acme"
        assert await app.handle("from_workflow-ada") == "acme"
