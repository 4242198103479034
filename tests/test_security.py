"""What SECURITY.md says of the sources and of what a process tells: held true by machine."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.protocol.text import hide_password
from holdfast.server import Settings, running
from holdfast.server.errors import SettingsError
from holdfast.worker.fault import KnownErrors
from tests.postgres import database_url
from tests.processes import environment
from tests.server.http import create, envelope, post
from tests.server.process import server_process

SOURCES = sorted(Path(holdfast.__file__).parent.rglob("*.py"))
CANARY = "canary-7f3a91c2"

# Modules, and functions of modules, that run what they are given.
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "yaml",
    "ctypes",
    "pty",
    "telnetlib",
}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "tempfile.mktemp",
}
# Names of tables and columns, constants of these modules, are put together as text here and nowhere else.
SQL_MODULES = {
    *("sqlite", "sqlite_statements", "postgres", "postgres_statements", "postgres_transaction", "scan_sql"),
    *("postgres_migrate", "postgres_guest", "__init__"),  # the last: migrations
}
SQL_WORDS = (
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE FROM",
    "DROP ",
    "CREATE TABLE",
    "ALTER ",
    "PRAGMA ",
    "NOTIFY ",
    "LISTEN ",
)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCES[0].parent)))
def test_a_module_runs_nothing_that_it_is_given(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not FORBIDDEN_MODULES & {*_imported(tree)}
    called = {_dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not FORBIDDEN_CALLS & called
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            shell = [word for word in node.keywords if word.arg == "shell"]
            assert not shell, f"line {node.lineno}: no shell"


def _pieces(node: ast.AST) -> list[str]:
    """The fixed texts of something that is put together from fixed and other texts; none if it is not."""
    if isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values):
        return [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
        return [
            side.value
            for side in (node.left, node.right)
            if isinstance(side, ast.Constant) and isinstance(side.value, str)
        ]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return [str(node.func.value.value)] if isinstance(node.func.value, ast.Constant) else []
    return []


def test_sql_is_put_together_in_the_listed_modules_only() -> None:
    found: list[str] = []
    for path in SOURCES:
        if path.parent.name in ("store", "migrations") and path.stem in SQL_MODULES:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            built = any(piece.lstrip().startswith(SQL_WORDS) for piece in _pieces(node))
            found += [f"{path.name}:{getattr(node, 'lineno', 0)}"] if built else []
    assert found == []


def test_the_search_for_sql_would_find_some() -> None:
    tree = ast.parse("execute(f'SELECT x FROM t WHERE id = {given}')")
    assert any(piece.startswith(SQL_WORDS) for node in ast.walk(tree) for piece in _pieces(node))


def test_an_error_in_a_payload_imports_nothing() -> None:
    assert "antigravity" not in sys.modules
    with pytest.raises(KeyError):
        KnownErrors()["antigravity:Anything"]
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{CANARY}@db/holdfast",
        f"postgresql://user:p@{CANARY}@db/holdfast",
        f"postgres//user:{CANARY}@db",
        f"user:{CANARY}@db",
        f"postgresql://db/holdfast?user=u&password={CANARY}&x=1",
        f"postgresql://db/holdfast?sslpassword={CANARY}",
    ],
)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    shown = hide_password(url)
    assert CANARY not in shown
    assert "db" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--port", "0", "--store", f"postgresql://u:{CANARY}@127.0.0.1:1/x"],
        ["serve", "--port", "0", "--store", f"postgres//u:{CANARY}@127.0.0.1"],
        ["serve", "--port", "0", "--tokens", f"a b {CANARY}"],
        [f"HOLDFAST_URL=postgresql://u:{CANARY}@127.0.0.1:1/x", "status"],
        [f"HOLDFAST_URL=http://u:{CANARY}@127.0.0.1:1", "status"],
    ],
)
def test_a_console_that_fails_does_not_tell_the_secret_it_was_given(words: list[str]) -> None:
    given = dict(word.split("=", 1) for word in words if word.startswith("HOLDFAST_"))
    rest = [word for word in words if not word.startswith("HOLDFAST_")]
    command = [sys.executable, "-m", "holdfast", *rest]
    env = environment(given)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode != 0
    assert CANARY not in done.stdout + done.stderr


async def test_a_secret_in_a_request_is_never_logged(tmp_path: Path) -> None:
    """Payloads, headers and tokens: at the lowest level, in good requests and bad ones."""
    token = f"token-{CANARY}"
    settings = {"log_level": "debug", "tokens": [token], "store": f"sqlite:///{tmp_path}/holdfast.db"}
    async with server_process(**settings) as server:
        headers = {"authorization": f"Bearer {token}"}
        value = {"headers": {"x": CANARY}, "data": CANARY}
        good = create("p", param=value, tags={"note": CANARY})
        requests = [
            envelope("promise.create", good),
            envelope("promise.settle", {"id": "p", "state": "resolved", "value": value}),
            envelope("promise.create", good | {"timeoutAt": CANARY}),
            envelope("promise.create", good | {"id": "q", "tags": {"resonate:target": CANARY}}),
            envelope(
                "schedule.create", {"id": "s", "cron": CANARY, "promiseId": CANARY, "promiseTimeout": 1}
            ),
            envelope(CANARY, {}),
            {"kind": CANARY, "head": CANARY},
        ]
        for request in requests:
            await post(server.url, request, headers=headers)
            await post(server.url, request, headers={"authorization": f"Bearer wrong-{CANARY}"})
        await post(server.url, envelope("promise.get", {"id": "p"}, auth=f"other-{CANARY}"), headers=headers)
        answer = await post(server.url, envelope("promise.get", {"id": "p"}), headers=headers)
        assert CANARY in json.dumps(answer.json), "it was stored, and whoever may see it does"
        _, log = await server.stop()
    assert log, "something was logged"
    assert CANARY not in log


async def test_debug_is_refused_where_others_would_suffer() -> None:
    with pytest.raises(SettingsError, match="PostgreSQL"):
        async with running(Settings(port=0, debug=True, store=await asyncio.to_thread(database_url))):
            pass
    with pytest.raises(SettingsError, match="beyond this machine"):
        async with running(
            Settings(port=0, debug=True, store="memory:", host="0.0.0.0", allow_unauthenticated=True)
        ):
            pass
