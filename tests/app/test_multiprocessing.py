"""Apps in the children of multiprocessing, however they are started: each opens its own, or is refused."""

import copy
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.counts import rest_slow
from tests.processes import environment

SHOP = """
import holdfast as hf

app = hf.App()

@app.workflow
async def double(number: int) -> int:
    return 2 * number

@app.task
def triple(number: int) -> int:
    return 3 * number

def work(number):
    try:
        return double.start(number).result(60) + triple.send(number).get(60).ok_value
    except hf.errors.OpenedBeforeFork as error:
        return error.code
"""
PROGRAM = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import shop

if __name__ == "__main__":
    method, is_open = sys.argv[1], sys.argv[2] == "open"
    if is_open:
        assert shop.work(1) == 5
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        print([*pool.map(shop.work, range(3))])
    with context.Pool(2) as pool:
        print(pool.map(shop.work, range(3)))
    print(shop.work(4))
"""
METHODS = multiprocessing.get_all_start_methods()


def run(folder: Path, method: str, state: str) -> list[str]:
    (folder / "shop.py").write_text(SHOP)
    (folder / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "program.py", method, state],
        cwd=folder,
        env=environment({"HOLDFAST_URL": f"sqlite:///{folder}/holdfast.db"}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", rest_slow(METHODS, quick=1))
def test_children_of_a_parent_whose_app_is_closed_open_their_own(method: str, tmp_path: Path) -> None:
    assert run(tmp_path, method, "closed") == ["[0, 5, 10]", "[0, 5, 10]", "20"]


@pytest.mark.parametrize("method", rest_slow(METHODS, quick=1))
def test_children_of_a_parent_whose_app_is_open_open_their_own_or_are_told_at_once(
    method: str, tmp_path: Path
) -> None:
    """A forked child must not touch the parent's SQLite file; one that was started anew may."""
    each = str(["HF5206"] * 3 if method == "fork" else [0, 5, 10])
    assert run(tmp_path, method, "open") == [each, each, "20"]


def test_an_app_and_its_handles_say_how_to_reach_them_from_another_process() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def double(number: int) -> int:
        return 2 * number

    @app.task
    def triple(number: int) -> int:
        return 3 * number

    with app:
        things: list[Any] = [app, double.start(2), triple.send(2), app.handle("elsewhere")]
        for thing in things:
            with pytest.raises(hf.errors.CannotPickle, match=r"Import the module.*send it the id.*HF5209"):
                pickle.dumps(thing)
            with pytest.raises(hf.errors.CannotPickle):
                copy.deepcopy(thing)
