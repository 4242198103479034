"""Whoever asks in a few bytes for very many is given a part at a time.

A real server, whose address space ends not far above what it starts with.
"""

import resource
from pathlib import Path

import pytest

from bench.attackers import management, size, wide
from bench.attackers.victim import Attack, victim
from tests.counts import rest_slow
from tests.server.http import get

MEGABYTE = 1_048_576


def address_space_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.parametrize(
    ("attack", "more_megabytes"),
    rest_slow(
        [
            (management.bodies_that_are_costly_to_decode, 300),
            (size.messages_that_nobody_reads, 170),
            (size.claims_of_large_tasks, 400),
            (size.searches_for_large_promises, 280),
            (size.arrays_that_name_large_promises, 280),
            (size.preloads_of_a_large_branch, 300),
            (size.queues_that_are_set_in_an_array, 150),
            (management.timelines_of_large_records, 400),
            (wide.a_large_event_for_many_waits, 200),
        ],
        quick=2,
    ),
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_server_bears_an_attack_by_size_in_little_memory(
    attack: Attack, more_megabytes: int, tmp_path: Path
) -> None:
    async with victim(f"sqlite:///{tmp_path}/store.db") as server:
        most = address_space_bytes(server.pid) + more_megabytes * MEGABYTE
        resource.prlimit(server.pid, resource.RLIMIT_AS, (most, most))
        await attack(server)
        assert (await get(f"http://{server.host}:{server.port}", "/health")).status == 200
