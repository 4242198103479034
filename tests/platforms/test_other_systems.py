"""On macOS and Windows, simulated: everything can be imported, apps and servers run and stop in order."""

import os
import pkgutil
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.store.sqlite import SqliteFile
from tests.platforms.simulated import CONSOLE, SYSTEMS, command, run
from tests.processes import environment, eventually, holdfast as console

pytestmark = pytest.mark.slow  # each starts processes that load everything again
systems = pytest.mark.parametrize("system", [*SYSTEMS])


@systems
def test_every_module_can_be_imported(system: str, tmp_path: Path) -> None:
    modules = [
        found.name
        for found in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
        if not found.name.endswith("__main__")
    ]
    program = f"""
import importlib
from holdfast.ext.optional import MissingLibrary
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except MissingLibrary:  # of somebody who has no use for it
        assert name.startswith("holdfast.ext."), name
"""
    done = run(system, program, cwd=tmp_path)
    assert done.code == 0, done.err


APP = """
import os, pathlib, time
import holdfast as hf

app = hf.App("sqlite:///holdfast.db")

@hf.step(mode="process", timeout=2, retry=hf.Retry(attempts=1))
def stalls() -> None:
    pathlib.Path("stalls.pid").write_text(str(os.getpid()))
    time.sleep(60)

@hf.step(mode="process")
def pid() -> int:
    return os.getpid()

@app.workflow
async def work() -> list[str]:
    first = await pid()
    try:
        await stalls()
    except hf.errors.StepTimedOut:
        second = await pid()
    return [str(first != second), str(first == os.getpid())]

@app.task
def triple(number: int) -> int:
    return 3 * number

"""


@systems
def test_an_app_runs_steps_in_processes_and_ends_those_that_stall(system: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    program = """
sys.path.insert(0, "")
from shop import app, triple, work

with app:
    print(work.start().result(60), triple.send(4).get(60).ok_value)
"""
    done = run(system, program, cwd=tmp_path)
    assert done.out == "['True', 'False'] 12\n", done.err
    stalled = int((tmp_path / "stalls.pid").read_text())
    eventually(lambda: not is_there(stalled))  # whoever inherits it has to notice


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@systems
def test_a_file_is_used_again_after_its_app_was_closed(system: str, tmp_path: Path) -> None:
    program = """
import holdfast as hf

def once(number):
    app = hf.App("sqlite:///holdfast.db")
    @app.workflow
    async def double(number: int) -> int:
        return 2 * number
    with app:
        return double.with_options(id=f"d{number}").start(number).result(60)

print(once(1), once(2), once(1), sorted(path.name for path in pathlib.Path().iterdir()))
"""
    assert run(system, program, cwd=tmp_path).out == "2 4 2 ['holdfast.db']\n"


@systems
def test_the_demo_tells_its_story(system: str, tmp_path: Path) -> None:
    done = run(system, CONSOLE, "demo", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "✓ order-17 (order)" in done.out


def test_a_console_with_an_old_code_page_shows_what_it_cannot_as_codes(tmp_path: Path) -> None:
    done = run("windows", CONSOLE, "demo", cwd=tmp_path, encoding="cp1252")
    assert done.code == 0, done.err
    assert "\\u2713 order-17 (order)" in done.out


@contextmanager
def started(system: str, folder: Path, *words: str) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """A command that runs until it is told to stop, and the first line it says about itself."""
    process = subprocess.Popen(
        command(system, CONSOLE, *words),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while not re.search("is ready at|working for group", said) and (line := process.stdout.readline()):
            said += line
        yield process, said
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


STOPS = {
    "windows": (signal.SIGINT, signal.SIGUSR2),  # Ctrl-C and, as simulated.py has it, Ctrl-Break
    "macos": (signal.SIGINT, signal.SIGTERM),
}


@pytest.mark.parametrize(("system", "number"), [(name, each) for name in STOPS for each in STOPS[name]])
def test_a_server_has_its_file_alone_answers_and_stops_when_told(
    system: str, number: int, tmp_path: Path
) -> None:
    flags = ("serve", "--port", "0", "--store", "sqlite:///holdfast.db")
    with started(system, tmp_path, *flags) as (server, said):
        found = re.search(r"http://\S+", said)
        assert found, said
        assert console("promises", "create", "one", "--timeout", "1h", "-S", found[0]).code == 0
        second = run(system, CONSOLE, *flags, cwd=tmp_path)
        assert (second.code, "HF3203" in second.err) == (2, True)
        os.kill(server.pid, number)
        assert server.wait(60) == 0


@systems
def test_a_worker_finishes_and_stops_when_told(system: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with started(system, tmp_path, "worker", "shop:app") as (worker, said):
        assert "working for group default" in said
        os.kill(worker.pid, STOPS[system][1])
        assert worker.wait(60) == 0


def test_a_commit_reaches_the_disk_itself_on_macos_too(tmp_path: Path) -> None:
    """There fsync stops at the memory of the disk, and SQLite must be told to go further."""
    file = SqliteFile(tmp_path / "holdfast.db")
    file.open()
    try:
        assert file._transaction is not None  # pyright: ignore[reportPrivateUsage]
        connection = file._transaction.connection  # pyright: ignore[reportPrivateUsage]
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("fullfsync", "synchronous")]
        assert values == [1, 2]
    finally:
        file.close()
