"""`holdfast list`, `info`, `history`, `replay`: what an execution does, and whether the code still would."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from tests.processes import Outcome

Run = Callable[..., Outcome]

SHOP = """
import holdfast as hf

app = hf.App("sqlite:///holdfast.db")

def charge(cents: int) -> str:
    if cents < 0:
        raise ValueError("too little")
    return f"paid {cents}"

@app.workflow
async def checkout(cents: int) -> str:
    paid = await hf.run(charge, cents)
    await hf.sleep(0.001)
    return paid

@app.workflow
async def approve() -> str:
    await hf.run(charge, 1)
    return await hf.promise(str, timeout="1h")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Executions of a shop, in a store beside its module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_shop.py").write_text(SHOP, "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module: Any = importlib.import_module("a_shop")
    with module.app as app:
        app.start("checkout", 5, id="good").result(60)
        with pytest.raises(ValueError, match="too little"):
            app.start("checkout", -5, id="bad").result(60)
        handle = app.start("approve", id="waits")
        for _ in range(3_000):
            if handle.info().state == "suspended":
                break
    yield tmp_path
    sys.modules.pop("a_shop", None)


@pytest.fixture
def run(shop: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> Outcome:
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return command


STORE = ("-S", "sqlite:///holdfast.db")


def test_without_a_filter_a_bulk_operation_needs_all(run: Run) -> None:
    for action in ("cancel", "retry", "halt", "resume"):
        refused = run("bulk", action, *STORE)
        assert (refused.code, refused.out) == (2, "")
        assert "--all" in refused.err
    assert "1 would be asked to cancel" in run("bulk", "cancel", "--dry-run", *STORE).out, "it only counts"
    assert "waits" in run("list", "--status", "suspended", *STORE).out
    assert "1 done" in run("bulk", "cancel", "--all", "--now", "--wait", *STORE).out


def test_a_list_is_newest_first_and_filtered(run: Run) -> None:
    found = json.loads(run("list", *STORE, "--json").out)["executions"]
    assert [each["id"] for each in found] == ["waits", "bad", "good"]
    failed = run("list", "checkout", "--status", "failed", "--error", "ValueError", "--since", "1h", *STORE)
    assert failed.code == 0
    assert "bad" in failed.out
    assert "good" not in failed.out
    assert "waits" not in failed.out


def test_a_list_is_counted(run: Run) -> None:
    assert "1  suspended" in run("list", "--count", *STORE).out
    assert json.loads(run("list", "--count", "--json", *STORE).out)["counts"]["completed"] == 1


def test_info_tells_what_is_waited_for_and_at_which_line(run: Run) -> None:
    found = run("info", "waits", *STORE)
    assert found.code == 0
    assert "suspended" in found.out
    line = 1 + SHOP.splitlines().index('    return await hf.promise(str, timeout="1h")')
    assert f"a_shop.py:{line} in approve" in found.out
    assert json.loads(run("info", "waits", "--json", *STORE).out)["execution"]["waits"][0]["line"] == line


def test_info_tells_why_one_failed(run: Run) -> None:
    assert "too little" in run("info", "bad", *STORE).out
    assert run("info", "none", *STORE).code == 1


def edit(shop: Path, old: str, new: str) -> None:
    sys.modules.pop("a_shop", None)
    (shop / "a_shop.py").write_text(SHOP.replace(old, new), "utf-8")


def test_the_same_code_does_what_was_recorded(run: Run, shop: Path) -> None:
    for name in ("good", "bad", "waits"):
        assert run("history", name, "-o", f"{name}.json", *STORE).code == 0
    outcome = run("replay", "good.json", "bad.json", "waits.json", "a_shop:app")
    assert outcome.code == 0, outcome.out
    assert outcome.out.count("the code does what was recorded") == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    await hf.sleep(0.001)\n", "", "good:2 was recorded as 'sleep'"),
        ("hf.run(charge, cents)", "hf.run(charge, cents + 1)", "was recorded with other arguments"),
        ("    return paid\n", "    return paid + '!'\n", "ends with another value"),
        ("    return paid\n", "    return await hf.run(charge, 2)\n", "goes on after all that was recorded"),
        ("    return paid\n", "    raise ValueError(paid)\n", "now it ends as rejected"),
    ],
)
def test_code_that_would_differ_is_told_where(run: Run, shop: Path, old: str, new: str, said: str) -> None:
    run("history", "good", "-o", "good.json", *STORE)
    edit(shop, old, new)
    outcome = run("replay", "good.json", "a_shop:app")
    assert outcome.code == 1
    assert said in outcome.out


def test_more_code_after_the_record_of_one_that_goes_on_is_no_difference(run: Run, shop: Path) -> None:
    run("history", "waits", "-o", "waits.json", *STORE)
    edit(
        shop, 'return await hf.promise(str, timeout="1h")', 'return await hf.promise(str, timeout="1h") + "!"'
    )
    assert run("replay", "waits.json", "a_shop:app").code == 0


def test_what_is_no_history_is_refused(run: Run, shop: Path) -> None:
    (shop / "odd.json").write_text("{}", "utf-8")
    outcome = run("replay", "odd.json", "a_shop:app")
    assert outcome.code != 0
    assert "HF5214" in outcome.err
    assert run("replay", "none.json", "a_shop:app").code == 2
