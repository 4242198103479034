"""How many commits stand between a send and its result, in a process that works for itself."""

import statistics
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf


def own_node(app: hf.App) -> Any:
    """Of an open app: counts what it commits."""
    return app._bridge.session.own_node  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("store", ["memory:", "sqlite:///{}/tasks.db"])
async def test_a_waiting_worker_claims_in_the_commit_of_the_send_and_ends_in_that_by_which_the_sender_listens(
    tmp_path: Path, store: str
) -> None:
    """One for the send and the claim, one for the result and the listening."""
    app = hf.App(store.format(tmp_path))

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        node = own_node(app)
        counts: list[int] = []
        for number in range(20):
            before = node.stats.commits
            assert (await (await double.send_async(number))).ok_value == 2 * number
            counts.append(node.stats.commits - before)
    assert statistics.median(counts) == 2, counts
