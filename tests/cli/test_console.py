"""Every command, against a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import session
from holdfast.cli.main import COMMANDS
from holdfast.client import ask
from holdfast.client.http import HttpClient
from holdfast.protocol.limits import instant_ms_max
from holdfast.protocol.requests import DebugSnap
from tests.counts import rest_slow
from tests.processes import Outcome, Server, holdfast

Run = Callable[..., Outcome]
Data = Callable[..., Any]

anybody = "poll://any@default"


# --- promises ----------------------------------------------------------------------------------------


def test_a_promise_is_created_resolved_and_shown(run: Run, data: Data) -> None:
    words = ("--timeout", "2h", "--data", '{"amount": 7}', "--tag", "team=blue", "--header", "h=1")
    created = data("promises", "create", "invoice-7", *words)["promise"]
    assert created["timeoutAt"] - created["createdAt"] == pytest.approx(7_200_000, abs=1_000)
    assert created["tags"] == {"team": "blue"}
    assert created["param"]["headers"] == {"h": "1"}
    assert data("promises", "resolve", "invoice-7", "--data", "paid")["promise"]["state"] == "resolved"
    shown = run("promises", "get", "invoice-7").out
    assert '{"amount":7}' in shown
    assert "value    paid" in shown
    assert "team=blue" in shown


@pytest.mark.parametrize(("verb", "state"), [("reject", "rejected"), ("cancel", "rejected_canceled")])
def test_a_promise_is_settled_otherwise(data: Data, verb: str, state: str) -> None:
    data("promises", "create", f"to-{verb}")
    settled = data("promises", verb, f"to-{verb}", "--raw-data", "as it is")["promise"]
    assert (settled["state"], settled["value"]["data"]) == (state, "as it is")


def test_an_idempotency_key_is_held_to(run: Run) -> None:
    assert run("promises", "create", "keyed", "--key", "a").code == 0
    refused = run("promises", "create", "keyed", "--key", "b")
    assert refused.code == 1
    assert "HF1202" in refused.err


def test_promises_are_searched_page_by_page(run: Run, data: Data) -> None:
    for n in range(5):
        data("promises", "create", f"page-{n}")
    first = data("promises", "search", "--prefix", "page-", "--page", "2")
    assert [promise["id"] for promise in first["promises"]] == ["page-0", "page-1"]
    rest = data(
        "promises", "search", "--prefix", "page-", "--page", "2", "--cursor", first["cursor"], "--all"
    )
    assert [promise["id"] for promise in rest["promises"]] == ["page-2", "page-3", "page-4"]
    assert "cursor" not in rest
    table = run("promises", "search", "--prefix", "page-", "--page", "2").out.splitlines()
    assert table[0].split() == ["ID", "STATE", "CREATED", "TOOK"]
    assert "--cursor 'page-1'" in table[-1]


def test_callbacks_and_listeners_are_registered(data: Data) -> None:
    data("promises", "create", "awaited")
    data("promises", "create", "awaiter", "--target", "poll://any@nobody")
    assert data("promises", "register-callback", "awaited", "awaiter")["promise"]["id"] == "awaited"
    assert data("promises", "register-listener", "awaited", "poll://uni@g/me")["promise"]["id"] == "awaited"


# --- tasks -------------------------------------------------------------------------------------------


def test_a_task_that_could_not_be_suspended_is_not_said_to_be(run: Run) -> None:
    refused = run("tasks", "suspend", "no-such-task", "--version", "7", "a")
    assert (refused.code, refused.out) == (1, "")
    assert "HF1102" in refused.err


def test_a_task_goes_its_whole_way(run: Run, data: Data) -> None:
    assert data("tasks", "create", "whole", "--pid", "me", "--ttl", "5m")["task"]["version"] == 1
    assert "ttl" in run("tasks", "get", "whole").out
    assert data("tasks", "start", "whole", "--version", "1")["task"]["startedAt"]
    assert data("tasks", "heartbeat", "--pid", "me", "whole@1", "other@3") == {
        "lost": [{"id": "other", "version": 3}]
    }
    fence = data("tasks", "fence", "whole", "--version", "1", "--create", "whole:1", "--tag", "k=v")
    assert fence["action"]["data"]["promise"]["tags"] == {"k": "v"}
    assert run("tasks", "suspend", "whole", "--version", "1", "whole:1").out == "done\n"
    assert data("promises", "resolve", "whole:1")["promise"]["state"] == "resolved"
    assert data("tasks", "acquire", "whole", "--version", "1")["task"]["version"] == 2
    assert "still yours" in run("tasks", "suspend", "whole", "--version", "2", "whole:1").out
    settle = ("--settle", "whole:1", "--state", "rejected")
    assert "resolved" in run("tasks", "fence", "whole", "--version", "2", *settle).out
    assert (
        data("tasks", "release", "whole", "--version", "2", "--retry-delay", "1h", "--error", "no luck") == {}
    )
    assert "no luck" in run("tasks", "get", "whole").out
    assert run("tasks", "halt", "whole").code == 0
    assert run("tasks", "continue", "whole").code == 0
    claimed = data("tasks", "claim", "default", "--count", "1000")["tasks"]
    assert "whole" in [claim["task"]["id"] for claim in claimed]
    fulfilled = data("tasks", "fulfill", "whole", "--version", "3", "--data", "42")
    assert fulfilled["promise"]["state"] == "resolved"


def test_a_stale_version_is_refused(run: Run) -> None:
    assert run("tasks", "create", "stale").code == 0
    refused = run("tasks", "fulfill", "stale", "--version", "7")
    assert refused.code == 1
    assert "HF1201" in refused.err


def test_a_refusal_inside_a_fence_is_an_error(run: Run) -> None:
    assert run("tasks", "create", "inner").code == 0
    refused = run("tasks", "fence", "inner", "--version", "1", "--settle", "nowhere")
    assert refused.code == 1
    assert "HF1101" in refused.err


def test_tasks_are_searched(run: Run, data: Data) -> None:
    data("tasks", "create", "sought", "--pid", "seeker", "--tag", "team=red")
    found = data("tasks", "search", "--pid", "seeker", "--state", "acquired", "--tag", "team=red", "--all")
    assert [task["id"] for task in found["tasks"]] == ["sought"]
    assert run("tasks", "search", "--group", "default", "--target", anybody).out.startswith("ID")


def test_nothing_to_claim_is_said(run: Run) -> None:
    assert run("tasks", "claim", "an empty group").out == "Nothing waits there.\n"


# --- schedules ---------------------------------------------------------------------------------------


def test_a_schedule_is_created_listed_and_deleted(run: Run, data: Data) -> None:
    words = ("--cron", "0 9 * * 1", "--func", "report", "--arg", "7", "--target", anybody)
    more = ("--timezone", "Europe/Paris", "--overlap", "skip", "--catch-up", "3", "--timeout", "1d")
    created = data("schedules", "create", "weekly", *words, *more)["schedule"]
    assert (created["timezone"], created["overlap"], created["catchUp"]) == ("Europe/Paris", "skip", 3)
    assert created["promiseTimeout"] == 86_400_000
    assert '{"func":"report","args":[7],"version":1}' in run("schedules", "get", "weekly").out
    assert "weekly" in run("schedules", "search", "--prefix", "week").out
    assert data("schedules", "search", "--all")["schedules"]
    assert data("schedules", "delete", "weekly") == {}
    assert run("schedules", "get", "weekly").code == 1


def test_a_schedule_is_paused_triggered_backfilled_and_resumed(run: Run, data: Data) -> None:
    data("schedules", "create", "steered", "--cron", "0 9 * * 1", "--catch-up", "0")
    assert "pausedAt" in data("schedules", "pause", "steered")["schedule"]
    assert "paused" in run("schedules", "list", "--prefix", "steered").out
    assert run("schedules", "trigger", "steered").out.startswith("steered-")
    span = ("--since", "2026-01-05T09:00", "--until", "2026-01-12T10:00+01:00")
    assert run("schedules", "backfill", "steered", *span).out.split() == [
        "steered-1767603600000",
        "steered-1768208400000",
    ]
    assert data("schedules", "backfill", "steered", *span) == {"ids": []}
    assert "pausedAt" not in data("schedules", "resume", "steered")["schedule"]
    assert run("schedules", "backfill", "steered", "--since", "soon", "--until", "now").code == 2
    assert run("schedules", "pause", "nobody").code == 1


def test_a_schedule_is_changed_and_another_one_under_its_id_is_refused(run: Run, data: Data) -> None:
    words = ("--func", "report", "--arg", "7", "--queue", "reports", "--limit-key", "acme", "--priority", "2")
    create = ("schedules", "create", "changed", "--cron", "0 9 * * 1", *words)
    first = data(*create)["schedule"]
    assert first["promiseTags"]["resonate:target"] == "poll://any@queue.reports"
    assert (first["promiseTags"]["holdfast:workflow"], data(*create)["schedule"]) == ("report", first)
    refused = run("schedules", "create", "changed", "--cron", "0 9 * * 2", *words)
    assert (refused.code, "HF6021" in refused.err) == (1, True)
    other = run(
        "schedules", "create", "changed", "--cron", "0 9 * * 1", "--arg", "8", *words[4:], "--func", "report"
    )
    assert other.code == 1
    span = ("--cron", "@every 90s", "--overlap", "skip", "--catch-up", "0", "--timeout", "2h")
    changed = data("schedules", "update", "changed", *span)["schedule"]
    assert (changed["cron"], changed["overlap"], changed["catchUp"]) == ("@every 90s", "skip", 0)
    assert (changed["promiseTimeout"], changed["promiseParam"]) == (7_200_000, first["promiseParam"])
    data("schedules", "update", "changed", "--arg", "9", "--kwarg", "loud=true")
    assert '"args":[9]' in run("schedules", "get", "changed").out
    assert data("schedules", "get", "changed")["schedule"]["promiseTags"] == first["promiseTags"]
    assert run("schedules", "update", "changed").code == 2
    assert run("schedules", "update", "nobody", "--cron", "0 9 * * 1").code == 1
    assert run("schedules", "create", "lone", "--cron", "0 9 * * 1", "--limit-key", "a").code == 2


def test_a_function_is_scheduled_for_the_workers_that_invoke_starts_it_on(run: Run, data: Data) -> None:
    words = ("--every", "1w", "--func", "report", "--arg", "7")
    plain = data("schedules", "create", "plain", *words)["schedule"]
    assert (plain["cron"], plain["promiseTags"]["resonate:target"]) == ("@every 604800s", anybody)
    assert "timeout   none" in run("schedules", "get", "plain").out
    started = run("schedules", "trigger", "plain").out.strip()
    found = data("list", "report", "--prefix", "plain")["executions"]
    assert [(each["id"], each["name"], each["status"]) for each in found] == [(started, "report", "pending")]
    assert data("list", "--schedule", "plain")["executions"] == found
    assert data("list", "--schedule", "another")["executions"] == []
    data("invoke", "by-hand", "--func", "report", "--arg", "7")
    [by_hand] = data("list", "report", "--prefix", "by-hand")["executions"]
    assert by_hand["tags"]["resonate:target"] == found[0]["tags"]["resonate:target"]
    assert data("schedules", "update", "plain", "--every", "1d")["schedule"]["cron"] == "@every 86400s"


def test_an_interval_or_an_instant_that_cannot_be_read_is_named(run: Run) -> None:
    refused = run("schedules", "create", "half", "--every", "1.5s", "--func", "report")
    assert (refused.code, "'1.5s' must be whole seconds" in refused.err) == (2, True)
    refused = run("schedules", "backfill", "half", "--since", "2d", "--until", "1d")
    assert (refused.code, "'2d' is not a date and time" in refused.err) == (2, True)


def test_a_schedule_has_one_param(run: Run) -> None:
    refused = run("schedules", "create", "both", "--cron", "* * * * *", "--func", "f", "--data", "1")
    assert refused.code == 2
    assert "--data" in refused.err


# --- invoke, tree, status ------------------------------------------------------------------------------


def test_an_invocation_looks_as_if_an_sdk_had_made_it(run: Run, data: Data) -> None:
    words = ("--func", "greet", "--arg", "world", "--arg", "2", "--kwarg", "loud=true", "--version", "3")
    promise = data("invoke", "hello", *words, "--delay", "1h", "--timeout", "2h")["promise"]
    for name in ("origin", "branch", "parent"):
        assert promise["tags"][f"resonate:{name}"] == "hello"
    assert promise["tags"]["resonate:target"] == anybody
    assert int(promise["tags"]["resonate:delay"]) > promise["createdAt"]
    shown = run("promises", "get", "hello").out
    assert '{"func":"greet","args":["world",2],"version":3,"kwargs":{"loud":true}}' in shown


def test_an_invocation_has_no_deadline_unless_it_is_given_one(data: Data) -> None:
    assert data("invoke", "patient", "--func", "greet")["promise"]["timeoutAt"] == instant_ms_max


def test_an_invocation_has_a_grace_after_its_deadline(run: Run, data: Data) -> None:
    words = ("invoke", "graceful", "--func", "greet")
    promise = data(*words, "--timeout", "1h", "--grace", "5s")["promise"]
    assert promise["tags"]["holdfast:grace"] == "5000"
    assert promise["timeoutAt"] - promise["createdAt"] == pytest.approx(3_605_000, abs=60_000)
    assert run("invoke", "graceless", "--func", "greet", "--grace", "5s").code == 2


def test_a_task_is_sent_for_an_instant_with_a_time_limit_and_a_key(run: Run, data: Data) -> None:
    words = ("tasks", "send", "--func", "mail", "--queue", "nobody-serves", "--key", "ada")
    options = ("--at", "2199-01-01T09:00", "--time-limit", "30s")
    first = data(*words, *options)["promise"]
    assert first["tags"]["resonate:delay"] == "7226614800000"
    assert first["tags"]["holdfast:time-limit"] == "30000"
    assert data(*words)["promise"]["id"] == first["id"]
    assert run(*words, "--on-conflict", "reject").code == 1
    assert data(*words, "--on-conflict", "replace")["promise"]["id"] != first["id"]
    assert run(*words, "--at", "2199-01-01T09:00", "--delay", "1h").code == 2
    assert run("tasks", "send", "--func", "mail", "--on-conflict", "reject").code == 2


def test_an_invocation_waits_in_a_queue_until_an_instant(data: Data) -> None:
    place = ("--queue", "reports", "--limit-key", "acme", "--overlap", "reject", "--priority", "7")
    later = ("--at", "2099-01-31T09:00+01:00", "--timeout", "36500d")
    promise = data("invoke", "placed", "--func", "f", *place, *later)["promise"]
    entries = promise["tags"]
    assert entries["resonate:target"] == "poll://any@queue.reports"
    assert json.loads(entries["holdfast:queue"]) == {"key": "acme", "overlap": "reject"}
    assert entries["holdfast:priority"] == "7"
    assert entries["resonate:delay"] == "4073529600000"


def test_an_invocation_is_refused_while_another_has_its_key(run: Run, data: Data) -> None:
    place = ("--queue", "single", "--limit-key", "acme", "--overlap", "reject")
    data("invoke", "single-1", "--func", "f", *place)
    refused = run("invoke", "single-2", "--func", "f", *place)
    assert refused.code != 0
    assert "HF1209" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ["--limit-key", "acme"],
        ["--queue", "q", "--overlap", "reject"],
        ["--queue", "q", "--overlap", "never"],
        ["--queue", "q", "--target", "poll://any@workers"],
        ["--queue", "a/b"],
        ["--priority", "1000001"],
        ["--delay", "1h", "--at", "2099-01-31T09:00"],
        ["--at", "tomorrow"],
    ],
)
def test_a_place_that_makes_no_sense_is_refused(run: Run, words: list[str]) -> None:
    assert run("invoke", "misplaced", "--func", "f", *words).code == 2


def test_an_invocation_can_be_waited_for(run: Run, data: Data) -> None:
    assert data("invoke", "waited", "--func", "f")["promise"]["state"] == "pending"
    data("promises", "resolve", "waited", "--data", "[1, 2]")
    assert "[1,2]" in run("invoke", "waited", "--func", "f", "--wait").out


@pytest.mark.parametrize(
    "words", [["--json-args", "{}"], ["--json-args", "x"], ["--json-args", "[]", "--arg", "1"]]
)
def test_arguments_that_make_no_sense_are_refused(run: Run, words: list[str]) -> None:
    assert run("invoke", "nonsense", "--func", "f", *words).code == 2


def test_a_tree_is_drawn(run: Run, data: Data) -> None:
    data("invoke", "oak", "--func", "grow")
    tags = ("--tag", "resonate:origin=oak", "--tag", "resonate:parent=oak", "--tag", "resonate:scope=local")
    data("promises", "create", "oak:1", *tags)
    data("promises", "resolve", "oak:1")
    root, child = run("tree", "oak").out.splitlines()
    assert root.startswith("… oak (grow) pending")
    assert child.startswith("└─ ✓ oak:1 (run)")
    assert data("tree", "oak")["children"][0]["promise"]["id"] == "oak:1"
    assert run("tree", "no-such-tree").code == 1


def test_an_execution_is_asked_to_cancel_itself_and_then_ended(run: Run, data: Data) -> None:
    run("invoke", "trip", "--func", "f", "--target", "poll://any@nobody")
    assert "was asked to cancel itself" in run("cancel", "trip").out
    assert data("promises", "get", "trip:cancel")["promise"]["state"] == "resolved"
    assert data("promises", "get", "trip")["promise"]["state"] == "pending", "its code decides how it ends"
    assert run("cancel", "trip", "--now").out == "trip is rejected_canceled\n"
    assert run("cancel", "trip").out == "trip is rejected_canceled\n", "asking again changes nothing"


def test_a_promise_that_nobody_drives_is_cancelled_at_once(run: Run) -> None:
    run("promises", "create", "question", "--timeout", "1h")
    assert run("cancel", "question").out == "question is rejected_canceled\n"
    assert run("cancel", "no such thing").code == 1


def test_bulk_operations_are_listed_and_an_id_is_one_of_them(run: Run, data: Data) -> None:
    run("invoke", "in-bulk", "--func", "greet", "--target", "poll://any@nobody", "--tag", "of=bulk")
    words = ("greet", "--tag", "of=bulk", "--id", "bulk-1", "--wait")
    assert "1 done" in run("bulk", "halt", *words).out
    assert "bulk-1 halt completed: 1 done" in run("bulk", "list").out
    [newest, *_] = data("bulk", "list", "--page", "1")["operations"]
    assert (newest["id"], newest["progress"]["action"]) == ("bulk-1", "halt")
    refused = run("bulk", "cancel", *words)
    assert (refused.code, "HF5203" in refused.err) == (1, True)
    shown = run("bulk", "show", "in-bulk")
    assert (shown.code, "is not a bulk operation" in shown.err) == (2, True)
    assert run("bulk", "show", "nobody").code == 1
    assert run("bulk", "fork", "greet", "--tag", "of=bulk").code == 2
    assert "0 done" in run("bulk", "fork", "greet", "--tag", "of=bulk", "--before", "pay", "--wait").out


def test_the_status_counts(run: Run, data: Data) -> None:
    group = 'of "all" sorts'
    data("invoke", "counted", "--func", "f", "--target", f"poll://any@{group}")
    status = data("status")
    assert status["healthy"]
    assert status["ready"]
    assert status["counts"]["connections"] >= 1
    assert [(found["group"], found["pending"]) for found in status["groups"] if found["group"] == group] == [
        (group, 1)
    ]
    assert group in run("status").out


def test_the_status_is_that_of_the_first_node_that_answers(server: Server, data: Data) -> None:
    assert data("status", "-S", f"http://127.0.0.1:1,{server.url}")["server"] == server.url


def test_the_status_needs_no_metrics(tmp_path: Path) -> None:
    with Server(tmp_path, "--no-metrics") as server:
        assert "groups" not in server.console("status", "--json").json


# --- what goes wrong -----------------------------------------------------------------------------------


def test_a_missing_promise_is_an_error_with_a_hint(run: Run) -> None:
    outcome = run("promises", "get", "nowhere")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: There is no promise 'nowhere'. Check the id")
    assert json.loads(run("promises", "get", "nowhere", "--json").err)["status"] == 404


def test_nobody_there_is_an_error_of_its_own(run: Run) -> None:
    for command in (["promises", "get", "p"], ["status"]):
        outcome = run(*command, "-S", "http://127.0.0.1:1")
        assert outcome.code == 3
        assert "HF4001" in outcome.err


def test_where_no_server_runs_the_file_of_an_app_in_this_folder_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "http://127.0.0.1:1"
    monkeypatch.setattr(session, "default_url", nobody)  # on the real one a server may run
    monkeypatch.chdir(tmp_path)
    assert "sqlite" not in run("list", "-S", nobody).err
    (tmp_path / "holdfast.db").touch()
    outcome = run("list", "-S", nobody)
    assert (outcome.code, "add -S sqlite:///holdfast.db to read that" in outcome.err) == (3, True)


@pytest.mark.parametrize(
    "words",
    [
        ["promises", "get", "p", "-S", "nonsense"],
        ["promises", "create", "p", "--timeout", "soon"],
        ["promises", "create", "p", "--tag", "novalue"],
        ["promises", "create", "p", "--target", "nowhere://x"],
        ["promises", "create", ""],
        ["promises", "search", "--page", "0"],
        ["promises"],
        ["tasks", "heartbeat", "--pid", "me", "no-version"],
        ["schedules", "create", "s", "--cron", "whenever"],
        ["nonsense"],
    ],
)
def test_a_wrong_command_line_is_refused_in_a_sentence(run: Run, words: list[str]) -> None:
    outcome = run(*words)
    assert outcome.code == 2
    assert "error:" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("words", [[], ["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_is_there(run: Run, words: list[str]) -> None:
    outcome = run(*words)
    assert outcome.code == 0
    assert "usage:" in outcome.out


# --- processes -----------------------------------------------------------------------------------------


def test_the_version_is_told() -> None:
    outcome = holdfast("--version")
    assert (outcome.code, outcome.out.split()[0]) == (0, "holdfast")


def test_a_server_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        assert server.console("promises", "create", "kept").code == 0
        server.kill()
        server.start()
        assert server.console("promises", "get", "kept").code == 0


async def test_only_dev_takes_debug_requests(tmp_path: Path, server: Server) -> None:
    with Server(tmp_path, command="dev") as dev:
        assert await _status_of_snap(dev) == 200
    assert await _status_of_snap(server) == 403


async def _status_of_snap(server: Server) -> int:
    async with HttpClient([server.url]) as client:
        [reply] = await client.request([ask(DebugSnap())])
        return reply.status


def test_a_server_that_cannot_start_says_why(tmp_path: Path, server: Server) -> None:
    taken = holdfast("serve", "--port", str(server.port), "--store", "memory:", cwd=tmp_path)
    assert taken.code == 2
    assert "Cannot listen" in taken.err
    open_to_all = holdfast("serve", "--host", "0.0.0.0", "--port", "0", "--store", "memory:", cwd=tmp_path)
    assert open_to_all.code == 2
    assert "without auth" in open_to_all.err


@pytest.mark.parametrize("words", [("serve", "--port", "0", "--store"), ("gc", "--older-than", "1h", "-S")])
@pytest.mark.parametrize(
    ("store", "code"),
    rest_slow(
        [
            ("postgresql://u:geheim@127.0.0.1:1/x", "HF2010"),
            ("sqlite:///FOLDER", "HF2003"),
            ("postgresql://u:geheim]b@h/db", "HF2010"),
            ("postgresql://u:geheim@h:abc/db", "HF2010"),
            ("postgresql://u:geheim/c@127.0.0.1/db", "HF2010"),
            ("postgresql://u:geheim@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/none", "HF2010"),
        ],
        quick=2,
    ),
)
def test_a_store_that_cannot_be_opened_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], store: str, code: str
) -> None:
    refused = holdfast(*words, store.replace("FOLDER", str(tmp_path)))
    said = [line for line in refused.err.splitlines() if not line.startswith("{")]  # the log is JSON
    assert (refused.code, len(said)) == (3, 1), refused.err
    assert f"[{code}]" in said[0]
    assert "geheim" not in refused.err


def test_a_file_that_cannot_be_created_is_one_sentence(tmp_path: Path) -> None:
    refused = holdfast("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/none/x.db")
    assert (refused.code, "[HF2003]" in refused.err, "Traceback" in refused.err) == (3, True, False)


def test_a_second_server_on_a_file_does_not_start(server: Server, tmp_path: Path) -> None:
    [file] = server.directory.glob("*.db")
    (tmp_path / "by another name.db").symlink_to(file)
    for name in (file, tmp_path / "by another name.db"):
        second = holdfast("serve", "--port", "0", "--store", f"sqlite:///{name}")
        assert (second.code, "[HF3203]" in second.err) == (2, True), second.err
    assert (file.parent / f"{file.name}.lock").stat().st_mode & 0o777 == 0o600
    looked = holdfast("gc", "--older-than", "1000d", "-S", f"sqlite:///{file}")
    assert looked.code == 0, looked.err  # what is no server may


def test_a_server_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.kill()
        server.start()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("queues", "set", "q", "--rate", "abc"), "--rate"),
        (("serve", "--port", "0", "--store", "mysql://x"), "HF2004"),
        (("gc", "--older-than", "1h", "-S", "mysql://x"), "HF2004"),
        (("tasks", "fail", "t", "--version", "1", "--code", "no code"), "HF6005"),
        (("promises", "search", "--page", "0"), "--page: '0'"),
        (("tasks", "search", "--page", "1001"), "from 1 to 1000"),
        (("tre", "x"), "there is no command 'tre'; did you mean tree?"),
        (("serve", "--prt", "1"), "unrecognized arguments: --prt 1; did you mean --port?"),
        (("list", "--statsu=failed"), "did you mean --status?"),
    ],
)
def test_a_command_that_makes_no_sense_leaves_with_2(run: Run, words: tuple[str, ...], said: str) -> None:
    refused = holdfast(*words) if words[0] == "serve" else run(*words)
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_the_help_of_dev_shows_its_own_defaults(run: Run) -> None:
    shown = " ".join(run("dev", "--help").out.split())
    assert "or memory: (memory:)" in shown
    assert "never in production (on)" in shown
    assert "or memory: (sqlite:///holdfast.db)" in " ".join(run("serve", "--help").out.split())


@pytest.mark.parametrize(
    "again",
    [("resolve", "--data", "late"), ("reject", "--data", "paid"), ("cancel",)],
    ids=lambda words: words[0],
)
def test_settling_a_settled_promise_otherwise_says_which_outcome_stands(
    run: Run, again: tuple[str, ...]
) -> None:
    verb, *words = again
    promise = f"settled-before-{verb}"
    for _ in range(2):
        run("promises", "create", promise)
        assert run("promises", "resolve", promise, "--data", "paid").code == 0
    refused = run("promises", verb, promise, *words)
    assert refused.code == 1
    assert 'is already resolved with "paid"' in refused.err
    assert "HF5204" in refused.err


def test_sending_another_task_under_a_taken_id_is_refused(run: Run) -> None:
    first = ("tasks", "send", "--func", "mail", "--arg", "a", "--queue", "nobody-serves", "--id", "mail-1")
    assert [run(*first).code for _ in range(2)] == [0, 0]
    others = [
        ("--func", "mail", "--arg", "b"),
        ("--func", "other", "--arg", "a"),
    ]
    for other in others:
        refused = run("tasks", "send", *other, "--queue", "nobody-serves", "--id", "mail-1")
        assert refused.code == 1
        assert "HF5203" in refused.err
    run("invoke", "checkout-1", "--func", "mail", "--arg", "a", "--target", anybody)
    refused = run("tasks", "send", "--func", "mail", "--arg", "a", "--id", "checkout-1")
    assert (refused.code, "belongs to an execution" in refused.err) == (1, True)
