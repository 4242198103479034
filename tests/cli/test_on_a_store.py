"""Commands on a store itself, without a server: beside an app that is running on it, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from tests.postgres import database_url
from tests.processes import Outcome

Run = Callable[..., Outcome]


def approval_app(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def order(name: str) -> str:
        return f"{name} {await hf.promise(str)}"

    return app


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/holdfast.db" if request.param == "sqlite" else database_url()


def test_an_execution_can_be_seen_and_steered_while_its_app_runs(url: str, run: Run) -> None:
    with approval_app(url) as app:
        handle = app.start("order", "tea", id="order-1")
        while "order-1:1" not in run("tree", "order-1", "-S", url).out:
            pass
        assert run("promises", "resolve", "order-1:1", "--data", '"granted"', "-S", url).code == 0
        assert handle.result(timeout=60) == "tea granted"
    shown = run("promises", "get", "order-1", "-S", url, "--json")
    assert shown.json["promise"]["state"] == "resolved"


def test_a_look_at_a_file_that_is_not_there_does_not_make_one(tmp_path: Path, run: Run) -> None:
    for command in (["promises", "search"], ["gc", "--older-than", "1d"]):
        said = run(*command, "-S", f"sqlite:///{tmp_path}/typo.db")
        assert said.code != 0
        assert "typo.db" in said.err
        assert "HF2004" in said.err
    assert not (tmp_path / "typo.db").exists()
