"""What may be sent a second time, where the kind alone does not tell."""

import pytest

from holdfast.protocol.repeatable import may_be_repeated
from holdfast.protocol.requests import (
    AppendAction,
    NextAction,
    RequestData,
    StreamAppend,
    StreamList,
    StreamNext,
    StreamRead,
    TaskClaim,
    TaskFence,
)
from tests.requests import ask

KEYED, PLAIN = StreamAppend("a", "in", key="k"), StreamAppend("a", "in")


@pytest.mark.parametrize(
    "data",
    [
        KEYED,
        TaskFence("a", 1, AppendAction(KEYED)),
        TaskFence("a", 1, NextAction(StreamNext("a", "in", 1))),
        StreamNext("a", "in", 1),
        StreamRead("a", "in"),
        StreamList("a"),
    ],
)
def test_an_append_with_a_key_is_repeated_and_so_is_what_only_reads(data: RequestData) -> None:
    assert may_be_repeated(ask(data))


@pytest.mark.parametrize("data", [PLAIN, TaskFence("a", 1, AppendAction(PLAIN)), TaskClaim(["g"], 1, "p", 1)])
def test_an_append_without_a_key_is_sent_once(data: RequestData) -> None:
    assert not may_be_repeated(ask(data))
