"""Claims that are refused again and again are told when that starts, when it changes, and then rarely."""

import logging
from collections.abc import Iterator

import pytest

from holdfast.host.refused_claims import RefusedClaims, told_again_s
from holdfast.protocol.replies import Reply


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    handler, log = Heard(), logging.getLogger("holdfast.worker")
    with caplog.at_level(logging.INFO, log.name):
        log.addHandler(handler)
        yield handler.records
    log.removeHandler(handler)


def test_a_refusal_that_lasts_is_told_at_its_start_and_every_ten_minutes(
    told: list[logging.LogRecord],
) -> None:
    clock = Clock()
    claims = RefusedClaims("w1", clock)
    for _ in range(25 * 60):  # a claim a second
        claims.refused("tasks", ["queue.mail"], Reply(401, "The token is not known [HF3001]", "HF3001"))
        clock.now_s += 1
    assert [round(told_again_s * number) for number in range(3)] == [0, 600, 1200]
    assert [record.levelname for record in told] == ["ERROR"] * 3
    assert "claims are refused" in told[0].getMessage()
    assert "for 20 minutes: The token is not known" in told[2].getMessage()
    fields = told[0].__dict__
    assert (fields["worker"], fields["code"], fields["group"]) == ("w1", "HF3001", "queue.mail")


def test_another_refusal_is_told_at_once_and_so_is_the_end(told: list[logging.LogRecord]) -> None:
    claims = RefusedClaims("w1", Clock())
    for _ in range(3):
        claims.refused("tasks", ["q"], Reply(401, "not known", "HF3001"))
    for _ in range(3):
        claims.refused("tasks", ["q"], Reply(403, "not allowed", "HF3002"))
    claims.refused("workflows", ["g"], Reply(403, "not allowed", "HF3002"))
    assert [(record.__dict__["code"], record.__dict__["group"]) for record in told] == [
        ("HF3001", "q"),
        ("HF3002", "q"),
        ("HF3002", "g"),
    ]
    claims.granted("tasks")
    claims.granted("tasks")
    assert [record.levelname for record in told[3:]] == ["INFO"]
    assert [*claims.by_kind] == ["workflows"], "those of the other kind are still refused"
    claims.granted("workflows")
    assert not claims.by_kind


def test_control_characters_of_a_refusal_are_escaped(told: list[logging.LogRecord]) -> None:
    RefusedClaims("w", Clock()).refused("tasks", ["q\x1b"], Reply(403, "no\x1b[2J", None))
    assert "\x1b" not in told[0].getMessage() + told[0].__dict__["group"]
