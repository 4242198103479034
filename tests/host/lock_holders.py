"""A worker process whose executions share a lock, and may be killed or stopped at any instant.

    python -m tests.host.lock_holders URL LEDGER

The ledger is what the lock protects: a file that refuses whoever comes with a smaller token than it has seen.
"""

import fcntl
import sys
import time
from pathlib import Path

import holdfast as hf

LOCK = "printer"


class Ledger:
    """One line for each entry that was taken: the token, the execution, what was done."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, token: int, execution: str, what: str) -> bool:
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            seen = [int(line.split()[0]) for line in file]
            if seen and token < max(seen):
                return False
            file.write(f"{token} {execution} {what}\n")
            file.flush()
            return True

    def entries(self) -> list[tuple[int, str, str]]:
        lines = self._path.read_text().splitlines()
        return [(int(token), execution, what) for token, execution, what in map(str.split, lines)]


def make_app(url: str, ledger: Ledger, *, worker: bool) -> hf.App:
    app = hf.App(url, worker=worker, lease="2s", concurrency=4)

    def use(token: int, execution: str, what: str) -> bool:
        taken = ledger.enter(token, execution, what)
        time.sleep(0.05)
        return taken

    @app.workflow
    async def print_page(name: str) -> int:
        async with hf.lock(LOCK) as lock:
            for what in ("begin", "middle", "end"):
                await hf.run(use, lock.token, name, what)
            return lock.token

    return app


if __name__ == "__main__":
    with make_app(sys.argv[1], Ledger(Path(sys.argv[2])), worker=True):
        print("ready", flush=True)
        time.sleep(3_600)
