"""Real processes that share a lock while they are killed and stopped: one at a time, and none stuck."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.host.lock_holders import LOCK, Ledger, make_app
from tests.processes import Server, environment
from tests.seeds import seed_for_test

EXECUTIONS = 24
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as running:
        yield running


def start_holder(url: str, path: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.host.lock_holders", url, str(path)]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)


def test_one_execution_at_a_time_is_in_the_block_whoever_is_killed_or_stopped(
    server: Server, tmp_path: Path
) -> None:
    rng = random.Random(seed_for_test())
    path = tmp_path / "ledger"
    path.touch()
    ledger = Ledger(path)
    holders = [start_holder(server.url, path) for _ in range(2)]
    try:
        with make_app(server.url, ledger, worker=False) as app:
            handles = [app.start("print_page", f"x{n}", id=f"x{n}") for n in range(EXECUTIONS)]
            faults = 0
            until = time.monotonic() + 240
            while any(handle.info().state not in ("completed", "failed") for handle in handles):
                assert time.monotonic() < until, "the executions did not come to an end"
                time.sleep(rng.uniform(0.5, 1.5))
                if faults < 6:
                    faults += 1
                    place = rng.randrange(len(holders))
                    if rng.random() < 0.5:
                        holders[place].kill()
                        holders[place].wait(30)
                        holders[place] = start_holder(server.url, path)
                    else:  # longer than the lease, so that others take over what it holds
                        holders[place].send_signal(signal.SIGSTOP)
                        time.sleep(3)
                        holders[place].send_signal(signal.SIGCONT)
            tokens = {f"x{n}": handle.result() for n, handle in enumerate(handles)}
    finally:
        for holder in holders:
            holder.kill()
            holder.wait(30)
    entries = ledger.entries()
    assert faults >= 2
    assert len(set(tokens.values())) == EXECUTIONS
    assert [token for token, _, _ in entries] == sorted(token for token, _, _ in entries)
    for name, token in tokens.items():
        mine = [what for _, who, what in entries if who == name]
        assert {seen for seen, who, _ in entries if who == name} == {token}
        assert {*mine} == {"begin", "middle", "end"}
        assert mine == sorted(mine, key=("begin", "middle", "end").index)


def test_a_waiting_execution_says_who_holds_the_lock(server: Server, tmp_path: Path) -> None:
    app = hf.App(server.url)

    @app.workflow
    async def hold(rest: float) -> None:
        async with hf.lock(LOCK):
            await hf.sleep(rest)

    with app:
        first = app.start(hold, 3600.0, id="order-16")
        _until_suspended(first)
        second = app.start(hold, 0.0, id="order-17")
        _until_suspended(second)
        [wait] = second.info().waits
        assert (wait.what, wait.held_by) == (f"lock {LOCK}", "order-16")
        assert wait.held_since is not None
        assert second.info().created_at >= wait.held_since
        first.cancel()
        second.result(60)


def _until_suspended(handle: "hf.types.Handle[None]") -> None:
    until = time.monotonic() + 60
    while handle.info().state != "suspended":
        assert time.monotonic() < until
        time.sleep(0.02)
