"""Runs the twelve calls of an agent in one process after the other, each of which is killed at its point.

    python -m tests.integrations.agents.lives pydantic_ai FOLDER before:1 after:1 ...

Each life is a process of its own, killed by SIGKILL. The libraries are imported once, before it is made. The
last life has no point: it ends, and leaves the answer.
"""

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

import holdfast as hf
from tests.integrations.agents.paid_calls import Build, PaidCalls, Point


def live(build: Build, folder: Path, point: Point | None) -> None:
    app = hf.App(f"sqlite:///{folder}/holdfast.db", lease="1s")
    paid = PaidCalls(folder / "ledger", point)
    app.use(paid)
    workflow = build(app, paid)
    with app:
        answer = app.start(workflow, "What shall we do?", id="run-1").result()
        (folder / "answer").write_text(answer)


def main() -> None:
    library, folder = sys.argv[1], Path(sys.argv[2])
    build: Build = importlib.import_module(f"tests.integrations.agents.{library}_twelve").build
    points = [Point(side, int(number)) for side, number in (each.split(":") for each in sys.argv[3:])]  # type: ignore[arg-type]
    for point in [*points, None]:
        child = os.fork()
        if not child:
            try:
                live(build, folder, point)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if is_killed is (point is None) or (point is None and status):
            sys.exit(f"{point} ended with {status}")


if __name__ == "__main__":
    main()
