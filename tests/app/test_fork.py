"""After os.fork() of a process with an open app: the child opens its own, or is refused at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Server, environment

BEGINNING = """
import os, signal, sys
import holdfast as hf

signal.alarm(50)  # whoever hangs is ended
app = hf.App(sys.argv[1])

@app.workflow
async def double(number: int) -> int:
    return 2 * number

@app.task
def triple(number: int) -> int:
    return 3 * number

def fork(work, wait=os.waitpid):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)
        try:
            print(work())
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(0)
    return wait(pid, 0)

"""


def run(program: str, url: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGINNING + program, url],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


IN_THE_CHILD = """
handle = app.start(double, 1, id="one")
assert handle.result(60) == 2
fork(lambda: app.start(double, 4, id="four").result(60))
fork(lambda: triple.send(4).get(20).ok_value)
fork(lambda: app.handle("one").result(60))
fork(lambda: hf.App(sys.argv[1], worker=False).start("double", 5, id="five").result(60))
assert app.start(double, 6, id="six").result(60) == 12
print("the parent goes on")
"""


def test_over_http_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    with Server(tmp_path, "--store", f"sqlite:///{tmp_path}/far.db") as server:
        answers = run(IN_THE_CHILD, server.url, tmp_path)
    assert answers == ["8", "12", "2", "10", "the parent goes on"]


def test_a_forked_child_does_not_touch_the_file_that_its_parent_has_open(tmp_path: Path) -> None:
    refused, unsent, *more, last = run(IN_THE_CHILD, f"sqlite:///{tmp_path}/holdfast.db", tmp_path)
    for line in (refused, unsent, *more):
        assert line.startswith("OpenedBeforeFork: "), line
        assert "HF5206" in line
    assert last == "the parent goes on"


def test_what_is_kept_in_memory_stays_with_the_parent(tmp_path: Path) -> None:
    program = "app.start(double, 1).result(60)\nfork(lambda: app.start(double, 2).result(60))"
    [line] = run(program, "memory:", tmp_path)
    assert line.startswith("OpenedBeforeFork: ")


@pytest.mark.parametrize("before", ["pass", "app.start(double, 1).result(60); app.close()"])
def test_an_app_that_is_closed_may_be_forked(tmp_path: Path, before: str) -> None:
    after = "fork(lambda: app.start(double, 4).result(60))\nprint(app.start(double, 5).result(60))"
    assert run(f"{before}\n{after}", f"sqlite:///{tmp_path}/holdfast.db", tmp_path) == ["8", "10"]


def test_another_file_may_be_opened_in_the_child(tmp_path: Path) -> None:
    program = """
app.start(double, 1).result(60)
def other():
    with hf.App("sqlite:///other.db") as another:
        another.registry.add(double)
        return another.start(double, 3).result(60)
fork(other)
"""
    assert run(program, f"sqlite:///{tmp_path}/holdfast.db", tmp_path) == ["6"]


def test_a_child_that_was_forked_in_asyncio_may_use_the_app_too(tmp_path: Path) -> None:
    program = """
import asyncio
async def main():
    async with app:
        handle = app.start(double, 1, id="one")
        await handle
        unstarted = app.start(double, 2, id="two")
        wait = lambda pid, flags: asyncio.to_thread(os.waitpid, pid, flags)  # its own worker goes on
        await fork(lambda: app.start(double, 4).result(60), wait)
        await fork(lambda: app.handle("one").result(60), wait)
        await fork(lambda: unstarted.result(60), wait)
        print(await unstarted)
asyncio.run(main())
"""
    with Server(tmp_path, "--store", f"sqlite:///{tmp_path}/far.db") as server:
        assert run(program, server.url, tmp_path) == ["8", "2", "4", "4"]


def test_a_child_of_multiprocessing_that_ends_in_order_closes_nothing_of_its_parent(tmp_path: Path) -> None:
    program = """
import multiprocessing
app.start(double, 1).result(60)
child = multiprocessing.get_context("fork").Process(target=lambda: None)
child.start(); child.join()
sys.stdout.flush()
if os.fork() == 0:
    sys.exit(0)  # with everything that the end of an interpreter does
os.wait()
print(child.exitcode, app.start(double, 5).result(60))
"""
    assert run(program, f"sqlite:///{tmp_path}/holdfast.db", tmp_path) == ["0 10"]
