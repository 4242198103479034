"""Real processes: workers that are killed and frozen at random moments, embedded and over HTTP.

Every execution ends with the right result, and the ledger has every effect exactly once.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Server, environment
from tests.seeds import chosen_seed
from tests.workflow.shop import Declined, Ledger, effects_of, open_shop, order_of, receipt_of

FAULTS = int(os.environ.get("HOLDFAST_FAULTS", "5"))
SEED = chosen_seed()
ORDERS = 6 * FAULTS
longer_than_the_lease_s = 2.5


class Shop:
    """A process of tests/workflow/shop.py."""

    def __init__(self, url: str, ledger: Path, count: int = 0) -> None:
        command = [sys.executable, "-m", "tests.workflow.shop", url, str(ledger), str(count)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def freeze(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        out, _ = self.process.communicate(timeout=120)
        assert out == "done\n"
        assert self.process.returncode == 0


@contextmanager
def shops() -> Generator[list[Shop]]:
    running: list[Shop] = []
    try:
        yield running
    finally:
        for shop in running:
            shop.kill()


def check(ledger: Ledger, orders: int) -> None:
    wanted = [effect for number in range(orders) for effect in effects_of(number)]
    assert sorted(ledger.lines()) == sorted(wanted)


@pytest.mark.slow
def test_an_embedded_process_that_is_killed_again_and_again_finishes_everything_once(tmp_path: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    url, ledger = f"sqlite:///{tmp_path}/holdfast.db", Ledger(tmp_path / "ledger.db")
    kills = 0
    with shops() as running:
        for _ in range(FAULTS):
            shop = Shop(url, tmp_path / "ledger.db", ORDERS)
            running.append(shop)
            time.sleep(chance.uniform(0.02, 0.4))
            kills += shop.process.poll() is None
            shop.kill()
        last = Shop(url, tmp_path / "ledger.db", ORDERS)
        running.append(last)
        last.finish()
    assert kills > FAULTS / 2, "it was done before it could be killed"
    check(ledger, ORDERS)


@pytest.mark.slow
def test_an_embedded_process_asleep_for_longer_than_its_lease_finishes_everything_once(
    tmp_path: Path,
) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    url, ledger = f"sqlite:///{tmp_path}/holdfast.db", Ledger(tmp_path / "ledger.db")
    with shops() as running:
        shop = Shop(url, tmp_path / "ledger.db", ORDERS)
        running.append(shop)
        for _ in range(2):
            time.sleep(chance.uniform(0.01, 0.2))
            shop.freeze(longer_than_the_lease_s)
        shop.finish()
    check(ledger, ORDERS)


@pytest.mark.slow
def test_workers_of_a_server_are_killed_and_frozen_and_every_order_is_done_once(tmp_path: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    ledger = Ledger(tmp_path / "ledger.db")
    faults: dict[str, int] = {"killed": 0, "frozen": 0, "server": 0}
    with Server(tmp_path) as server, shops() as running:
        running += [Shop(server.url, tmp_path / "ledger.db") for _ in range(2)]
        with open_shop(server.url, ledger, worker=False) as app:
            handles: list[Any] = []
            for fault in range(FAULTS):
                numbers = range(len(handles), len(handles) + ORDERS // FAULTS)
                handles += [app.start("order", order_of(n), id=f"order-{n}") for n in numbers]
                time.sleep(chance.uniform(0.02, 0.3))
                victim = running[fault % 2]
                kind = ("frozen", "killed", "server", "killed", "killed")[fault % 5]
                faults[kind] += 1
                if kind == "frozen":
                    victim.freeze(longer_than_the_lease_s)
                elif kind == "killed":
                    victim.kill()
                    running[fault % 2] = Shop(server.url, tmp_path / "ledger.db")
                else:
                    server.kill()
                    server.start()
            assert [handle.result(60) for handle in handles] == [receipt_of(n) for n in range(len(handles))]
    assert min(faults.values()) > 0 or FAULTS < 5
    check(ledger, len(handles))


@pytest.fixture(params=["embedded", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    if request.param == "embedded":
        yield f"sqlite:///{tmp_path}/embedded.db"
        return
    with Server(tmp_path) as server:
        yield server.url


def test_the_same_program_runs_embedded_and_against_a_server(url: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with open_shop(url, ledger) as app:
        handles = [app.start("order", order_of(number), id=f"order-{number}") for number in range(5)]
        assert [handle.result(60) for handle in handles] == [receipt_of(number) for number in range(5)]
        again = app.start("order", order_of(0), id="order-0")
        assert again.result(60) == receipt_of(0), "idempotent by id"
        with pytest.raises(Declined) as declined:
            app.start("refused").result(60)
        assert declined.value.args == ("card", 51)
    check(ledger, 5)
