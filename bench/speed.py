"""How fast we want to be, in one table: `make bench-speed`.

Its rows are those of the other programs here that compare us with peers, with the bare database and with
ourselves. Each part can be run alone: `make bench-speed ARGS="steps http"`.

1. Ratios are taken within one run, and their median counts.
2. The last part compares a step with what it cost in an older revision of this repository. Both run in turns,
   in processes of their own. In a copy without git history it says so.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop

from bench import cluster, engine, executions, runtime, server, tasks
from bench.table import Row, print_table

root: Final = Path(__file__).resolve().parent.parent
older_revision: Final = "dfc9157"  # of the day on which the requirement was written down
rounds: Final = 5

# Runs in both revisions, so it names only what both have.
step_program: Final = """
import asyncio, resource
import holdfast as hf

async def no_op():
    pass

app = hf.App("memory:")

@app.workflow
async def sequence(count: int) -> int:
    for _ in range(count):
        await hf.run(no_op)
    return count

def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

async def main():
    async with app:
        least = 1.0
        for _ in range(12):
            before = cpu_s()
            for handle in [app.start(sequence, 50) for _ in range(32)]:
                await handle
            least = min(least, (cpu_s() - before) / 1600)
        print(least * 1e6)

asyncio.run(main())
"""


def steps() -> list[Row]:
    return executions.against_peers(rounds)


def postgres() -> list[Row]:
    return cluster.measure(cluster.workflows)


def http() -> list[Row]:
    with executions.scratch() as folder:
        return uvloop.run(server.throughput(str(folder), rounds, 2.0))[:2]


def commits() -> list[Row]:
    return engine.measure(engine.rates)[1:]  # type: ignore[arg-type]


def background() -> list[Row]:
    wanted = ("pgqueuer", "in bulk", "send to result")
    return [row for row in tasks.measure(3, tasks.ours_count) if any(words in row.name for words in wanted)]


def fibers() -> list[Row]:
    return runtime.measure()[0][:2]


def older_step() -> list[Row]:
    name = f"CPU of a step on the memory store, against revision {older_revision}"
    with older_sources() as older:
        if older is None:
            return [Row(name, "no git history here", "<= 0.5x", ok=False)]
        pairs = [(cpu_us(root / "src"), cpu_us(older)) for _ in range(rounds)]
    ratio = statistics.median(now / then for now, then in pairs)
    now, then = (min(figures) for figures in zip(*pairs, strict=True))
    return [Row(name, f"{ratio:.2f}x ({now:.0f} and {then:.0f} us)", "<= 0.5x", ratio <= 0.5)]


@contextmanager
def older_sources() -> Generator[Path | None]:
    """The sources of the older revision, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "-C", str(root), "archive", older_revision, "src"]
        packed = subprocess.run(command, capture_output=True, check=False)
        if packed.returncode:
            yield None
        else:
            subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
            yield Path(folder) / "src"


def cpu_us(sources: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    command = [sys.executable, "-c", step_program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


parts: dict[str, Callable[[], list[Row]]] = {
    "steps": steps,
    "postgres": postgres,
    "http": http,
    "commits": commits,
    "background": background,
    "fibers": fibers,
    "older_step": older_step,
}


def main(names: Sequence[str]) -> None:
    rows = [row for name in names or parts for row in parts[name]()]
    print_table(f"speed, {os.cpu_count()} cores, Python {sys.version.split()[0]}", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*parts, []], help="all of them, if none is named")
    main(parser.parse_args().part)
