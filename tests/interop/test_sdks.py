"""What the users of the official SDKs do, done with those SDKs, unchanged, against `holdfast serve`."""

import time
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.interop import installation
from tests.interop.programs import SDKS, Program, ProgramError, Sdk, answer_s_max
from tests.processes import Server, eventually


def found(server: Server, *words: str) -> list[dict[str, Any]]:
    promises: list[dict[str, Any]] = server.console("promises", "search", *words, "--json").json["promises"]
    return promises


def test_a_function_runs(sdk: Sdk, caller: Program) -> None:
    assert caller.ask("run", id=f"run-{sdk.name}", func="add", args=[20, 22]) == 42


def test_runs_nest(sdk: Sdk, caller: Program) -> None:
    assert caller.ask("run", id=f"nested-{sdk.name}", func="nested", args=[4]) == 5


def test_a_settled_execution_is_not_run_again(sdk: Sdk, caller: Program) -> None:
    first = caller.ask("run", id=f"again-{sdk.name}", func="add", args=[1, 1])
    second = caller.ask("run", id=f"again-{sdk.name}", func="add", args=[5, 5])
    assert (first, second) == (2, 2)


def test_a_program_calls_a_function_of_another_process(sdk: Sdk, caller: Program, worker: Program) -> None:
    call = caller.start("rpc", id=f"rpc-{sdk.name}", func="add", args=[40, 2], target=worker.group)
    assert call.result(answer_s_max) == 42


def test_a_workflow_calls_a_function_of_another_process(sdk: Sdk, caller: Program, worker: Program) -> None:
    assert caller.ask("run", id=f"remote-{sdk.name}", func="remote", args=[worker.group, 3, 4]) == 7


def test_a_workflow_sleeps(sdk: Sdk, caller: Program) -> None:
    before = time.monotonic()
    assert caller.ask("run", id=f"sleep-{sdk.name}", func="napper", args=[1_000]) == "rested"
    assert time.monotonic() - before >= 1.0


def test_a_promise_is_settled_from_outside(sdk: Sdk, caller: Program, server: Server) -> None:
    workflow = f"human-{sdk.name}"
    answer = caller.start("run", id=workflow, func="human", args=[])

    def question() -> list[dict[str, Any]]:
        pending = found(server, "--tag", f"resonate:origin={workflow}", "--state", "pending")
        return [promise for promise in pending if promise["id"] != workflow]

    [asked] = eventually(question)
    assert server.console("promises", "resolve", asked["id"], "--data", "yes").code == 0
    assert answer.result(answer_s_max) == "got yes"


def test_a_detached_call_outlives_its_caller(
    sdk: Sdk, caller: Program, worker: Program, server: Server
) -> None:
    workflow = f"detached-{sdk.name}"
    assert caller.ask("run", id=workflow, func="detacher", args=[worker.group]) == "left"

    def detached() -> list[dict[str, Any]]:
        promises = found(server, "--prefix", workflow, "--state", "resolved")
        return [promise for promise in promises if promise["id"] != workflow]

    [left] = eventually(detached)
    assert caller.ask("get", id=left["id"]) == 42


def test_a_schedule_fires_until_it_is_deleted(sdk: Sdk, caller: Program, server: Server) -> None:
    schedule = f"schedule-{sdk.name}"
    caller.ask("schedule", id=schedule, cron="* * * * * *", func="add", args=[1, 2])
    fired = eventually(lambda: found(server, "--prefix", schedule, "--state", "resolved"))
    assert caller.ask("get", id=fired[0]["id"]) == 3
    caller.ask("unschedule", id=schedule)
    assert server.console("schedules", "get", schedule).code == 1


def test_an_error_reaches_the_caller(sdk: Sdk, caller: Program) -> None:
    with pytest.raises(ProgramError, match="it broke"):
        caller.ask("run", id=f"error-{sdk.name}", func="thrower", args=["it broke"])


def test_errors_can_be_caught_in_a_workflow(sdk: Sdk, caller: Program, worker: Program) -> None:
    caught = caller.ask("run", id=f"caught-{sdk.name}", func="catcher", args=["it broke", worker.group])
    assert caught == ["it broke here", "it broke there"]


def test_a_killed_worker_is_replaced_by_another(
    sdk: Sdk, caller: Program, server: Server, log: Path, tmp_path: Path
) -> None:
    group, execution = f"{sdk.name}-mortals", f"killed-{sdk.name}"
    with Program(sdk, server.url, group, log, ttl_ms=2_000) as first:
        words = ("--func", "slow", "--arg", str(tmp_path), "--target", f"poll://any@{group}")
        assert server.console("invoke", execution, *words).code == 0
        eventually((tmp_path / "hung").exists)
        with Program(sdk, server.url, group, log, ttl_ms=2_000):
            first.kill()
            assert caller.ask("get", id=execution) == ["one", "two"]
    assert (tmp_path / "marks").read_text() == "one\n", "a step that had finished was done again"


def test_a_hundred_executions_at_once(sdk: Sdk, caller: Program, worker: Program) -> None:
    calls = [
        caller.start(
            "rpc", id=f"many-{n}-{sdk.name}", func="remote", args=[worker.group, n, 1], target=worker.group
        )
        for n in range(100)
    ]
    assert [call.result(2 * answer_s_max) for call in calls] == [n + 1 for n in range(100)]


def test_the_console_invokes_a_function(sdk: Sdk, worker: Program, server: Server) -> None:
    words = ("--func", "add", "--json-args", "[20, 22]", "--target", f"poll://any@{worker.group}", "--wait")
    outcome = server.console("invoke", f"console-{sdk.name}", *words)
    assert outcome.code == 0, outcome.err
    assert "value" in outcome.out
    assert "42" in outcome.out


def test_programs_go_on_when_the_server_is_killed_and_comes_back(sdk: Sdk, tmp_path: Path) -> None:
    with Server(tmp_path) as server, Program(sdk, server.url, "survivors", tmp_path / "log") as program:
        assert program.ask("rpc", id="before", func="add", args=[1, 2], target="survivors") == 3
        server.kill()
        server.start()
        server.console(
            "invoke", "after", "--func", "add", "--json-args", "[3, 4]", "--target", "poll://any@survivors"
        )
        assert eventually(lambda: found(server, "--prefix", "after", "--state", "resolved"))
        assert program.ask("get", id="before") == 3


def test_a_token_is_asked_for_and_shown(sdk: Sdk, tmp_path: Path) -> None:
    with Server(tmp_path, "--tokens", "open-sesame") as server:
        assert server.console("promises", "search").code == 1
        with Program(sdk, server.url, "trusted", tmp_path / "log", token="open-sesame") as program:
            assert program.ask("rpc", id="guarded", func="add", args=[1, 2], target="trusted") == 3


@pytest.mark.parametrize(("ours", "theirs"), [(SDKS[0], SDKS[1]), (SDKS[2], SDKS[0])], ids=["py-ts", "ts-py"])
def test_languages_call_each_other(ours: Sdk, theirs: Sdk, server: Server, log: Path) -> None:
    for sdk in (ours, theirs):
        if reason := installation.missing(sdk.language):
            pytest.skip(reason)
    group = f"{theirs.name}-abroad"
    with (
        Program(ours, server.url, f"{ours.name}-home", log) as caller,
        Program(theirs, server.url, group, log),
    ):
        answer = caller.ask("run", id=f"{ours.name}-calls-{theirs.name}", func="remote", args=[group, 20, 22])
    assert answer == 42


def test_a_promise_that_we_have_named_is_awaited_by_them(sdk: Sdk, caller: Program, server: Server) -> None:
    app = hf.App(server.url, group=f"ours-{sdk.name}")

    @app.workflow
    async def order() -> str:
        return "ours got " + await hf.promise(str, name="approval")

    name = f"named-{sdk.name}"
    with app:
        handle = app.start(order, id=name)
        eventually(lambda: found(server, "--prefix", f"{name}:approval", "--state", "pending"))
        theirs = caller.start("get", id=f"{name}:approval")
        app.resolve(name, "yes", name="approval")
        assert theirs.result(answer_s_max) == "yes"
        assert handle.result(answer_s_max) == "ours got yes"
