"""pgqueuer on the database with this URL: fill or work.

Prints seconds; a worker prints the time of its first task.
"""

import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

url, role, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
has_begun = False


async def fill(connection: asyncpg.Connection) -> None:
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    started = time.perf_counter()
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        await queries.enqueue(["no_op"] * size, [b"1"] * size, [0] * size)
    print(time.perf_counter() - started, flush=True)


async def work(connection: asyncpg.Connection) -> None:
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("no_op")
    async def no_op(job: Job) -> None:
        global has_begun
        if not has_begun:
            has_begun = True
            print(time.time(), flush=True)

    await queue.run(dequeue_timeout=timedelta(seconds=1), batch_size=100, mode=QueueExecutionMode.drain)


async def main() -> None:
    connection = await asyncpg.connect(url)
    await {"fill": fill, "work": work}[role](connection)


uvloop.run(main())
