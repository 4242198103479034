"""What a function in a process of its own sends and starts goes where its worker works, on real processes."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.jobs import errands
from tests.processes import Server, environment

worker_command = [sys.executable, "-m", "holdfast", "worker", "tests.jobs.errands:app"]


def test_on_sqlite_the_parents_worker_does_what_a_child_sends_and_starts(tmp_path: Path) -> None:
    env = environment({"ERRANDS_URL": f"sqlite:///{tmp_path}/errands.db"})
    command = [sys.executable, "-m", "tests.jobs.errands"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["child"] != said["pid"]
    assert said["did"] == said["begun"] == said["pid"]
    assert said["killed"] == "TIME_LIMIT_EXCEEDED"
    assert said["left"] == [said["pid"]] * 5
    assert said["attempts"] == [1] * 5


@contextmanager
def working(server: Server, tmp_path: Path, **extra: str) -> Generator[int]:
    env = environment({"ERRANDS_URL": f"sqlite:///{tmp_path}/unused.db", **extra})
    with subprocess.Popen([*worker_command, "-S", server.url], env=env) as worker:
        try:
            yield worker.pid
        finally:
            worker.terminate()


def test_a_child_sends_to_the_server_that_its_worker_was_told_of(tmp_path: Path) -> None:
    with Server(tmp_path) as server, working(server, tmp_path) as worker, asking(server.url) as app:
        child, did = app.send_many([errands.job_call.prepare()])[0].get(timeout=60).ok_value
        assert child != worker
        assert did == worker
        assert app.start("beginner").result("30s") == "begun"
        assert app.handle("begun").result("30s") == worker
    assert not (tmp_path / "unused.db").exists()


@contextmanager
def asking(url: str) -> Generator[hf.App]:
    with hf.App(url, worker=False) as app:
        yield app


@pytest.mark.parametrize("other", ["memory:", "sqlite:///{folder}/nobody.db"])
def test_another_app_in_a_child_opens_no_store_where_nobody_works(other: str, tmp_path: Path) -> None:
    url = other.format(folder=tmp_path)
    with (
        Server(tmp_path) as server,
        working(server, tmp_path, ERRANDS_OTHER_URL=url),
        asking(server.url) as app,
    ):
        handle: Any = app.send_many([errands.elsewhere.prepare()])[0]
        assert "[HF5220]" in handle.get(timeout=60).err_value.message
    assert not (tmp_path / "nobody.db").exists()


def test_a_child_is_told_the_token_where_no_list_of_processes_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/errands.db"
    monkeypatch.setenv("ERRANDS_URL", url)
    app = hf.App(url, token="canary")

    @app.workflow
    async def flow() -> tuple[str, str | None, list[str]]:
        return await hf.run(errands.way_home, mode="process")

    with app:
        found, token, shown = app.start(flow).result("30s")
    assert (found, token) == (url, "canary")
    assert "canary" not in "".join(shown)


def test_in_memory_there_is_no_way_from_a_child_to_its_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERRANDS_URL", "memory:")
    app = hf.App("memory:")

    @app.workflow
    async def flow() -> str:
        return await hf.run(errands.begin_plain, mode="process")

    with app, pytest.raises(Exception, match="HF5220"):
        app.start(flow).result("30s")
