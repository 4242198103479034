"""DBOS on the database with this URL: `workflows` at once, `steps` no-op steps each. Prints its seconds."""

import asyncio
import sys
import time

from dbos import DBOS

url, workflows, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DBOS(
    config={
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


@DBOS.step()
async def no_op() -> None:
    pass


@DBOS.workflow()
async def flow(count: int) -> int:
    for _ in range(count):
        await no_op()
    return count


async def main() -> None:
    await (await DBOS.start_workflow_async(flow, 1)).get_result()
    started = time.perf_counter()
    handles = [await DBOS.start_workflow_async(flow, steps) for _ in range(workflows)]
    for handle in handles:
        assert await handle.get_result() == steps
    print(time.perf_counter() - started, flush=True)


DBOS.launch()
asyncio.run(main())
DBOS.destroy()
