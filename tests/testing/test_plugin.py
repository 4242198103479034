"""The fixture `holdfast_world` in every way in which somebody may try it, and a test that forgets it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.payloads.errors import AnotherLoop, ForgottenWorld, NotAWorld
from holdfast.testing import World
from holdfast.testing.plugin import OpenStore, OpenWorld
from tests.postgres import execute, shared_server
from tests.processes import environment


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> hf.App:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    app = hf.App()

    @app.workflow
    async def remind(name: str) -> str:
        await hf.sleep("30d")
        return f"reminded {name}"

    return app


@pytest.fixture
def world(app: hf.App, holdfast_world: OpenWorld) -> World:
    return holdfast_world(app)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not [*tmp_path.iterdir()], "a store came into being"


def test_a_world_is_open_until_the_test_ends(app: hf.App, holdfast_world: OpenWorld) -> None:
    holdfast_world(app)
    assert app.start("remind", "Ada").result() == "reminded Ada"


def test_it_may_be_used_in_a_with_statement(app: hf.App, holdfast_world: OpenWorld) -> None:
    with holdfast_world(app) as world:
        handle = app.start("remind", "Ada")
        world.elapse("31d")
        assert handle.result() == "reminded Ada"
    assert app.start("remind", "Bob").result() == "reminded Bob"


def test_the_same_app_again_is_the_same_world(app: hf.App, world: World, holdfast_world: OpenWorld) -> None:
    assert holdfast_world(app) is world


def test_coroutines_run_in_the_time_of_a_world(app: hf.App, world: World) -> None:
    async def main() -> str:
        return str(await app.start("remind", "Ada"))

    assert world.run(main()) == "reminded Ada"


def test_the_fixture_is_not_a_world_and_says_how_to_open_one(holdfast_world: OpenWorld) -> None:
    with pytest.raises(NotAWorld, match=r"no 'elapse'. Write `world = holdfast_world\(app\)`.*HF5022"):
        holdfast_world.elapse("1d")  # pyright: ignore[reportCallIssue]
    with pytest.raises(NotAWorld, match="HF5022"), holdfast_world:
        pass
    with pytest.raises(NotAWorld, match="without an app"):
        holdfast_world()
    assert not hasattr(holdfast_world, "elaps")


def test_a_world_that_is_over_cannot_be_entered_again(app: hf.App) -> None:
    with World(app) as world:
        pass
    with pytest.raises(RuntimeError, match="open another one"), world:
        pass


async def test_a_world_opened_in_an_async_test_says_what_to_do(
    app: hf.App, holdfast_world: OpenWorld
) -> None:
    with pytest.raises(AnotherLoop, match=r"plain `def`.*HF5020"):
        holdfast_world(app)
    with pytest.raises(AnotherLoop), World(app):
        pass
    with pytest.raises(AnotherLoop, match=r"`async with`.*plain `def`.*HF5020"):
        await World(app).__aenter__()  # as `async with` does; mypy knows that nobody gets in


async def test_a_world_used_in_an_async_test_says_what_to_do(app: hf.App, world: World) -> None:
    with pytest.raises(RuntimeError, match=r"\[HF"):
        app.start("remind", "Ada")
    with pytest.raises(AnotherLoop, match="HF5020"):
        world.elapse("1d")


@pytest.mark.usefixtures("empty")
def test_a_test_that_forgets_its_world_is_told(app: hf.App) -> None:
    """Else each run would find what the last one left, and this one would take a month."""
    with pytest.raises(ForgottenWorld, match=r"test_a_test_that_forgets.*holdfast_world\(app\).*HF5021"):
        app.start("remind", "Ada")
    with pytest.raises(ForgottenWorld), app:
        pass


@pytest.mark.usefixtures("empty")
async def test_an_async_test_that_forgets_it_is_told(app: hf.App) -> None:
    with pytest.raises(ForgottenWorld):
        async with app:
            pass


def test_a_test_may_name_a_store(tmp_path: Path) -> None:
    with hf.App(f"sqlite:///{tmp_path}/holdfast.db") as app:
        app.workflow(_nothing)
        assert app.start("_nothing").result(timeout=60) is None


async def _nothing() -> None: ...


# --- real stores and seeds -------------------------------------------------------------------------------


def shop() -> hf.App:
    app = hf.App("memory:")

    @app.workflow
    async def double(number: int) -> int:
        return 2 * number

    return app


def test_an_app_works_on_a_sqlite_file_of_the_test(holdfast_sqlite: OpenStore, tmp_path: Path) -> None:
    app = holdfast_sqlite(shop())
    assert app.start("double", 4).result(60) == 8
    assert (tmp_path / "holdfast-test.db").exists()


async def test_it_may_be_opened_on_the_loop_of_an_async_test(holdfast_sqlite: OpenStore) -> None:
    async with holdfast_sqlite(shop()) as app:
        assert await app.start("double", 4) == 8


def test_an_app_works_on_an_empty_schema_of_postgresql(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES", shared_server().url())
    opened: OpenStore = request.getfixturevalue("holdfast_postgres")
    app = opened(shop())
    assert app.start("double", 4).result(60) == 8
    assert execute(opened.url, "SELECT count(*) FROM promises") == "1"


RUN = """
import holdfast as hf
from holdfast.testing import simulate

app = hf.App("memory:")

@app.workflow
async def double(number: int) -> int:
    return 2 * number

async def scenario(simulation):
    assert await app.start(double, 4, id="d") == 8

def test_seeds():
    print("seeds:", simulate(app, scenario, seeds=3).seeds)

def test_the_settings_are_back(holdfast_sqlite):
    before = app.settings
    holdfast_sqlite(app)
    holdfast_sqlite._opened.close()
    assert app.settings == before

def test_postgres(holdfast_postgres):
    holdfast_postgres(app)
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(RUN)
    command = [sys.executable, "-m", "pytest", "-rs", "-s", "-p", "no:cacheprovider", "test_it.py", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )


def test_a_seed_is_chosen_on_the_command_line(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--holdfast-seed=17")
    assert done.returncode == 0, done.stdout
    assert "holdfast: HOLDFAST_SEED=17" in done.stdout
    assert "seeds: 1" in done.stdout
    assert "name a PostgreSQL for tests: --holdfast-postgres URL" in done.stdout
    assert "seeds: 3" in run_pytest(tmp_path, "-k", "seeds").stdout


def test_a_seed_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--holdfast-seed=x")
    assert done.returncode == 4
    assert "--holdfast-seed must be a number or `random`, not 'x'" in done.stderr


def test_the_schema_is_dropped_after_the_test(tmp_path: Path) -> None:
    url = shared_server().url()
    done = run_pytest(tmp_path, f"--holdfast-postgres={url}", "-k", "postgres")
    assert done.returncode == 0, done.stdout
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'holdfast_test_%'"
    assert execute(url, schemas) == "0"
