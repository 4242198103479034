"""Dependencies: filled in by type or name, opened with the worker, never recorded."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere


class Database:
    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.is_open = True


class Settings:
    def __init__(self, name: str) -> None:
        self.name = name


def made_by(app: hf.App, key: Any, source: Any) -> str:
    """What a step is given for this provider."""
    app.provide(key, source)

    async def look(database: Annotated[Database, hf.types.Depends(key)] = hf.provided) -> str:
        assert database.is_open
        return database.name

    @app.workflow
    async def flow() -> str:
        return await hf.run(look)

    with World(app):
        return app.start(flow, id="x").result()


async def awaited() -> Database:
    await asyncio.sleep(0)
    return Database("awaited")


def generated() -> Generator[Database]:
    yield Database("generated")


@asynccontextmanager
async def managed() -> AsyncGenerator[Database]:
    yield Database("managed")


async def yielded() -> AsyncGenerator[Database]:
    yield Database("yielded")


@pytest.mark.parametrize("key", [Database, "database"])
@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Database("value"), "value"),
        (Database, "real"),
        (lambda: Database("made"), "made"),
        (awaited, "awaited"),
        (generated, "generated"),
        (yielded, "yielded"),
        (managed, "managed"),
    ],
)
def test_a_provider_is_a_value_or_any_kind_of_factory(key: Any, source: Any, name: str) -> None:
    assert made_by(hf.App("memory:"), key, source) == name


def test_a_parameter_is_filled_in_wherever_it_stands_and_the_others_keep_their_order() -> None:
    app = hf.App("memory:")
    app.provide(Database, Database("db"))

    async def step(a: int, database: Database, b: int, *, c: int = 0) -> list[Any]:
        return [a, database.name, b, c]

    @app.workflow
    async def inner(database: Database, a: int) -> list[Any]:
        return [database.name, a]

    @app.workflow
    async def flow(database: Database, first: int, second: int = 9) -> Any:
        run: Any = hf.run
        here: Any = inner
        return [
            database.name,
            first,
            second,
            await run(step, 1, 2, c=3),
            await run(step, 1, b=4),
            await here(5),
            await here(Database("own"), 6),
            await hf.call("inner", 7),
        ]

    start: Any = app.start
    with World(app):
        assert start(flow, 1, id="x").result() == [
            *["db", 1, 9],
            *[[1, "db", 2, 3], [1, "db", 4, 0], ["db", 5], ["own", 6], ["db", 7]],
        ]


def test_what_is_provided_is_in_no_payload_and_no_fingerprint() -> None:
    """The record of an app that provides something else replays on this one."""
    app = hf.App("memory:")
    app.provide(Database, Database)

    async def step(database: Database = hf.provided, number: int = 0) -> str:
        return f"{database.name} {number}"

    @app.workflow
    async def flow(database: Database = hf.provided) -> list[str]:
        first = await hf.run(step, number=1)
        await hf.sleep("1d")
        return [first, database.name]

    with World(app) as world:
        handle = app.start(flow, id="x")
        world.elapse("1h")
        [(_, source)] = app.providers.sources.items()
        assert source is Database
        world.provide[Database] = Database("other")
        world.kill()
        assert handle.result() == ["real 1", "other"]
        stored = [*world.journal("x"), world.store.promises["x"]]
        assert not any("database" in str(promise) for promise in stored)


def test_providers_open_before_those_that_depend_on_them_and_close_in_reverse() -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    @app.provide(Database)
    async def database(settings: Settings) -> AsyncGenerator[Database]:
        task = asyncio.current_task()
        seen.append(f"open {settings.name}")
        yield Database(settings.name)
        assert asyncio.current_task() is task, "left by the task that entered it"
        seen.append("close database")

    @app.provide("log")
    def log() -> Generator[list[str]]:
        seen.append("open log")
        yield seen
        seen.append("close log")

    @app.provide(Settings)
    def settings(log: Annotated[list[str], hf.types.Depends("log")]) -> Generator[Settings]:
        seen.append("open settings")
        yield Settings("db")
        seen.append("close settings")

    with app:
        assert seen == ["open log", "open settings", "open db"]
    assert seen[3:] == ["close database", "close settings", "close log"]


def test_a_provider_that_cannot_open_keeps_the_app_from_opening_and_closes_the_others() -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    @app.provide("first")
    def first() -> Generator[int]:
        yield 1
        seen.append("closed")

    @app.provide("second")
    def second() -> int:
        raise ConnectionError("no database")

    with pytest.raises(ConnectionError, match="no database"), app:
        pass
    assert seen == []  # a generator is told of the error at its yield, and this one does not catch it
    assert not any(thread.name == "holdfast-app" for thread in threading.enumerate())


def test_providers_that_wait_for_each_other_are_named() -> None:
    app = hf.App("memory:")

    @app.provide("a")
    def one(other: Annotated[int, hf.types.Depends("b")]) -> int:
        return other

    @app.provide("b")
    def two(other: Annotated[int, hf.types.Depends("a")]) -> int:
        return other

    with pytest.raises(hf.errors.BadProvider, match="'a' -> 'b' -> 'a'"), app:
        pass


def test_a_thread_gets_it_and_a_child_process_is_refused() -> None:
    app = hf.App("memory:")
    app.provide(Database, Database("db"))

    def step(number: int, database: Database = hf.provided) -> list[Any]:
        return [number, database.name, threading.current_thread() is threading.main_thread()]

    @app.workflow
    async def flow() -> Any:
        here = await hf.run(step, 1)
        try:
            await hf.run(step, 1, mode="process")
        except hf.errors.BadProvider as error:
            return [here, error.what]

    with app:
        [here, refused] = app.start(flow).result("20s")
    assert here == [1, "db", False]
    assert "'database' cannot be filled in in a child process" in refused


def test_what_the_application_supplies_cannot_be_given_by_a_caller() -> None:
    app = hf.App("memory:")
    app.provide(Database, Database)

    async def step(database: Database) -> None: ...

    @app.workflow
    async def flow(database: Database = hf.provided) -> str:
        try:
            await hf.run(step, database=database)
        except hf.errors.BadArguments as error:
            return error.what
        return ""

    with World(app):
        with pytest.raises(hf.errors.BadArguments, match="supplied by the application"):
            app.start(flow, database=Database("mine"))
        assert "'database' is supplied by the application" in app.start(flow, id="x").result()


def test_an_execution_that_asks_for_what_is_not_provided_here_is_given_back() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def flow(mailer: Annotated[Any, hf.types.Depends("mailer")] = hf.provided) -> str:
        return str(mailer)

    with World(app) as world:
        handle = app.start(flow, id="x")
        world.elapse("10s")
        assert "asks for 'mailer'; provided here: nothing" in str(world.store.tasks["x"].error)
        world.provide["mailer"] = "post"
        world.kill()
        assert handle.result() == "post"


def test_a_key_is_provided_once() -> None:
    app = hf.App("memory:")
    app.provide("a", 1)
    with pytest.raises(hf.errors.BadProvider, match="twice"):
        app.provide("a", 2)
    wrong: Any = 3
    with pytest.raises(hf.errors.BadProvider, match="neither a type nor a name"):
        app.provide(wrong, 2)


def test_tests_replace_providers_and_crashes_open_new_ones() -> None:
    app = hf.App("memory:")
    opened: list[str] = []

    @app.provide(Database)
    def real() -> Database:
        raise AssertionError("a test must not reach the real one")

    def fake() -> Generator[Database]:
        opened.append("open")
        yield Database("fake")
        opened.append("close")

    async def step(database: Database = hf.provided) -> str:
        assert database.is_open
        return database.name

    @app.workflow
    async def flow(database: Database = hf.provided) -> list[str]:
        names = [database.name, await hf.run(step)]
        await hf.sleep("1h")
        return [*names, await hf.run(step)]

    proof = crash_everywhere(flow, app=app, provide={Database: fake})
    assert proof.result == ["fake"] * 3
    assert proof.crashes > 5
    assert opened.count("open") == opened.count("close") > proof.crashes


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_provider_that_fails_to_close_is_logged_and_the_others_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    @app.provide("first")
    def first() -> Generator[int]:
        try:
            yield 1
        finally:
            seen.append("closed")

    @app.provide("second")
    def second() -> Generator[int]:
        yield 2
        raise OSError("already gone")

    with app:
        pass
    assert "a provider could not be closed" in caplog.text
    assert seen == ["closed"]


def test_in_a_real_world_each_worker_opens_its_own() -> None:
    app = hf.App("memory:", worker=False)

    @app.provide(Database)
    def never() -> Database:
        raise AssertionError("who runs no worker needs no database")

    with app:
        pass
