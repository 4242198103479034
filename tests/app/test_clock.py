"""Delays and timeouts count by the node's clock, from the first send or start of a process on."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.counts import rest_slow
from tests.processes import Server, environment, holdfast

PROGRAM = """
import json, sys, time
really = time.time_ns
time.time_ns = lambda: really() + int(sys.argv[2]) * 10**9  # whoever set this machine's clock was wrong
import holdfast as hf

app = hf.App(sys.argv[1], worker=False)

@app.workflow(timeout="10m")
async def brief() -> None: ...

@app.task
def errand(number: int) -> None: ...

@app.task
def other(number: int) -> None: ...

def print_task(task_id):
    info = app.task_handle(task_id).info()
    print(json.dumps({"status": str(info.status), "sent_at": info.sent_at.timestamp()}))
"""


def run(program: str, url: str, wrong_s: int) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program, url, str(wrong_s)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """Its clock is right."""
    with Server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A node whose clock is right. In a file it is the latest instant that was committed."""
    if request.param == "http":
        yield request.getfixturevalue("server").url
    else:
        url = f"sqlite:///{tmp_path}/holdfast.db"
        with hf.App(url, worker=False) as app:
            app.start("nothing")
        yield url


FIRST: dict[str, Callable[[str], str]] = {
    "script": lambda call: f"print_task({call}.id)",
    "in a block": lambda call: f"with app:\n    print_task({call}.id)",
    "prepared": lambda call: (
        f"[sent] = app.send_many([{call.replace('.send(', '.prepare(')}]); print_task(sent.id)"
    ),
    "asyncio": lambda call: (
        "import asyncio\nasync def main():\n    async with app:\n"
        f"        return await {call.replace('.send(', '.send_async(')}\n"
        "print_task(asyncio.run(main()).id)"
    ),
    "another loop": lambda call: (
        f"import asyncio\n"
        f"async def main():\n    return await {call.replace('.send(', '.send_async(')}\n"
        "print_task(asyncio.run(main()).id)"
    ),
}


@pytest.mark.parametrize("way", rest_slow(FIRST, quick=1))
def test_the_first_task_with_a_timeout_is_not_born_expired_by_a_wrong_clock(url: str, way: str) -> None:
    [found] = run(FIRST[way]('errand.with_options(timeout="10m").send(1)'), url, -3600)
    assert found["status"] == "PENDING"
    assert abs(found["sent_at"] - time.time()) < 60, "and it says when it was sent"


@pytest.mark.parametrize("wrong_s", [-3600, 3600])
def test_the_first_delay_is_reckoned_by_the_clock_of_the_node(url: str, wrong_s: int, tmp_path: Path) -> None:
    if wrong_s > 0 and url.startswith("sqlite"):
        pytest.skip("an embedded node that is told a later time believes it")
    program = """
sent = errand.schedule(60, 1)
from holdfast.client.caller import ask
from holdfast.protocol.requests import PromiseGet
from holdfast.app import bridge_of
async def look():
    [reply] = await app.session.task_client.caller.client.request([ask(PromiseGet(sent.id))])
    return reply.data.promise
promise = bridge_of(app).block(look())
print(int(promise.tags["resonate:delay"]) - promise.created_at)
"""
    [delay_ms] = run(program, url, wrong_s)
    assert abs(delay_ms - 60_000) < 10_000  # not by the hour that the other clock is off


def test_the_first_start_with_a_timeout_is_not_born_timed_out(url: str) -> None:
    program = """
handle = app.start(brief, id="b")
try:
    handle.result(0.2)
except Exception as error:
    print(json.dumps(str(error)))
"""
    [told] = run(program, url, -3600)
    assert "No result after 0.2 s" in told


def test_an_instant_that_the_caller_names_stays_as_it_is(url: str) -> None:
    program = """
from datetime import datetime, timedelta, UTC
until = datetime.fromtimestamp(really() / 1e9, UTC) + timedelta(minutes=5)
sent = errand.with_options(good_until=until).send(1)
print((sent.info().good_until - until).total_seconds())
print_task(sent.id)
"""
    shift_s, found = run(program, url, -3600)
    assert abs(shift_s) < 1
    assert found["status"] == "PENDING"


@pytest.mark.parametrize(
    "words",
    [
        ["invoke", "invoked", "--func", "f"],
        ["tasks", "send", "--id", "sent", "--func", "f"],
        ["promises", "create", "created", "--target", "poll://any@nobody"],
    ],
    ids=["invoke", "send", "create"],
)
def test_the_console_counts_by_the_clock_of_the_node(
    server: Server, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nreally = time.time_ns\ntime.time_ns = lambda: really() - 3600 * 10**9\n"
    )
    env = {"HOLDFAST_URL": server.url, "PYTHONPATH": str(tmp_path)}
    done = holdfast(*words, "--delay", "1m", "--json", env=env)
    promise = done.json["promise"]
    delay_ms = int(promise["tags"]["resonate:delay"]) - promise["createdAt"]
    assert abs(delay_ms - 60_000) < 10_000  # an hour is at stake, not a millisecond


def test_the_deadline_of_a_task_that_the_console_creates_counts_by_the_clock_of_the_node(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nreally = time.time_ns\ntime.time_ns = lambda: really() - 3600 * 10**9\n"
    )
    env = {"HOLDFAST_URL": server.url, "PYTHONPATH": str(tmp_path)}
    words = ("--pid", "p", "--ttl", "1m", "--timeout", "10m", "--json")
    promise = holdfast("tasks", "create", "timed", *words, env=env).json["promise"]
    assert promise["state"] == "pending"
    limit_ms = promise["timeoutAt"] - promise["createdAt"]
    assert abs(limit_ms - 600_000) < 10_000  # an hour is at stake, not a millisecond
