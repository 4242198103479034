"""What one node hears from another, and tells it."""

import logging

import pytest

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, CommitOutcome, run_group, run_sweep
from holdfast.protocol.requests import ScheduleCreate
from holdfast.store.memory import MemoryStore
from tests.fuzz.more_targets import hear_call
from tests.requests import ask, create, listen


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        '["n1", [], [["no address", "p", "B"]], null, []]',
        '["n1", [{"address": "oll://x", "task": {"id": "t", "version": 1}, "dialect": "A", "woken": true}]]',
    ],
)
def test_a_call_that_makes_no_sense_is_told_of_and_passed_over(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.node"):
        hear_call(text)
    assert [record.getMessage() for record in caplog.records] == [
        "a notification from another node could not be read; is a node of another version running?"
    ]


def swept(store: MemoryStore, now: int) -> CommitOutcome:
    return store.run(lambda: run_sweep(CommitContext(now, Rules(), debug=False)))


def test_a_sweep_tells_the_others_of_what_it_has_written_and_not_of_what_it_has_found() -> None:
    """Who tells of what he found calls the others to look, who tell of it again, and so on forever."""
    store = MemoryStore()
    requests = [
        create("p", timeout_at=90_000),
        listen("p", "poll://any@g"),
        ask(ScheduleCreate("s", "* * * * *", "s.{{.timestamp}}", 1_000)),
    ]
    store.run(lambda: run_group(requests, CommitContext(1, Rules(), debug=False)))
    nothing = swept(store, 5)
    assert (nothing.next_due, nothing.is_due_new) == (60_000, False)
    fired = swept(store, 60_000)
    assert (fired.next_due, fired.is_due_new) == (90_000, False)
    settled = swept(store, 120_000)
    assert (settled.next_due, settled.is_due_new) == (180_000, True)
