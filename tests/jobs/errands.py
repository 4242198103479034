"""An app whose functions in processes of their own send and start: what their children use is this app too.

`python -m tests.jobs.errands` opens it with a worker, has all of them run, and prints what they answered.
"""

import json
import os
import time
from pathlib import Path

import holdfast as hf
from holdfast.host.settings import settings_here

app = hf.App(os.environ.get("ERRANDS_URL"), lease="2s")
apart = hf.App(os.environ.get("ERRANDS_OTHER_URL", "memory:"))


@app.task(queue="near")
def who(seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task(queue="far", mode="process")
def job_call() -> tuple[int, int]:
    """Who it was, and who did what it sent."""
    return os.getpid(), who.send().get(timeout=60).ok_value


@app.task(queue="far", mode="process", time_limit="1s")
def killed_after_sending() -> None:
    for number in range(5):
        who.with_options(id=f"left-{number}").send(1.5)
    time.sleep(60)


@app.task(queue="far", mode="process")
def elsewhere() -> None:
    apart.start("nothing")


@app.workflow
async def plain() -> int:
    return os.getpid()


def begin_plain() -> str:
    return app.start(plain, id="begun").id


def way_home() -> tuple[str, str | None, list[str]]:
    """Where the app is from here, with which token, and all that a list of processes shows of this one."""
    here = settings_here(app.settings)
    return here.url, here.token, [Path(f"/proc/self/{name}").read_text() for name in ("cmdline", "environ")]


@app.workflow
async def beginner() -> str:
    return await hf.run(begin_plain, mode="process")


def main() -> None:
    with app:
        child, did = job_call.send().get(timeout=60).ok_value
        killed = killed_after_sending.send().get(timeout=60)
        left = [app.task_handle(f"left-{number}") for number in range(5)]
        begun = app.handle(app.start(beginner).result("30s"))
        answers = {
            "pid": os.getpid(),
            "child": child,
            "did": did,
            "killed": killed.err_value.error_code,
            "left": [each.get(timeout=60).ok_value for each in left],
            "attempts": [len(each.info().attempts) for each in left],
            "begun": begun.result("30s"),
        }
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
