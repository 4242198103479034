"""`holdfast demo`: an order whose worker is killed with SIGKILL in the middle, and which finishes anyway.

The parent plays the customer and the murderer. Workers are real processes, one after the other, on one SQLite
file. What they print is relayed; the call tree at the end is read from the file.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Final

import holdfast as hf
from holdfast.cli.output import now_ms, print_line
from holdfast.cli.tree import draw, grow
from holdfast.client import ask, expect
from holdfast.node import Node
from holdfast.protocol import tags
from holdfast.protocol.replies import PromiseReply, PromisesReply
from holdfast.protocol.requests import PromiseGet, PromiseSearch
from holdfast.store.sqlite import SqliteStore

ORDER: Final = "order-17"
LEASE_S: Final = 1.5
STAGES: Final = ("reserve the stock", "charge the card", "print the label", "mail the customer")

performed: set[str] = set()


def perform(stage: str) -> str:
    time.sleep(0.4)  # the work
    performed.add(stage)
    return f"{stage}: done"


async def order(item: str) -> str:
    """The workflow. After a crash it runs again from the top; what is recorded is not performed again."""
    tell(0, f"{hf.current().id}: {item}, driven at version {hf.current().token}")
    for number, stage in enumerate(STAGES[:2], start=1):
        await hf.run(perform, stage, name=stage)
        tell(number, stage)
    await hf.gather(*[hf.run(perform, stage, name=stage) for stage in STAGES[2:]])
    tell(4, " and ".join(STAGES[2:]))
    await hf.sleep("300ms")
    return f"{item} delivered"


def tell(done: int, what: str) -> None:
    bar = "■" * done + "□" * (len(STAGES) - done)
    known = "" if not done else ": done" if performed.issuperset(what.split(" and ")) else ": not repeated"
    sys.stdout.write(f"{bar}  {what}{known}\n")
    sys.stdout.flush()


def make_app(folder: str, *, worker: bool) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db", worker=worker, lease=LEASE_S)
    app.workflow(order)
    return app


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("--as-worker", metavar="FOLDER", help=argparse.SUPPRESS)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.as_worker:
        with make_app(arguments.as_worker, worker=True) as app:
            app.handle(ORDER, str).result()
        return 0
    folder = tempfile.mkdtemp(prefix="holdfast-demo-")  # kept: it can be looked at
    show(folder)
    print_line()
    print_line(f"Look at it in a browser: {own_command()} console -S sqlite:///{folder}/holdfast.db")
    return 0


def own_command() -> str:
    """What to type for this program in the shell that it was started from."""
    if "UV" in os.environ and "uv" in Path(sys.prefix).parts:  # an environment that uvx keeps to itself
        return "uvx holdfast"
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{sys.executable} -m holdfast"
    return "holdfast" if shutil.which("holdfast") else sys.argv[0]  # `make demo` has it in .venv


def show(folder: str) -> None:
    print_line("An order of four steps, one SQLite file, and a worker that will not live long.")
    print_line()
    with make_app(folder, worker=False) as shop:
        shop.start("order", "a kettle", id=ORDER)
    say("customer", f"places {ORDER}")
    with start_worker(folder) as first:
        relay("worker-1", first.stdout, until=STAGES[1])
        first.kill()
    say("you", "kill -9 worker-1")
    say("node", f"its lease lapses {LEASE_S} s after its last heartbeat")
    with start_worker(folder) as second:
        relay("worker-2", second.stdout)
    if second.returncode:
        raise RuntimeError(f"worker-2 failed with exit code {second.returncode}")
    print_line()
    asyncio.run(draw_tree(folder))
    print_line()
    print_line("Each step ran once, and nothing that was done was done again.")


def start_worker(folder: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast", "demo", "--as-worker", folder]
    in_utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=in_utf8)  # noqa: S603


def relay(who: str, lines: IO[str] | None, until: str | None = None) -> None:
    assert lines is not None
    for line in lines:
        say(who, line.rstrip())
        if until is not None and until in line:
            return


def say(who: str, what: str) -> None:
    print_line(f"  {time.strftime('%H:%M:%S')}  {who:<9} {what}")
    sys.stdout.flush()


async def draw_tree(folder: str) -> None:
    async with Node(SqliteStore(Path(folder) / "holdfast.db")) as node:
        root, steps = await node.request(
            [ask(PromiseGet(ORDER)), ask(PromiseSearch(tags={tags.ORIGIN: ORDER}, limit=100))]
        )
    branch = grow(expect(root, PromiseReply).promise, expect(steps, PromisesReply).promises)
    for line in draw(branch, now_ms(), margin="  "):
        print_line(line)
