"""A worker that traces into a file, and kills itself in the step that it is told."""

import os
import signal
import sys
from pathlib import Path

import holdfast as hf
from holdfast.ext.otel import OpenTelemetry
from tests.integrations.spans import FileExporter, provider

url, spans, kill_in = sys.argv[1:4]

app = hf.App(url, lease="1s")
app.use(OpenTelemetry(provider(FileExporter(Path(spans)))))


def work(stage: str) -> str:
    if stage == kill_in:
        os.kill(os.getpid(), signal.SIGKILL)
    return stage


@app.workflow
async def packing(order: str) -> str:
    return await hf.run(work, "pack", name="pack")


@app.workflow
async def checkout(order: str) -> list[str]:
    charged = await hf.run(work, "charge", name="charge")
    await hf.sleep(0.05)
    booked = await hf.run(work, "book", name="book")
    packed = await hf.call(packing, order)
    told = await hf.receive(str)
    return [charged, booked, packed, told, await hf.run(work, "thank", name="thank")]


if __name__ == "__main__":
    with app:
        handle = app.start(checkout, "tea", id="order-1")
        app.tell("order-1", "hello", key="one")
        print(handle.result(), flush=True)
