"""Real processes that talk while they are killed: no message is lost, doubled or out of order."""

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import holdfast as hf
from tests.counts import count_of
from tests.host.talkers import ID, make_app
from tests.processes import Server, environment
from tests.seeds import seed_for_test

MESSAGES = count_of("HOLDFAST_TALK_MESSAGES", quick=160, full=10_000)
SENDERS = 8
RESTARTS = 20
CHUNKS = 5  # of each message
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


class EventReader(threading.Thread):
    """Reads a stream over plain HTTP as server-sent events, as a browser does: whenever it is cut off it
    comes again, with the number that it had last."""

    def __init__(self, server: Server, path: str) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._path = path
        self.read: list[tuple[str, int]] = []
        self.cut_off = 0

    def run(self) -> None:
        last = "0"
        while True:
            with suppress(OSError, http.client.HTTPException):  # the server is away
                if self._follow(last):
                    return
            self.cut_off += 1
            last = self.read[-1][0] if self.read else "0"
            time.sleep(0.02)

    def _follow(self, last: str) -> bool:
        """Until it is cut off, or is told that this was all."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        with closing(connection):
            wanted = {"accept": "text/event-stream", "last-event-id": last}
            connection.request("GET", self._path, headers=wanted)
            answer = connection.getresponse()
            if answer.status == 204:
                return True
            assert answer.status == 200
            name = number = data = ""
            while line := answer.readline().decode():
                field, _, value = line.rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    number = value
                elif field == "data":
                    data = value
                elif not field and data:  # the end of one event
                    if name == "end":
                        return True
                    self.read.append((number, json.loads(data)["value"]))
                    data = ""
        return False


@pytest.mark.slow
def test_a_reader_of_events_has_every_chunk_once_through_twenty_kills_of_the_server(server: Server) -> None:
    app = hf.App(server.url, lease="2s")

    @app.workflow
    async def chatter() -> None:
        async for message in hf.mailbox(int):
            for chunk in range(CHUNKS):
                await hf.emit("tokens", message.value * CHUNKS + chunk)
            if message.value == RESTARTS:
                break

    with app:
        handle = app.start(chatter, id="chatter")
        reader = EventReader(server, "/v1/executions/chatter/streams/tokens")
        reader.start()
        for number in range(RESTARTS):
            app.tell("chatter", number, key=str(number))
            server.kill()  # while the chunks are on their way
            server.start()
        app.tell("chatter", RESTARTS, key="last")
        handle.result(120)
        reader.join(120)
    assert not reader.is_alive()
    assert reader.cut_off >= RESTARTS
    assert reader.read == [(str(number + 1), number) for number in range((RESTARTS + 1) * CHUNKS)]
