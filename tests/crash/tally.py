"""An entity that counts, and a worker that runs it until it is killed: `python -m tests.crash.tally URL`."""

from __future__ import annotations

import sys
import threading

import holdfast as hf


class Tally:
    count: int = 0

    async def add(self, with_step: bool) -> int:
        self.count += 1
        if with_step:
            await hf.run(rest)
        return self.count


def rest() -> None:
    """A step: a claim can be lost in the middle of a call."""
    threading.Event().wait(0.002)


def app_of(url: str, *, worker: bool) -> hf.App:
    app = hf.App(url, worker=worker, lease="2s", concurrency=32)
    app.entity(Tally)
    return app


if __name__ == "__main__":
    with app_of(sys.argv[1], worker=True):
        print("ready", flush=True)
        threading.Event().wait()
