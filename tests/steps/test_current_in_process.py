"""`current()` inside a step: here, and in a process of its own."""

import os
import time
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.steps.processed import attempt_in_the_end, who_am_i


def test_a_step_in_a_process_of_its_own_knows_whose_step_it_is() -> None:
    app = hf.App("memory:")

    @app.workflow(timeout="1h")
    async def flow() -> tuple[list[Any], str]:
        await hf.now()
        here = hf.current()
        assert here.deadline is not None
        return await hf.run(who_am_i, mode="process"), here.deadline.isoformat()

    with app:
        told, deadline = app.start(flow, id="x").result("60s")
    assert told[:6] == ["x", "x:2", 1, "flow", deadline, 1]
    assert told[6] != os.getpid()


def test_inside_a_step_the_attempt_is_that_of_the_step_from_one_on(tmp_path: Path) -> None:
    app = hf.App("memory:")
    seen: list[tuple[int, int]] = []

    def fails_twice() -> None:
        seen.append((hf.current().attempt, hf.current().token))
        if len(seen) < 3:
            raise ConnectionError

    @app.workflow
    async def flow() -> int:
        await hf.promise(name="go")  # it is suspended, and claimed again
        await hf.run(fails_twice, retry=hf.Retry(delay=0.001))
        child = hf.Retry(delay=0.001)
        return await hf.run(attempt_in_the_end, str(tmp_path / "tries"), mode="process", retry=child)

    with app:
        handle = app.start(flow, id="x")
        while handle.info().state != "suspended":
            time.sleep(0.01)
        app.resolve("x", name="go")
        assert handle.result("60s") == 3
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert {token for _, token in seen} == {2}, "the claim is something else"
