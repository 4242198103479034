"""Background tasks and their queues from the console, and what `holdfast check` finds."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.node import Node
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseSettle,
    SettleAction,
    TaskClaim,
    TaskFail,
    TaskFulfill,
)
from holdfast.store.urls import open_store
from tests.counts import count_of
from tests.processes import Outcome, holdfast
from tests.requests import FAR, ask

TASKS = count_of("HOLDFAST_LISTED_TASKS", quick=4_000, full=30_000)
Run = Callable[..., Outcome]
Data = Callable[..., Any]


def test_a_task_is_sent_listed_shown_cancelled_and_run_again(run: Run, data: Data) -> None:
    sent = data(
        "tasks", "send", "--id", "sent-mail-1", "--func", "send_email", "--arg", "a@b.c",
        "--queue", "console",
        "--priority", "5", "--key", "welcome", "--delay", "1h", "--good-for", "2h",
    )["promise"]  # fmt: skip
    assert sent["id"] == "sent-mail-1"
    listed = data("tasks", "list", "--queue", "console", "--status", "PENDING", "--name", "send_email")
    assert [task["id"] for task in listed["tasks"]] == ["sent-mail-1"]
    assert data("tasks", "list", "--queue", "console", "--status", "RUNNING")["tasks"] == []
    shown = run("tasks", "info", "sent-mail-1").out
    assert "send_email" in shown
    assert "PENDING" in shown
    assert "a@b.c" in shown
    assert run("tasks", "rerun", "sent-mail-1").code == 2
    assert data("tasks", "cancel", "sent-mail-1")["task"]["job"]["status"] == "CANCELLED"
    again = data("tasks", "rerun", "sent-mail-1")["promise"]
    assert again["tags"]["holdfast:rerun-of"] == "sent-mail-1"
    assert data("tasks", "cancel", again["id"], "--force")["task"]["job"]["status"] == "CANCELLED"
    assert "CANCELLED" in run("tasks", "list", "--queue", "console").out


def test_a_task_that_runs_is_cancelled_only_by_force(run: Run, data: Data) -> None:
    data("tasks", "send", "--id", "run-1", "--func", "f", "--queue", "runs")
    [claimed] = data("tasks", "claim", "queue.runs", "--pid", "w")["tasks"]
    data("tasks", "start", "run-1", "--version", str(claimed["task"]["version"]))
    refused = run("tasks", "cancel", "run-1")
    assert refused.code == 1
    assert "HF1203" in refused.err
    assert data("tasks", "cancel", "run-1", "--force")["task"]["job"]["code"] == "TASK_CANCELLED"


def test_an_attempt_at_a_task_fails_by_hand(run: Run, data: Data) -> None:
    data("tasks", "send", "--id", "hand-1", "--func", "f", "--queue", "hands")
    data("tasks", "claim", "queue.hands", "--pid", "me")
    data("tasks", "start", "hand-1", "--version", "1")
    reason = ("--code", "SMTP_DOWN", "--message", "no route")
    assert data("tasks", "fail", "hand-1", "--version", "1", *reason)["task"]["job"]["status"] == "FAILED"
    shown = run("tasks", "info", "hand-1").out
    assert "SMTP_DOWN" in shown
    assert "no route" in shown
    refused = run("tasks", "fail", "hand-1", "--version", "1", *reason)
    assert (refused.code, "HF1201" in refused.err) == (1, True)


def test_a_queue_is_limited_paused_resumed_and_shown(run: Run, data: Data) -> None:
    limits = ("--concurrency", "3", "--per-key", "1", "--rate", "10/s", "--per-key-rate", "5/10s")
    queue = data("queues", "set", "mail", *limits)["queue"]
    assert (queue["concurrency"], queue["keyConcurrency"]) == (3, 1)
    assert queue["rate"] == {"count": 10, "perMs": 1_000}
    assert data("queues", "pause", "mail")["queue"]["paused"] is True
    assert "5/10s" in run("queues", "show", "mail").out
    listed = run("queues", "list").out
    assert "mail" in listed
    assert "yes" in listed
    assert data("queues", "resume", "mail")["queue"]["paused"] is False
    assert "concurrency" not in data("queues", "set", "mail")["queue"]
    assert run("queues", "set", "mail", "--rate", "often").code != 0


SHOP = """
import socket
import holdfast as hf

app = hf.App("memory:")
app.queue("email", concurrency=0)
app.queue("sms")

@app.task(queue="emial", retry=hf.Retry.fixed([]))
def one(x, y: int):
    return 1

@app.task(name="one", priority="high", retry=hf.Retry(retry_on=KeyError))
def two() -> int:
    return 1

def outer():
    @app.task(mode="process")
    def inner() -> None: ...
outer()

@app.task(mode="async")
def three(lines: list[socket.socket]) -> int:
    return 3

@app.schedule(cron="99 * * * *")
@app.schedule(every="5m", id="y")
@app.task(exception_codes={ValueError: "WORKER_CRASHED"})
def four(n: int) -> int:
    return 4

@app.workflow
def five() -> int:
    return 5

@app.workflow(name="six")
async def six() -> int:
    return 6

@app.workflow(name="six")
async def seven() -> int:
    return 7
"""


def check(folder: Path, source: str, *flags: str) -> Outcome:
    (folder / "shop.py").write_text(source)
    return holdfast("check", "shop:app", *flags, cwd=folder)


def test_check_finds_everything_at_once_each_with_its_place(tmp_path: Path) -> None:
    outcome = check(tmp_path, SHOP, "--json")
    assert outcome.code == 1, outcome.err
    found = {(each["code"], each["line"]) for each in json.loads(outcome.out)}
    lines = {line: number for number, line in enumerate(SHOP.splitlines(), 1)}
    expected = {
        ("HF6001", 'app.queue("email", concurrency=0)'),
        ("HF5011", '@app.task(queue="emial", retry=hf.Retry.fixed([]))'),
        ("HF6006", '@app.task(name="one", priority="high", retry=hf.Retry(retry_on=KeyError))'),
        ("HF7001", '@app.task(queue="emial", retry=hf.Retry.fixed([]))'),
        ("HF7004", '@app.task(queue="emial", retry=hf.Retry.fixed([]))'),
        ("HF6001", '@app.task(name="one", priority="high", retry=hf.Retry(retry_on=KeyError))'),
        ("HF6002", '@app.task(name="one", priority="high", retry=hf.Retry(retry_on=KeyError))'),
        ("HF7003", '    @app.task(mode="process")'),
        ("HF7005", '@app.task(mode="async")'),
        ("HF7002", '@app.task(mode="async")'),
        ("HF6001", '@app.schedule(cron="99 * * * *")'),
        ("HF7007", '@app.schedule(cron="99 * * * *")'),
        ("HF6005", '@app.schedule(cron="99 * * * *")'),
        ("HF7008", "@app.workflow"),
    }
    assert {(code, lines[line]) for code, line in expected} <= found
    assert "HF5105" in {code for code, _ in found}
    assert len(found) == len(expected) + 1


def test_check_tells_people_what_to_do(tmp_path: Path) -> None:
    outcome = check(tmp_path, SHOP)
    assert f"{tmp_path / 'shop.py'}:6: concurrency must be a whole number" in outcome.out
    assert outcome.out.count("    help: ") == 15
    assert outcome.out.strip().endswith("15 to correct")


def test_check_finds_a_class_of_errors_that_cannot_be_stored(tmp_path: Path) -> None:
    source = """
import socket
import holdfast as hf
app = hf.App()
class Broken(hf.TaskError):
    where: socket.socket | None = None
@app.task
def work() -> hf.TaskResult[int, Broken]:
    return hf.TaskResult(ok=1)
"""
    outcome = check(tmp_path, source)
    assert outcome.code == 1
    assert "HF7002" in outcome.out
    assert "'where' of Broken" in outcome.out


CARELESS = """
from datetime import datetime
import holdfast as hf

app = hf.App("memory:", lease="soon", retention="later", exception_codes={ValueError: "lower"}, retries=3)
app.queue("q", concurrency=0, rate="x", speed=3)

@app.task(retries=3, queue="no/good", time_limit="soon", priority="high", mode="fork")
def one() -> int:
    return 1

@app.task(time_limit=0, exception_codes={ValueError: "lower", 3: "FINE"}, default_error_code="low")
def two() -> int:
    return 1

retry = hf.Retry(factor="2", attempts=0, delay="x", retry_for="A")

@app.workflow(timeout="nonsense", tags={"holdfast:x": "y"}, retry=3)
async def three() -> int:
    return 3

@app.schedule(cron="99 * * * *", timezone="Mars/X", overlap="never", catch_up=-1, good_for="x", at=3)
@app.task
def four() -> int:
    return 4

late = four.with_options(good_until=datetime.now(), delay="x")
"""


def test_check_tells_of_every_option_and_none_hides_what_comes_after_it(tmp_path: Path) -> None:
    outcome = check(tmp_path, CARELESS, "--json")
    assert outcome.code == 1, outcome.err
    found = [(each["code"], each["line"], each["what"]) for each in json.loads(outcome.out)]
    lines = {line: number for number, line in enumerate(CARELESS.splitlines(), 1)}
    starts = {number: line.partition("(")[0] for line, number in lines.items()}
    told = sorted((starts[line], code) for code, line, _ in found)
    assert told == sorted(
        [("app = hf.App", code) for code in ("HF5010", "HF5010", "HF6005", "HF6001")]
        + [("app.queue", "HF6001")] * 3
        + [("@app.task", "HF6001")] * 7
        + [("@app.task", "HF6005")] * 2
        + [("retry = hf.Retry", code) for code in ("HF5010", "HF5011", "HF5011", "HF5011")]
        + [("@app.workflow", code) for code in ("HF5010", "HF5013", "HF6001")]
        + [("@app.schedule", "HF6001")] * 6
        + [("late = four.with_options", "HF6001")] * 2
    ), found
    assert "A task has no option retries (did you mean retry?)" in outcome.out
    assert all(each["help"] for each in json.loads(outcome.out))


@pytest.mark.parametrize(("source", "code"), [("app = 1 / 0", "HF7006"), ("import nonsense", "HF7006")])
def test_check_finds_a_module_that_cannot_be_imported(tmp_path: Path, source: str, code: str) -> None:
    outcome = check(tmp_path, source)
    assert outcome.code == 1
    assert "shop.py:1: " in outcome.out
    assert code in outcome.out


def test_check_is_content_with_a_good_app(tmp_path: Path) -> None:
    source = """
import holdfast as hf
app = hf.App("memory:")
app.queue("email", concurrency=3)

@app.schedule(every="1h", args=["a@b.c"])
@app.task(queue="email", mode="process", retry=hf.Retry(attempts=3))
def send_email(to: str) -> hf.TaskResult[str, hf.TaskError]:
    return hf.TaskResult(ok=to)
"""
    outcome = check(tmp_path, source)
    assert (outcome.code, outcome.out.strip()) == (0, "nothing to correct"), outcome


@pytest.mark.sized
def test_the_few_that_failed_are_listed_among_the_many_that_did_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    asyncio.run(fill(url, TASKS, {12, TASKS // 2, TASKS - 1}))
    listed = holdfast("tasks", "list", "--status", "FAILED", "-S", url, "--json")
    assert [task["id"] for task in json.loads(listed.out)["tasks"]] == [
        "j00012",
        f"j{TASKS // 2:05}",
        f"j{TASKS - 1:05}",
    ]
    shown = holdfast("tasks", "list", "--status", "FAILED", "-S", url).out
    assert shown.count("FAILED") == 3


async def fill(url: str, count: int, failing: set[int]) -> None:
    """So many tasks, all over, these of them failed."""
    async with Node(open_store(url)) as node:
        for first in range(0, count, 1_000):
            names = [f"j{number:05}" for number in range(first, first + 1_000)]
            await node.request([ask(job(name)) for name in names])
            await node.request([ask(TaskClaim(["queue.q"], 1_000, "w", 60_000, start=True))])
            ends = [end(name, failed=int(name[1:]) in failing) for name in names]
            replies = await node.request([ask(each) for each in ends])
            assert {reply.status for reply in replies} == {200}


def job(name: str) -> PromiseCreate:
    entries = {"resonate:target": "poll://any@queue.q", "holdfast:job": "{}"}
    return PromiseCreate(name, FAR, Value(), entries)


def end(name: str, *, failed: bool) -> TaskFail | TaskFulfill:
    if failed:
        return TaskFail(name, 1, "BROKEN", Value())
    return TaskFulfill(name, 1, SettleAction(PromiseSettle(name, "resolved", Value())))


def test_a_task_that_is_sent_from_the_console_keeps_the_retry_policy_of_its_app(
    data: Data, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared_here.py").write_text(
        "import holdfast as hf\n"
        "app = hf.App('memory:')\n"
        "app.queue('letters', priority=3)\n"
        "@app.task(queue='letters', retry=hf.Retry.fixed([1, 5]))\n"
        "def post(to: str, copies: int = 1) -> None: ...\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    declared = ("--app", "declared_here:app", "--func", "post")
    sent = data("tasks", "send", "--id", "post-1", *declared, "--arg", "a@b.c", "--tag", "by=hand")["promise"]
    spec = json.loads(sent["tags"]["holdfast:job"])
    assert (spec["retry"]["delays"], sent["tags"]["by"]) == ([1000, 5000], "hand")
    assert sent["tags"]["resonate:target"] == "poll://any@queue.letters"
    assert sent["tags"]["holdfast:priority"] == "3"
    wrong = run("tasks", "send", *declared, "--arg", "a@b.c", "--arg", "many")
    assert (wrong.code, "copies" in wrong.err) == (2, True)
    assert run("tasks", "send", "--app", "declared_here:app", "--func", "nothing").code != 0


def test_a_background_task_is_scheduled_from_the_console(
    data: Data, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scheduled_here.py").write_text(
        "import holdfast as hf\n"
        "app = hf.App('memory:')\n"
        "app.queue('letters', priority=3)\n"
        "@app.task(queue='letters', retry=hf.Retry.fixed([1, 5]))\n"
        "def post(to: str, copies: int = 1) -> None: ...\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    create = ("schedules", "create", "post-daily", "--cron", "0 9 * * *", "--task", "post")
    words = ("--app", "scheduled_here:app", "--arg", "a@b.c", "--good-for", "1h", "--tag", "by=hand")
    made = data(*create, *words)["schedule"]
    spec = json.loads(made["promiseTags"]["holdfast:job"])
    assert (spec["retry"]["delays"], spec["goodFor"]) == ([1000, 5000], 3_600_000)
    assert (made["promiseTags"]["holdfast:task"], made["promiseTags"]["by"]) == ("post", "hand")
    assert made["promiseTags"]["resonate:target"] == "poll://any@queue.letters"
    assert data(*create, *words)["schedule"] == made
    assert run(*create, *words, "--kwarg", "copies=2").code == 1
    run_id = run("schedules", "trigger", "post-daily").out.strip()
    assert data("tasks", "info", run_id)["task"]["job"]["status"] == "PENDING"
    wrong = run(*create[:2], "post-wrong", *create[3:], *words, "--kwarg", "copies=many")
    assert (wrong.code != 0, "copies" in wrong.err) == (True, True)


def test_a_background_task_is_scheduled_without_its_app_by_options(run: Run, data: Data) -> None:
    create = ("schedules", "create", "bare-daily", "--cron", "@every 90s", "--task", "g")
    words = (
        "--queue",
        "runs",
        "--attempts",
        "3",
        "--priority",
        "2",
        "--limit-key",
        "a",
        "--time-limit",
        "5s",
    )
    entries = data(*create, *words)["schedule"]["promiseTags"]
    spec = json.loads(entries["holdfast:job"])
    assert (spec["retry"]["retries"], spec["key"], entries["holdfast:priority"]) == (2, "a", "2")
    assert entries["resonate:target"] == "poll://any@queue.runs"
    target, header = ("--target", "poll://any@default"), ("--header", "a=b")
    for wrong in (("--func", "f"), ("--data", "1"), target, header, ("--promise-id", "x")):
        refused = run(*create, *wrong)
        assert (refused.code, wrong[0] in refused.err) == (2, True)
    refused = run("schedules", "create", "lone", "--cron", "@every 90s", "--attempts", "3")
    assert (refused.code, "--task" in refused.err) == (2, True)
    assert run(*create[:4], "no cron", "--task", "g").code == 2


def test_without_its_app_the_console_is_told_how_often_a_task_is_tried(run: Run, data: Data) -> None:
    sent = data(
        "tasks", "send", "--func", "g", "--queue", "tried", "--attempts", "3", "--retry-base", "2s",
        "--kwarg", "a=1",
    )["promise"]  # fmt: skip
    retry = json.loads(sent["tags"]["holdfast:job"])["retry"]
    assert (retry["retries"], retry["base"]) == (2, 2000)
    assert run("tasks", "send", "--func", "g", "--attempts", "0").code == 2
