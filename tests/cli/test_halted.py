"""What is halted is seen everywhere, with its reason and since when, and is continued alone or together."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.processes import Outcome

Run = Callable[..., Outcome]
Data = Callable[..., Any]

_numbers = count(10)


@pytest.fixture
def prefix(run: Run) -> str:
    """Three executions and a background task, halted, and one execution that is not."""
    prefix = f"h{next(_numbers)}"
    for name, func in (("a", "order"), ("b", "order"), ("c", "refund"), ("free", "order")):
        run("invoke", f"{prefix}-{name}", "--func", func, "--target", f"poll://any@{prefix}")
    run("tasks", "send", "--id", f"{prefix}-job", "--func", "mail", "--queue", f"q-{prefix}")
    for name, reason, code in (
        ("a", "the code asks for something else", "HF5101"),
        ("b", "somebody wondered", "BY_HAND"),
        ("c", "the code asks for something else", "HF5101"),
    ):
        assert run("tasks", "halt", f"{prefix}-{name}", "--reason", reason, "--code", code).code == 0
    assert run("tasks", "halt", f"{prefix}-job").code == 0
    return prefix


def test_a_halted_execution_is_seen_with_its_reason_and_since_when(run: Run, data: Data, prefix: str) -> None:
    line = run("tree", f"{prefix}-a").out.rstrip()
    assert line.startswith(f"! {prefix}-a (order) halted ")
    assert line.endswith(" ago: the code asks for something else [HF5101]")
    table = run("tasks", "list", "--prefix", prefix).out.splitlines()
    assert table[0].split() == ["ID", "QUEUE", "STATUS", "ATTEMPTS", "SENT", "CODE", "WORKER", "HALTED"]
    assert [line.split()[0] for line in table[1:]] == [f"{prefix}-{name}" for name in ("a", "b", "c", "job")]
    assert "HALTED" in table[1]
    assert "HF5101" in table[1]
    assert "ago: the code asks for something else" in table[1]
    assert "ago: halted by hand" in table[4]
    for command in (("tasks", "info"), ("tasks", "get")):
        shown = run(*command, f"{prefix}-b").out
        assert "reason" in shown
        assert "somebody wondered [BY_HAND]" in shown
        assert "ago)" in next(line for line in shown.splitlines() if line.startswith("halted "))
    halted = data("tasks", "get", f"{prefix}-a")["task"]["halted"]
    assert (halted["reason"], halted["code"]) == ("the code asks for something else", "HF5101")
    assert "order" in run("tasks", "info", f"{prefix}-free").out


def test_tasks_are_listed_by_being_halted(data: Data, prefix: str) -> None:
    found = data("tasks", "list", "--status", "HALTED", "--prefix", prefix)["tasks"]
    assert [task["id"] for task in found] == [f"{prefix}-{name}" for name in ("a", "b", "c", "job")]
    assert not data("tasks", "list", "--status", "PENDING", "--prefix", prefix)["tasks"]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ((), "a b c job"),
        (("--code", "HF5101"), "a c"),
        (("--reason", "wondered"), "b"),
        (("--workflow", "order"), "a b"),
        (("--workflow", "order", "--code", "HF5101"), "a"),
        (("--workflow", "mail"), "job"),
        (("--queue", "{queue}"), "job"),
        (("--tag", "resonate:origin={prefix}-c"), "c"),
    ],
)
def test_all_that_fit_are_continued_and_no_others(
    run: Run, data: Data, prefix: str, filters: tuple[str, ...], names: str
) -> None:
    words = [word.format(queue=f"q-{prefix}", prefix=prefix) for word in filters]
    command = ("tasks", "continue", "--all", "--prefix", prefix, *words)
    expected = [f"{prefix}-{name}" for name in names.split()]
    assert data(*command, "--dry-run")["continued"] == expected
    assert len(run(*command, "--dry-run").out.splitlines()) == 1 + len(expected)
    assert run(*command).out == f"{len(expected)} continued\n"
    left = data("tasks", "list", "--status", "HALTED", "--prefix", prefix)["tasks"]
    assert {task["id"] for task in left}.isdisjoint(expected)
    assert len(left) == 4 - len(expected)
    assert data(*command) == {"continued": [], "gone": []}


def test_what_was_continued_in_the_meantime_is_told(run: Run, prefix: str) -> None:
    assert run("tasks", "continue", f"{prefix}-a").code == 0
    again = run("tasks", "continue", f"{prefix}-a")
    assert again.code == 1
    assert "not halted" in again.err


def test_continuing_takes_an_id_or_all(run: Run) -> None:
    for words in ((), ("some", "--all"), ("--all", "--version", "1")):
        refused = run("tasks", "continue", *words)
        assert refused.code == 2
        assert "--all" in refused.err
