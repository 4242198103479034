"""procrastinate on the database with this URL: fill, send or work.

Prints seconds; a worker prints the time of its first task.
"""

import asyncio
import sys
import time

from procrastinate import App, PsycopgConnector

url, role, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
callers = 8
app = App(connector=PsycopgConnector(conninfo=url, min_size=callers, max_size=callers + 2))
has_begun = False


@app.task(name="no_op", queue="bench")
async def no_op(number: int) -> int:
    global has_begun
    if not has_begun:
        has_begun = True
        print(time.time(), flush=True)
    return number


async def fill() -> None:
    await app.schema_manager.apply_schema_async()
    started = time.perf_counter()
    for start in range(0, count, 1_000):
        await no_op.batch_defer_async(
            *({"number": number} for number in range(start, min(start + 1_000, count)))
        )
    print(time.perf_counter() - started, flush=True)


async def send() -> None:
    numbers = iter(range(count))

    async def call() -> None:
        for number in numbers:
            await no_op.defer_async(number=number)

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    print(time.perf_counter() - started, flush=True)


async def work() -> None:
    await app.run_worker_async(queues=["bench"], concurrency=32, wait=False, install_signal_handlers=False)


async def main() -> None:
    async with app.open_async():
        await {"fill": fill, "send": send, "work": work}[role]()


asyncio.run(main())
