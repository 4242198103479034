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

from holdfast.payloads.error_values import KnownErrors
from holdfast.protocol.text import hide_password
from holdfast.server import Settings, running
from holdfast.server.errors import SettingsError
from tests.postgres import database_url
from tests.processes import environment
from tests.server.http import create, envelope, post
from tests.server.process import server_process
from tests.sources import PACKAGE, SOURCES, text_of, tree_of
from tests.sql_texts import PUT_IN, findings, outside

STORE = PACKAGE / "store"
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


def _runs_what_it_is_given(tree: ast.AST) -> Iterator[str]:
    yield from FORBIDDEN_MODULES & {*_imported(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if (called := _dotted(node.func)) in FORBIDDEN_CALLS:
                yield called
            if any(word.arg == "shell" for word in node.keywords):
                yield f"line {node.lineno}: a shell"


# Where Python is free-threaded, a body that will not end is given a reference by hand.
GRANTED = {"teardown.py": {"ctypes"}}


def test_a_module_runs_nothing_that_it_is_given() -> None:
    found = {
        path: {*_runs_what_it_is_given(tree_of(path))} - GRANTED.get(path.name, set()) for path in SOURCES
    }
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize("planted", ["import pickle", "eval(given)", "run(given, shell=True)"])
def test_a_module_that_runs_what_it_is_given_is_found(planted: str) -> None:
    assert [*_runs_what_it_is_given(ast.parse(planted))]


def test_sql_is_put_together_from_constants_and_by_stores_only() -> None:
    for path in SOURCES:
        source = text_of(path)
        if path.is_relative_to(STORE):
            allowed = PUT_IN.get(path.name, set())
            wrong, seen = findings(source, allowed)
            assert wrong == [], path
            assert allowed == seen, f"{path}: the list in tests/sql_texts.py names what is there no more"
        elif path.match("testing/schemas.py"):  # it makes and drops schemas that it has named itself
            assert len(outside(source)) == 1
        else:
            assert outside(source) == [], path


@pytest.mark.parametrize(
    "planted",
    [
        "execute(f'SELECT x FROM t WHERE id = {given}')",
        "execute('SELECT x FROM t WHERE id = ' + given)",
        "execute('SELECT x FROM t WHERE id = ' + QUOTE + given + QUOTE)",
        "execute('select x from t where id = ' + given)",
        "execute('SELECT x FROM t WHERE id = %s' % given)",
        "execute('SELECT x FROM t WHERE id = {}'.format(given))",
        "execute('SELECT x FROM t WHERE id = {id}'.format(id=given))",
        "execute(' '.join(['SELECT x FROM t WHERE id =', given]))",
        "execute('WITH a AS (' + given + ') SELECT 1')",
        "query = 'SELECT x FROM t'\nquery += f\" WHERE id = '{given}'\"",
        "query = 'SELECT x FROM t WHERE id ='\nquery += given",
        "query = 'SELECT x FROM t WHERE id = '\nexecute(query + given)",
        "execute(f'PRAGMA x={given}')",
    ],
)
def test_sql_that_is_put_together_from_something_else_is_found(planted: str) -> None:
    source = 'QUOTE = "\'"\ndef ask(execute, given):\n    ' + planted.replace("\n", "\n    ")
    assert findings(source, set())[0]
    assert outside("def ask(db):\n    db.execute('SELECT 1')")


@pytest.mark.parametrize(
    "planted",
    [
        "note = f'SELECT x FROM t WHERE id = {given}'",
        "note = 'delete from t where id = ' + given",
        "note = 'with a as (' + given + ') select 1'",
    ],
)
def test_sql_outside_of_the_stores_is_found_though_nobody_executes_it(planted: str) -> None:
    assert outside(planted)
    assert not outside("note = f'update {given} with a {given} where you like'")


def test_a_value_between_quotation_marks_is_found_whatever_its_name_is() -> None:
    assert findings("def ask(name):\n    return f\"SELECT x FROM t WHERE id = '{name}'\"", {"name"})[0]


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
    guarded = Settings(
        port=0,
        debug=True,
        store="memory:",
        host="0.0.0.0",
        allow_unauthenticated=True,
        tokens=("admin-secret",),
    )
    async with running(guarded):
        pass  # who may come in has been said
