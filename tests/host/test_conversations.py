"""Real processes that talk while they are killed: no message is lost, doubled or out of order."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.counts import count_of
from tests.host.talkers import ID, make_app
from tests.processes import Server, environment
from tests.seeds import seed_for_test

MESSAGES = count_of("HOLDFAST_TALK_MESSAGES", quick=160, full=10_000)
SENDERS = 8
KILLS_MAX = 20 + MESSAGES // 50  # then whoever is left comes to an end, however slow the machine is
ROOT = Path(__file__).parent.parent.parent


class Talker:
    """One process of talkers.py, which is started again when it was killed."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.host.talkers", *self._words]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    @property
    def is_done(self) -> bool:
        return self._process is not None and self._process.poll() == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as running:
        yield running


@pytest.mark.slow
def test_each_message_is_seen_once_and_in_order_whoever_is_killed(server: Server, tmp_path: Path) -> None:
    rng = random.Random(seed_for_test())
    each = MESSAGES // SENDERS
    receiver = Talker("receive", server.url)
    senders = [
        Talker("send", server.url, f"s{number}", str(each), str(tmp_path / f"ledger-{number}"))
        for number in range(SENDERS)
    ]
    with make_app(server.url, worker=False) as app:
        handle = app.start("listen", id=ID)
        for talker in (receiver, *senders):
            talker.start()
        killed: list[str] = []
        until = time.monotonic() + 240 + 0.1 * MESSAGES
        while len(killed) < 3 or not all(sender.is_done for sender in senders):
            assert time.monotonic() < until, "the senders did not come to an end"
            time.sleep(rng.uniform(0.2, 0.8))
            if len(killed) >= KILLS_MAX:
                continue
            victim = _next_victim(rng, killed, server, receiver, senders)
            victim.kill()
            victim.start()
            killed.append(_kind_of(victim, receiver))
        app.tell(ID, "stop")
        seen = handle.result(120)
        receiver.kill()
    assert {*killed} == {"server", "receiver", "sender"}
    assert len(seen) == len(set(seen)) == each * SENDERS
    for number in range(SENDERS):
        mine = [message for message in seen if message.startswith(f"s{number} ")]
        assert mine == [f"s{number} {place}" for place in range(each)]


def _next_victim(
    rng: random.Random, killed: list[str], server: Server, receiver: Talker, senders: list[Talker]
) -> Server | Talker:
    """Each kind once, then whoever it may be. A sender that is done and starts again has nothing to send."""
    alive = [each for each in senders if not each.is_done]
    first: list[Server | Talker] = [rng.choice(alive or senders), server, receiver]
    if len(killed) < len(first):
        return first[len(killed)]
    anybody: list[Server | Talker] = [server, receiver, *alive]
    return rng.choice(anybody)


def _kind_of(victim: Server | Talker, receiver: Talker) -> str:
    return "server" if isinstance(victim, Server) else "receiver" if victim is receiver else "sender"


@pytest.mark.slow
def test_a_reader_misses_nothing_while_the_server_is_started_again(server: Server) -> None:
    app = hf.App(server.url)

    @app.workflow
    async def count() -> None:
        async for message in hf.mailbox(int):
            await hf.emit("numbers", message.value)
            if message.value == 9:
                break

    with app:
        handle = app.start(count, id="count")
        read: list[tuple[int, int]] = []
        numbers = iter(handle.stream("numbers"))
        for number in range(10):
            app.tell("count", number, key=str(number))
            read.append(next(numbers))
            if number % 3 == 0:
                server.kill()
                server.start()
        assert [*read, *numbers] == [(number + 1, number) for number in range(10)]
