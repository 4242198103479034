"""What one node hears from another."""

import logging

import pytest

from tests.fuzz.more_targets import hear_call


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
        "a call that cannot be read; is a node of another version running?"
    ]
