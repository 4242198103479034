"""A process that commits as fast as it can and says what was acknowledged, until it is killed.

Each line it prints is written after the reply arrived: `pair N` acknowledges an array of two creates,
`settled N` a settlement, `held N` an acquired task.
"""

import asyncio
import sys
from pathlib import Path

from holdfast.node import Node
from holdfast.store.sqlite import SqliteStore
from tests.requests import acquire, create, settle


async def caller(node: Node, me: str) -> None:
    number = 0
    while True:
        name = f"{me}-{number}"
        number += 1
        pair = await node.request(
            [create(f"{name}.a", data="QUJD" * 50), create(f"{name}.b", target="poll://any@g")]
        )
        say(f"pair {name}", [reply.status for reply in pair])
        [settled] = await node.request([settle(f"{name}.a", "RE9ORQ==")])
        say(f"settled {name}", [settled.status])
        [held] = await node.request([acquire(f"{name}.b")])
        say(f"held {name}", [held.status])


def say(what: str, statuses: list[int]) -> None:
    if set(statuses) != {200}:
        raise SystemExit(f"{what}: {statuses}")
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


async def main(path: Path, run: str) -> None:
    async with Node(SqliteStore(path)) as node:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.gather(*(caller(node, f"{run}-{index}") for index in range(8)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
