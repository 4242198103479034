"""`holdfast top`, `console` and `audit`: real processes, a real terminal, a server and a file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import holdfast as hf
from holdfast.cli import top_screen
from holdfast.server import Settings, running
from tests.management.client import Api

patience_s = 60.0
COMMAND = [sys.executable, "-m", "holdfast"]
SOURCES = Path(hf.__file__).parent


def fill(url: str) -> None:
    app = hf.App(url)

    @app.workflow
    async def approve() -> str:
        await hf.run(str, 5)
        return await hf.promise(str, timeout="1h")

    with app:
        app.start(approve, id="order-17")
        for _ in range(3_000):
            if app.handle("order-17").info().state == "suspended":
                return
            time.sleep(0.01)


class Terminal:
    """A command in a terminal of its own: what it has on the screen, and keys for it."""

    def __init__(self, *words: str) -> None:
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.environ["COLUMNS"], os.environ["LINES"] = "120", "40"
            os.execv(sys.executable, [*COMMAND, *words])
        self.text = ""

    def until(self, wanted: str) -> str:
        ends = time.monotonic() + patience_s
        while time.monotonic() < ends:
            if select.select([self.file], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.file, 65_536).decode("utf-8", "replace")
                except OSError:
                    break
            frames = self.text.split("\x1b[H")
            if any(wanted in frame for frame in frames[-2:]):
                return frames[-1]
        raise AssertionError((wanted, self.text[-2_000:]))

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self.file, keys.encode())

    def end(self) -> int:
        ends = time.monotonic() + patience_s
        while time.monotonic() < ends:
            if select.select([self.file], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.text += os.read(self.file, 65_536).decode("utf-8", "replace")
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.child, signal.SIGKILL)
        raise AssertionError("it does not end")


def test_the_terminal_shows_the_overview_executions_and_one_of_them(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    fill(store)
    top = Terminal("top", "-S", store, "--every", "0.2")
    top.until("OVERVIEW")
    top.until("order-17")
    top.press("e")
    top.until("> order-17")
    top.press("\n")
    top.until("waits for promise")
    top.until("times out in 59m")
    top.until("STEPS")
    top.press("b")
    top.until("EXECUTIONS")
    top.press("f")
    top.until("Nothing here yet")  # none is pending
    top.press("q")
    assert top.end() == 0
    assert "\x1b[?1049l" in top.text


@pytest.mark.slow
def test_the_chosen_one_of_a_long_list_is_on_the_screen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    with hf.App(store) as app:
        for number in range(100):
            app.start("nothing", id=f"order-{number:03}")
    top = Terminal("top", "-S", store, "--every", "0.2")
    top.until("OVERVIEW")
    top.press("e")
    top.until("> order-099")
    top.press("j" * 70)
    top.until("> order-029")
    top.press("k" * 70)
    top.until("> order-099")
    top.press("q")
    assert top.end() == 0


def test_an_execution_tells_how_long_its_steps_took_and_when_the_next_try_is() -> None:
    found: Any = {"id": "o", "status": "suspended", "since": 0, "waits": [
        {"id": "o:2", "what": "step pay", "since": 1_000, "attempts": 2, "error": "no", "resumesAt": 70_000},
        {"id": "o:3", "what": "lock printer", "since": 1_000, "heldBy": "other", "heldSince": 4_000},
    ]}  # fmt: skip
    steps: Any = {"steps": [
        {"id": "o:1", "name": "reserve", "state": "completed", "beganAt": 0, "tookMs": 250.0, "attempts": 1},
        {"id": "o:2", "name": "pay", "state": "running", "beganAt": 1000, "attempts": 2, "resumesAt": 70_000},
    ]}  # fmt: skip
    text = "\n".join(top_screen.execution(found, steps, 10_000, 120))
    assert "waits for next try of pay (o:2), for 9s, due in 1m" in text
    assert "tried 2x, the last error: no" in text
    assert "held by other for 6s" in text
    assert re.search(r"o:1 +completed +250ms +reserve", text)
    assert re.search(r"o:2 +next try +9s +pay +2 attempts in 1m", text)


def test_what_was_chosen_stays_chosen_while_others_come(tmp_path: Path) -> None:
    """Enter opened another execution when a new one had come in between."""
    store = f"sqlite:///{tmp_path}/h.db"

    def start(name: str) -> None:
        with hf.App(store) as app:
            app.start("nothing", id=name)

    for name in ("one", "two", "three"):
        start(name)
    top = Terminal("top", "-S", store, "--every", "0.2")
    top.until("OVERVIEW")
    top.press("e")
    top.until("> three")
    top.press("j")
    top.until("> two")
    start("four")
    top.until("  four")
    top.press("\n")
    top.until("EXECUTION two")
    top.press("q")
    assert top.end() == 0


def test_what_has_ended_tells_when_how_long_it_took_and_its_error_in_words() -> None:
    failure = {"__type": "error", "name": "ValueError", "message": "declined", "type": "builtins:ValueError"}
    found: Any = {"id": "o", "status": "failed", "since": 1_000, "createdAt": 1_000, "settledAt": 3_000}
    text = "\n".join(top_screen.execution(found | {"failure": failure}, {"steps": []}, 10_000, 120))
    assert "failed 7s ago, took 2s" in text
    assert "failure: ValueError: declined" in text
    done = found | {"status": "completed", "result": {"paid": True, "note": None}}
    text = "\n".join(top_screen.execution(done, {"steps": []}, 10_000, 120))
    assert 'result: {"paid": true, "note": null}' in text


def test_a_narrow_terminal_shows_the_status_beside_a_long_id() -> None:
    row: Any = {"id": "an-order-" * 8, "status": "suspended", "since": 0, "name": "pay"}
    [line] = top_screen.executions({"executions": [row]}, 9_000, 0, None, 60)[2:]
    assert len(line) <= 60
    assert "suspended  for 9s" in line


def run(*words: str) -> str:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=patience_s, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_without_a_terminal_one_overview_is_printed() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        await Api(server.url).post("executions", {"workflow": "pay", "id": "e1"})
        shown = await asyncio.to_thread(run, "top", "-S", server.url)
        assert "Executions: pending 1" in shown
        assert "e1" in shown
        await Api(server.url).post("queues/mail/pause")
        listed = await asyncio.to_thread(run, "audit", "-S", server.url)
        assert "Let none of its tasks begin" in listed
        entries = json.loads(await asyncio.to_thread(run, "audit", "-S", server.url, "--json"))
        assert [each["target"] for each in entries] == ["mail", "e1"]
        where = await asyncio.to_thread(run, "console", "-S", server.url)
        assert where == f"The console is at {server.url}/console/\n"


def test_the_console_is_served_on_a_file_until_the_command_is_stopped(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    fill(store)
    with subprocess.Popen(
        [*COMMAND, "console", "-S", store, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        with urlopen(f"{found[0]}/v1/executions/order-17", timeout=patience_s) as answer:
            assert json.load(answer)["status"] == "suspended"
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience_s) == 0


def test_an_app_serves_its_console_while_it_is_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with hf.App(f"sqlite:///{tmp_path}/h.db", console=port) as app:
        app.start("nothing", id="e1")
        assert f"http://127.0.0.1:{port}/console/" in caplog.text
        with urlopen(f"http://127.0.0.1:{port}/v1/executions", timeout=patience_s) as answer:
            assert [each["id"] for each in json.load(answer)["executions"]] == ["e1"]
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/v1/executions", timeout=patience_s)


def test_the_console_of_an_address_where_nobody_answers_is_not_announced() -> None:
    import http.server
    import threading

    def open_at(url: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "console", "-S", url], capture_output=True, text=True, timeout=patience_s, check=False
        )

    away = open_at("http://127.0.0.1:1")
    assert (away.returncode, away.stdout) == (3, "")
    assert "holdfast console -S sqlite:///holdfast.db" in away.stderr
    nonsense = open_at("nonsense")
    assert (nonsense.returncode, nonsense.stdout) == (2, "")
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        foreign = open_at(f"http://127.0.0.1:{other.server_port}")
    assert "HF4005" in foreign.stderr


def test_a_second_app_finds_another_port_for_its_console(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second process of the same program did not start."""
    import socket

    app = hf.App(f"sqlite:///{tmp_path}/a.db", console=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        vars(app)["_console_port"] = port  # 8002 may be taken by others, or be free
        with app:
            assert f"port {port} is taken" in caplog.text
            found = re.search(r"the console is at (http://127\.0\.0\.1:\d+)/console/", caplog.text)
            assert found is not None
            with urlopen(f"{found[1]}/v1/executions", timeout=patience_s) as answer:
                assert json.load(answer)["executions"] == []


async def test_the_console_of_an_app_with_a_server_is_that_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same program with another URL did not start."""
    async with running(Settings(port=0, store="memory:")) as server, hf.App(server.url, console=True):
        assert f"the console is at {server.url}/console/" in caplog.text


def test_the_terminal_says_why_nobody_takes_it_and_what_failed() -> None:
    base: Any = {"id": "o", "status": "pending", "since": 0}
    obstacle = {
        "kind": "limit",
        "queue": "mail",
        "limit": "keyConcurrency",
        "key": "ada",
        "used": 2,
        "most": 2,
    }
    text = "\n".join(top_screen.execution(base | {"obstacle": obstacle}, {"steps": []}, 10_000, 120))
    assert "2 of 2 at a time, of the key ada, in the queue mail" in text
    held = {"status": "running", "dueAt": 70_000, "worker": "w"}
    lost = {"kind": "lost", "worker": "w", "state": "lost", "seenAt": 4_000}
    text = "\n".join(top_screen.execution(base | held | {"obstacle": lost}, {"steps": []}, 10_000, 120))
    assert "Its worker is lost: last heard of 6s ago" in text
    assert "lease lapses in 1m" in text
    failed = base | {"status": "failed", "code": "ValueError", "error": "too little"}
    pending = base | {"id": "p", "group": "packers"}
    text = "\n".join(top_screen.executions({"executions": [failed, pending]}, 1_000, 0, None, 120))
    assert "ValueError: too little" in text
    assert "waits for worker of group packers" in text


def test_the_words_for_what_is_waited_for_and_for_statuses_are_those_of_the_console() -> None:
    words = (SOURCES / "console" / "js" / "words.js").read_text("utf-8")
    [short] = re.findall(r"const WAITS_SHORT = \{ (.*) \};", words)
    assert dict(re.findall(r'(\w+): "([^"]+)"', short)) == top_screen.WAITS
    [ordered] = re.findall(r"OF_EXECUTIONS = \[(.*)\];", words)
    assert tuple(re.findall(r'"(\w+)"', ordered)) == top_screen.STATUSES
    row: Any = {"id": "o", "status": "timed_out", "since": 0}
    rest: Any = {"id": "p", "status": "suspended", "since": 0, "waits": [{"id": "p:1", "what": "call pay"}]}
    late, waits = top_screen.executions({"executions": [row, rest]}, 9_000, 0, None, 120)[2:]
    assert "timed out  9s ago" in late
    assert "waits for execution pay" in waits


def test_hostile_texts_are_shown_as_text_and_no_line_is_too_wide() -> None:
    found: Any = {
        "executions": [
            {"id": "a\x1b[2Jb\u202ec" + "x" * 500, "status": "failed", "since": 0, "name": "\r\n<b>"}
        ]
    }
    lines = top_screen.executions(found, 1_000, 0, None, 80)
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)
