"""Measures what a server with default settings bears: `make bench-attacks`.

Each attack has a server to itself, in a process of its own, and goes over loopback. The peak of its resident
memory counts, or how long somebody else had to wait for a small request meanwhile.
"""

import argparse
import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import uvloop

from bench.attackers import DEADLINES, MEMORY, STALLS
from bench.attackers.victim import Attack, Victim, victim
from bench.table import Row, print_table
from tests.postgres import database_url

resident_bytes_max = 512 * 1_048_576
wait_ms_max = 250.0


async def peak_of(attack: Attack, folder: str) -> Row:
    async with victim(f"sqlite:///{folder}/{_name(attack)}-memory.db") as server:
        await attack(server)
        peak = server.peak_bytes
    return Row(
        f"resident memory, {_words(attack)}",
        f"{peak / 1_048_576:.0f} MB",
        f"<= {resident_bytes_max // 1_048_576} MB",
        peak <= resident_bytes_max,
    )


async def wait_of(attack: Attack, store: str, kind: str) -> Row:
    async with victim(store) as server, bystander(server) as longest_wait:
        await attack(server)
        longest = await longest_wait() * 1_000
    return Row(
        f"longest wait of a bystander's create, {_words(attack)}, {kind}",
        f"{longest:.0f} ms",
        f"<= {wait_ms_max:.0f} ms",
        longest <= wait_ms_max,
    )


@asynccontextmanager
async def bystander(server: Victim) -> AsyncGenerator[Callable[[], Awaitable[float]]]:
    """Somebody else who creates a promise now and then. Answers with the longest that it had to wait."""
    command = [sys.executable, "-m", "bench.attackers.bystander", server.host, str(server.port)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)

    async def longest_wait() -> float:
        output, _ = await process.communicate(b"")
        return float(output)

    try:
        yield longest_wait
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _name(attack: Attack) -> str:
    return attack.__name__


def _words(attack: Attack) -> str:
    return _name(attack).replace("_", " ")


async def measure(only: Sequence[str], postgres: str | None) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-attacks-") as folder:
        rows += [await peak_of(attack, folder) for attack in _chosen(MEMORY, only)]
        for attack in _chosen([*STALLS, *DEADLINES], only):
            rows.append(await wait_of(attack, f"sqlite:///{folder}/{_name(attack)}.db", "SQLite"))
            rows.append(await wait_of(attack, postgres or database_url(), "PostgreSQL"))
    return rows


def _chosen(attacks: Sequence[Attack], only: Sequence[str]) -> list[Attack]:
    return [attack for attack in attacks if not only or _name(attack) in only]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names of attacks")
    parser.add_argument("--postgres", help="URL of an empty database; otherwise one is started")
    options = parser.parse_args()
    print_table("attacks", uvloop.run(measure(options.only, options.postgres)))


if __name__ == "__main__":
    main()
