"""`current()` inside a step in a process of its own."""

import os
from typing import Any

import holdfast as hf
from tests.worker.processed import who_am_i


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
