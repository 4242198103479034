"""SQLite finds what an execution has recorded along the ids below it: a claim is given all of it, or told."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol import limits, tags
from holdfast.protocol.ids import lies_directly_below
from holdfast.protocol.replies import AcquireReply, PromisesReply, Reply
from holdfast.protocol.requests import PromiseCreate, PromiseSearch, Request, Settle
from holdfast.store.sqlite import SqliteFile
from tests.requests import FAR, acquire, ask, create


class Opened:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = SqliteFile(path)
        self.file.open()

    def commit(self, *requests: Request) -> Sequence[Reply]:
        return self.file.run(lambda: run_group(requests, CommitContext(1_000, Rules(), debug=False))).replies

    def record(self, branch: str | None, *ids: str) -> None:
        """Records that are settled, as steps are."""
        entries = {} if branch is None else {tags.BRANCH: branch}
        data = [PromiseCreate(key, FAR, tags=entries, settle=Settle("resolved")) for key in ids]
        assert all(reply.status == 200 for reply in self.commit(*map(ask, data)))

    def execution(self, name: str) -> None:
        self.commit(create(name, target="poll://any@g", branch=name))

    def claim(self, name: str) -> AcquireReply:
        (reply,) = self.commit(acquire(name))
        assert isinstance(reply.data, AcquireReply), reply
        return reply.data

    def indexed(self) -> list[str]:
        with closing(sqlite3.connect(self.path)) as other:
            query = "SELECT id FROM promises WHERE branch IS NOT NULL ORDER BY id"
            return [key for (key,) in other.execute(query)]


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Opened]:
    opened = Opened(tmp_path / "holdfast.db")
    yield opened
    opened.file.close()


def preloaded(claim: AcquireReply) -> list[str]:
    return [promise.id for promise in claim.preload]


def test_a_record_below_its_execution_is_found_by_its_id_alone(opened: Opened) -> None:
    opened.execution("w")
    opened.record("w", "w:1", "w:2", "w:10", "w:2~observed")
    assert opened.indexed() == ["w"]
    claim = opened.claim("w")
    assert preloaded(claim) == ["w:1", "w:10", "w:2", "w:2~observed"]
    assert claim.cursor is None


def test_a_record_with_nothing_behind_the_delimiter_is_found(opened: Opened) -> None:
    for name, record in (("w", "w:"), ("w:1", "w:1.")):
        opened.execution(name)
        opened.record(name, record)
        assert preloaded(opened.claim(name)) == [record]


def test_what_has_another_id_is_found_by_the_index(opened: Opened) -> None:
    opened.execution("w")
    opened.record("w", "w:1", "elsewhere", "w.1", "w:1.1", "w:x:1")
    assert opened.indexed() == ["elsewhere", "w", "w.1", "w:1.1", "w:x:1"]
    assert preloaded(opened.claim("w")) == ["elsewhere", "w.1", "w:1", "w:1.1", "w:x:1"]


def test_what_lies_below_and_belongs_to_others_is_not_preloaded(opened: Opened) -> None:
    opened.execution("w")
    opened.execution("w:1")
    opened.record("w:1", "w:1.1", "w:1.2")
    opened.record(None, "w:3")
    opened.record("v", "w:4")
    opened.record("w", "w:2")
    opened.record("w2", "w2:1")
    assert preloaded(opened.claim("w")) == ["w:2"]
    assert preloaded(opened.claim("w:1")) == ["w:1.1", "w:1.2"]


def test_a_file_of_an_older_version_has_all_its_records_in_the_index(opened: Opened) -> None:
    opened.execution("w")
    opened.record("w", "w:1", "w:2")
    with closing(sqlite3.connect(opened.path)) as other, other:
        other.execute("UPDATE promises SET branch = 'w' WHERE id LIKE 'w:%'")
    opened.record("w", "w:3")
    assert preloaded(opened.claim("w")) == ["w:1", "w:2", "w:3"]


def test_a_walk_that_meets_very_many_records_of_others_is_cut_and_says_where(opened: Opened) -> None:
    most = limits.preload_records_max
    opened.execution("w")
    opened.record("w", "w:0", "w:2")
    opened.record("w:1", *[f"w:1.{number:04}" for number in range(most)])
    claim = opened.claim("w")
    assert preloaded(claim) == ["w:0"]
    assert claim.cursor == f"w:1.{most - 3:04}", "with the two before, and the execution itself"
    (rest,) = opened.commit(ask(PromiseSearch(None, {tags.BRANCH: "w"}, "w:", 10, claim.cursor)))
    assert isinstance(rest.data, PromisesReply)
    assert [promise.id for promise in rest.data.promises] == ["w:2"]


def test_streams_are_passed_over_however_long_they_are(opened: Opened) -> None:
    """With promises whose names begin like those of streams, and end up before, between and behind them."""
    most = limits.preload_records_max
    names = ["0~cancel", "1", "in", "in-time", "invoice", "out", "outlook", "value", "values", "~"]
    opened.execution("w")
    opened.record("w", *[f"w:{name}" for name in names])
    for ends in ("in.{}", "in~key-{}", "out.tokens.{}", "out.tokens~key-{}", "value.stage.{}"):
        opened.record(None, *[f"w:{ends.format(number)}" for number in range(most // 2)])
    claim = opened.claim("w")
    assert preloaded(claim) == [f"w:{name}" for name in names]
    assert claim.cursor is None


def test_in_an_execution_that_was_called_as_well(opened: Opened) -> None:
    opened.execution("w:3")
    opened.record("w:3", "w:3.1", "w:3.invoice")
    opened.record(None, *[f"w:3.in.{number}" for number in range(100)])
    opened.record(None, *[f"w:3.in~{number}" for number in range(100)])
    assert preloaded(opened.claim("w:3")) == ["w:3.1", "w:3.invoice"]


@pytest.mark.parametrize("others", [0, 100])
def test_a_record_with_the_id_of_a_key_is_found_by_the_index(opened: Opened, others: int) -> None:
    opened.execution("w")
    opened.record("w", "w:1", "w:in~mine")
    opened.record(None, *[f"w:in~{number}" for number in range(others)])
    assert opened.indexed() == ["w", "w:in~mine"]
    assert preloaded(opened.claim("w")) == ["w:1", "w:in~mine"]


def test_long_and_short_branches_are_claimed_together(opened: Opened) -> None:
    """A glance is enough for one of them, and not for the other."""
    numbers = [f"{number:03}" for number in range(100)]
    opened.execution("long")
    opened.execution("short")
    opened.record("long", *[f"long:{number}" for number in numbers])
    opened.record("short", "short:1")
    long, short = opened.commit(acquire("long"), acquire("short"))
    assert isinstance(long.data, AcquireReply)
    assert isinstance(short.data, AcquireReply)
    assert preloaded(long.data) == [f"long:{number}" for number in numbers]
    assert preloaded(short.data) == ["short:1"]


@pytest.mark.parametrize(
    ("record_id", "parent", "expected"),
    [
        ("w:1", "w", True),
        ("w:1", "w:1", False),
        ("w:1.2", "w:1", True),
        ("w:1.2", "w", False),
        ("w:1:2", "w", False),
        ("w:1:2", "w:1", False),
        ("w.1", "w", False),
        ("w:g7.3", "w:g7", True),
        ("w", "w", False),
        ("v:1", "w", False),
        ("w2:1", "w", False),
        ("w:", "w", True),
    ],
)
def test_an_id_says_whose_record_it_is(record_id: str, parent: str, expected: bool) -> None:
    assert lies_directly_below(record_id, parent) is expected
