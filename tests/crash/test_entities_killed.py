"""kill -9 of workers and the server under entities: each counter ends at the number of acknowledged calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.client.errors import ClientError
from tests.counts import count_of
from tests.crash.tally import Tally, app_of
from tests.processes import Server, environment
from tests.seeds import chosen_seed

KEYS = count_of("HOLDFAST_ENTITY_KEYS", quick=30, full=1_000)
CALLERS = 8
CALLS = count_of("HOLDFAST_ENTITY_CALLS", quick=80, full=6_000)  # by all callers together
KILLS = count_of("HOLDFAST_ENTITY_KILLS", quick=2, full=24)
SEED = chosen_seed()
patience_s = 600.0


class Workers:
    """Two processes at work. One that is killed is replaced at once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._processes = [self._start() for _ in range(2)]

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.crash.tally", self._url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def kill(self, number: int, *, replace: bool = True) -> None:
        process = self._processes[number]
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        if replace:
            self._processes[number] = self._start()

    def end(self) -> None:
        for number in range(len(self._processes)):
            self.kill(number, replace=False)


@pytest.mark.sized
async def test_every_counter_ends_at_the_number_of_acknowledged_calls(tmp_path: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = Random(SEED)
    heard: dict[str, list[int]] = {}
    answered = 0
    answers_before = [CALLS * (number + 1) // (KILLS + 1) for number in range(KILLS)]  # each kill
    reached = {due: asyncio.Event() for due in answers_before}
    with Server(tmp_path) as server:
        workers = await asyncio.to_thread(Workers, server.url)
        try:
            async with app_of(server.url, worker=False) as app:

                async def call(caller: int) -> None:
                    nonlocal answered
                    own = Random(f"{SEED} {caller}")
                    for number in range(CALLS // CALLERS):
                        key = f"key-{own.randrange(KEYS)}"
                        entity: Any = app.entity(Tally, key, call_id=f"{caller}.{number}")
                        while True:  # under its id, until somebody answers
                            try:
                                heard.setdefault(key, []).append(await entity.add(own.random() < 0.3))
                                break
                            except ClientError:
                                await asyncio.sleep(0.05)
                        answered += 1
                        if answered in reached:
                            reached[answered].set()

                async def kill() -> None:
                    for number in range(KILLS):
                        due = answers_before[number]
                        await asyncio.wait_for(reached[due].wait(), patience_s)
                        if number % 3 == 1:
                            server.kill()
                            await asyncio.to_thread(server.start)
                        else:
                            await asyncio.to_thread(workers.kill, chance.randrange(2))

                await asyncio.gather(kill(), *[call(caller) for caller in range(CALLERS)])
                instances: Any = app.entities(Tally)
                states = {key: (await instances.state(key)).count for key in heard}
        finally:
            await asyncio.to_thread(workers.end)
    assert sum(states.values()) == answered == CALLS // CALLERS * CALLERS
    assert states == Counter({key: len(numbers) for key, numbers in heard.items()})
    for key, numbers in heard.items():  # one at a time: no two calls were told the same
        assert sorted(numbers) == [*range(1, len(numbers) + 1)], f"{key} told {numbers}"
