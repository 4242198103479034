"""An app whose executions are pushed to it. PUSHED_AT: its URL. What each step did is written to a file."""

import os
import time
from pathlib import Path

import holdfast as hf

app = hf.App(group=os.environ["PUSHED_AT"], worker=False, lease=2.0)
application = app.push_endpoint(token=os.environ.get("PUSH_TOKEN"))


def note(text: str) -> str:
    """A step that leaves a trace, with the process that left it."""
    with (Path(os.environ["TRACES"])).open("a") as traces:
        traces.write(f"{text} {os.getpid()}\n")
    return text


@app.workflow
async def double(number: int) -> int:
    return 2 * number


@app.workflow
async def ship(order: str) -> list[str]:
    """Steps, a wait for a person, a timer and a call: each of them a request of its own."""
    said = [await hf.run(note, f"packed {order}")]
    said.append(await hf.promise(str, name="approval"))
    await hf.sleep(0.2)
    said.append(str(await hf.call(double, 21)))
    said.append(await hf.run(note, f"sent {order}"))
    return said


def linger(path: str) -> str:
    """Waits until somebody kills the process, or lets it go on by making the file."""
    note("lingers")
    while not Path(path).exists():
        time.sleep(0.02)
    return "went on"


@app.workflow
async def stay(path: str) -> str:
    return await hf.run(linger, path)
