"""A node that commits as fast as it can and says what was acknowledged, until it is killed.

Each line it prints is written after the reply arrived: `pair N` acknowledges an array of two creates,
`settled N` a settlement, `held N` an acquired task. Where the database may die too, what the node does not
know (503) is asked again, as a client would.
"""

import asyncio
import sys

from holdfast.node import Node
from holdfast.protocol.requests import Request
from holdfast.store.urls import open_store
from tests.requests import acquire, create, settle

CALLERS = 8
DATABASE_MAY_DIE = "--insist" in sys.argv


async def insist(node: Node, requests: list[Request]) -> None:
    while (statuses := {reply.status for reply in await node.request(requests)}) != {200}:
        if statuses != {503} or not DATABASE_MAY_DIE:
            raise SystemExit(f"{requests[0].kind}: {statuses}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def caller(node: Node, me: str) -> None:
    number = 0
    while True:
        name = f"{me}-{number}"
        number += 1
        await insist(
            node, [create(f"{name}.a", data="QUJD" * 50), create(f"{name}.b", target="poll://any@g")]
        )
        say(f"pair {name}")
        await insist(node, [settle(f"{name}.a", "RE9ORQ==")])
        say(f"settled {name}")
        await insist(node, [acquire(f"{name}.b")])
        say(f"held {name}")


async def main(url: str, run: str) -> None:
    async with Node(open_store(url)) as node:
        say("ready")
        await asyncio.gather(*(caller(node, f"{run}-{index}") for index in range(CALLERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
