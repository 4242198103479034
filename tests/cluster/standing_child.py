"""A node's store that stops in the middle of a transaction, and goes on when it is told to (SIGCONT)."""

import asyncio
import os
import signal
import sys

from holdfast.engine import Footprint, Rules, WorkingSet
from holdfast.store.interface import Load, Work
from holdfast.store.postgres import PostgresStore


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def hold(promise_id: str, other_id: str, stops: list[bool]) -> Work[str]:
    """Hold a promise, stand still the first time, then ask for another in the same transaction."""
    ws = WorkingSet(Rules())
    yield Load(ws, Footprint(promises={promise_id}))
    if stops:
        stops.clear()
        say("held")
        os.kill(os.getpid(), signal.SIGSTOP)
        say("awake")
    yield Load(ws, Footprint(promises={other_id}))
    promise = ws.promise(promise_id)
    return "nothing" if promise is None else promise.state


async def main(url: str, promise_id: str, other_id: str) -> None:
    store = PostgresStore(url)
    await store.open()
    stops = [True]
    while True:
        try:
            say(f"found {await store.transact(lambda: hold(promise_id, other_id, stops))}")
            break
        except Exception:  # it stood still for too long to try again by itself; a caller would
            await asyncio.sleep(0.1)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
