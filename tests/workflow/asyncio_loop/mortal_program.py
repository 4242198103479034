"""A process that runs one asyncio workflow on a SQLite file, and is killed by whoever started it.

Each attempt at a step leaves a line in the file `steps`; the process prints `step` before each, so that it
can be killed there.
"""

import asyncio
import sys
from pathlib import Path

import holdfast as hf

place = Path(sys.argv[1])
app = hf.App(f"sqlite:///{place / 'store.db'}", lease="1s")


def effect(name: str) -> str:
    with (place / "steps").open("a") as steps:
        steps.write(f"{name}\n")
    print("step", flush=True)
    return name


@app.workflow(loop="asyncio")
async def errand() -> list[str]:
    queue: asyncio.Queue[str] = asyncio.Queue(1)

    async def produce(name: str) -> None:
        for number in range(4):
            await queue.put(await hf.run(effect, f"{name}{number}"))
            await asyncio.sleep(0.05)

    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(produce("a"))
        group.create_task(produce("b"))
        for _ in range(8):
            async with asyncio.timeout(3_600):  # a durable timer, which goes on between two lives
                seen.append(await hf.run(effect, f"seen {await queue.get()}"))
    return seen


if __name__ == "__main__":
    with app:
        print("result", ",".join(app.start(errand, id="errand").result()), flush=True)
