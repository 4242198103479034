"""Nothing that others wrote is obeyed by the terminal: every command, every byte, with and without --json."""

import base64
import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from holdfast.cli.main import COMMANDS
from tests.processes import Outcome, holdfast

Run = Callable[..., Outcome]

# Everything but NUL and lone surrogates, which no node takes.
CONTROLS = "".join(
    map(chr, [*range(1, 32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)])
)
HOSTILE = f"\x1b]0;owned\x07\x1b[2J\x9b31m{CONTROLS}\rerror"
PAYLOADS = {
    "text": json.dumps(HOSTILE),
    "deep": json.dumps({HOSTILE: [HOSTILE, {"\ud800": "\udfff"}]}),
    "raw": HOSTILE,
    "nested": "[" * 100_000,
    "digits": "9" * 10_000,
    "error": json.dumps({"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}),
}
_numbers = count()
_forbidden = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def check_clean(outcome: Outcome) -> None:
    for written in (outcome.out, outcome.err):
        found = _forbidden.search(written)
        assert found is None, f"{found[0]!r} in {written!r}"
        assert "owned" not in written or "\\x1b]0;owned" in written or "\\u001b]0;owned" in written, written


def raw(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


@pytest.fixture
def hostile(run: Run) -> str:
    """Somebody wrote records whose every text is hostile."""
    name = f"evil-{next(_numbers)}{HOSTILE}"
    call = (
        "--func",
        HOSTILE,
        "--arg",
        HOSTILE,
        "--kwarg",
        f"{HOSTILE}={HOSTILE}",
        "--tag",
        f"{HOSTILE}={HOSTILE}",
    )
    written = [
        ("invoke", name, *call, "--target", "poll://any@nobody"),
        ("tasks", "acquire", name, "--version", "0", "--pid", HOSTILE, "--ttl", "1h"),
        (
            "tasks",
            "fence",
            name,
            "--version",
            "1",
            "--create",
            f"{name}:1",
            "--tag",
            f"resonate:origin={name}",
        ),
        (
            "promises",
            "reject",
            f"{name}:1",
            "--raw-data",
            raw(PAYLOADS["error"]),
            "--header",
            f"{HOSTILE}={HOSTILE}",
        ),
        (
            "promises",
            "create",
            "evil-other",
            "--tag",
            f"resonate:parent={HOSTILE}",
            "--header",
            f"holdfast:op={HOSTILE}",
        ),
        ("schedules", "create", name, "--cron", "0 0 1 1 *", *call),
        ("queues", "set", "evil-queue", "--concurrency", "1"),
        (
            "tasks",
            "send",
            "--id",
            f"job-{name}",
            *call,
            "--queue",
            "evil-queue",
            "--key",
            HOSTILE,
            "--limit-key",
            HOSTILE,
        ),
        ("tasks", "claim", "queue.evil-queue", "--pid", HOSTILE),
        *(("promises", "create", f"evil-{kind}", "--raw-data", raw(text)) for kind, text in PAYLOADS.items()),
    ]
    for words in written:
        done = run(*words)
        check_clean(done)
        assert done.code == 0, (words, done.err)
    return name


def commands_about(name: str) -> list[tuple[str, ...]]:
    missing = f"missing-{name}"
    return [
        ("promises", "get", name),
        ("promises", "get", f"{name}:1"),
        ("promises", "get", "evil-other"),
        *(("promises", "get", f"evil-{kind}") for kind in PAYLOADS),
        ("promises", "get", missing),
        ("promises", "search", "--prefix", "evil"),
        ("promises", "search", "--prefix", "evil", "--page", "1"),
        ("promises", "register-callback", name, missing),
        ("promises", "register-listener", name, HOSTILE),
        ("promises", "create", name, "--timeout", HOSTILE),
        ("promises", "create", "evil\udc9b"),
        ("invoke", name, "--func", HOSTILE, "--json-args", HOSTILE),
        ("invoke", name, "--func", HOSTILE, "--target", HOSTILE),
        ("tree", name),
        ("tree", missing),
        ("cancel", missing),
        ("mcp", "-S", f"sqlite:///{HOSTILE}.db"),
        ("tasks", "get", name),
        ("tasks", "get", missing),
        ("tasks", "search", "--prefix", "evil"),
        ("tasks", "list"),
        ("tasks", "info", f"job-{name}"),
        ("tasks", "info", name),
        ("tasks", "heartbeat", "--pid", HOSTILE, f"{missing}@1"),
        ("tasks", "heartbeat", "--pid", HOSTILE, HOSTILE),
        ("tasks", "rerun", f"job-{name}"),
        ("tasks", "fail", f"job-{name}", "--version", "1", "--code", HOSTILE),
        ("tasks", "release", name, "--version", "1", "--error", HOSTILE, "--retry-delay", "1s"),
        ("tasks", "get", name),
        ("tasks", "search", "--prefix", "evil", "--state", "pending"),
        ("tasks", "acquire", name, "--version", "1", "--pid", HOSTILE),
        ("tasks", "halt", name, "--reason", HOSTILE),
        ("tree", name),
        ("tasks", "info", name),
        ("tasks", "list"),
        ("tasks", "continue", "--all", "--dry-run"),
        ("tasks", "continue", "--all", "--workflow", HOSTILE, "--code", HOSTILE, "--reason", HOSTILE),
        ("tasks", "continue", name),
        ("tell", name, "--data", json.dumps(HOSTILE), "--key", HOSTILE, "--header", f"{HOSTILE}={HOSTILE}"),
        ("tell", name, "--raw-data", raw(PAYLOADS["nested"])),
        ("tell", name, "--data", HOSTILE),
        ("tell", missing, "--data", "1"),
        ("ask", name, "--data", json.dumps(HOSTILE), "--timeout", "1ms"),
        ("ask", name, "--timeout", HOSTILE),
        ("ask", missing, "--data", "1"),
        ("tree", name),
        ("info", name),
        ("cancel", name),
        ("cancel", name, "--now"),
        ("watch", name),
        ("watch", name, HOSTILE),
        ("watch", name, "--after", HOSTILE),
        ("watch", missing),
        ("ask", name, "--data", "1"),
        ("queues", "list"),
        ("queues", "show", "evil-queue"),
        ("queues", "show", HOSTILE),
        ("queues", "set", "evil-queue", "--rate", HOSTILE),
        ("schedules", "get", name),
        ("schedules", "search"),
        ("schedules", "list"),
        ("schedules", "list", "--app", f"{HOSTILE}:app"),
        ("schedules", "pause", name),
        ("schedules", "list"),
        ("schedules", "resume", name),
        ("schedules", "trigger", name),
        ("schedules", "backfill", name, "--since", "2025-01-01", "--until", "2025-12-31"),
        ("schedules", "backfill", name, "--since", HOSTILE, "--until", HOSTILE),
        *(("schedules", word, missing) for word in ("get", "pause", "resume", "trigger")),
        ("schedules", "create", "evil-cron", "--cron", HOSTILE),
        ("schedules", "create", "evil-zone", "--cron", "* * * * *", "--timezone", HOSTILE),
        ("schedules", "delete", missing),
        ("status",),
        ("status", "-S", f"http://127.0.0.1:1/{HOSTILE}"),
        ("status", "-S", HOSTILE),
        ("status", "-T", HOSTILE),
        ("gc", "--older-than", "1d", "--dry-run"),
        ("gc", "--older-than", HOSTILE),
        ("promises", "get", "x", "-S", f"sqlite:///{HOSTILE}"),
        ("list",),
        ("list", HOSTILE, "--prefix", HOSTILE, "--error", HOSTILE),
        ("info", name),
        ("info", missing),
        ("history", name),
        ("retry", name),
        ("retry", missing),
        ("fork", name, HOSTILE, "--as", f"fork-{name}", "--args", HOSTILE),
        ("fork", name, HOSTILE, "--as", f"fork-{name}"),
        ("bulk", "halt", "--prefix", HOSTILE, "--reason", HOSTILE),
        ("bulk", "show", missing),
        ("bulk", "stop", missing),
        ("event", HOSTILE, "--data", json.dumps({"user": HOSTILE}), "--id", HOSTILE),
        ("event", HOSTILE, "--data", HOSTILE),
        ("events", HOSTILE),
        ("events", missing),
        ("locks", "list"),
        ("locks", "show", HOSTILE),
        ("locks", "release", HOSTILE, HOSTILE, "--reason", HOSTILE),
        ("audit", "--who", HOSTILE, "--target", HOSTILE),
        ("console", "-S", HOSTILE),
        ("top", "-S", HOSTILE),
        ("replay", HOSTILE, f"{HOSTILE}:app"),
        ("check", f"{HOSTILE}:app"),
        ("worker", HOSTILE),
        ("serve", "--store", HOSTILE),
        ("dev", "--config", HOSTILE),
        ("demo", HOSTILE),
        (HOSTILE,),
    ]


def test_every_command_is_tried_with_hostile_texts() -> None:
    assert COMMANDS.keys() <= {words[0] for words in commands_about("")}


def test_no_command_writes_a_control_character_of_others(run: Run, hostile: str) -> None:
    for words in commands_about(hostile):
        check_clean(run(*words))


def test_in_json_they_are_escaped_and_the_value_is_the_same(run: Run, hostile: str) -> None:
    for words in commands_about(hostile):
        if words[0] not in ("worker", "serve", "dev", "demo", HOSTILE):
            check_clean(run(*words, "--json"))
    shown = run("promises", "get", hostile, "--json")
    assert shown.json["promise"]["id"] == hostile
    assert shown.json["promise"]["tags"][HOSTILE] == HOSTILE
    assert "HF1101" in json.loads(run("promises", "get", f"missing-{hostile}", "--json").err)["error"]


def test_a_text_with_several_lines_stays_beside_its_name(run: Run) -> None:
    run("promises", "create", "lines", "--data", '"one\\ntwo\\nstate    resolved"')
    shown = run("promises", "get", "lines").out.splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("param"))
    assert shown[at : at + 3] == ["param     one", "          two", "          state    resolved"]


def test_a_worker_logs_no_control_character_of_others(tmp_path: Path) -> None:
    """What a module logs while it is imported is written as a worker writes everything."""
    fails = f"raise KeyError({HOSTILE!r}) from RuntimeError({HOSTILE!r})\n"
    logs = (
        f"import logging\nlogging.getLogger('shop').error('%s', {HOSTILE!r})\n"
        f"try:\n    raise ValueError({HOSTILE!r})\n"
        f"except ValueError:\n    logging.getLogger('shop').exception({HOSTILE!r})\n"
    )
    (tmp_path / "failing.py").write_text(fails)
    (tmp_path / "logging_too.py").write_text(logs + fails)
    for words in (("worker", "logging_too:app"), ("worker", "failing:app"), ("check", "failing:app")):
        done = holdfast(*words, cwd=tmp_path)
        check_clean(done)
        assert done.code == 1
        assert "owned" in done.out + done.err
        assert not any(line.startswith("error") for line in (done.out + done.err).splitlines())
