"""Records of granted and suspended tasks are not read again; what is kept is what the file holds."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, CommitOutcome, run_group
from holdfast.protocol.records import Value
from holdfast.protocol.replies import StreamAppendReply
from holdfast.protocol.requests import (
    CreateAction,
    NextAction,
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseSettle,
    RegisterAction,
    Request,
    StreamAppend,
    StreamNext,
    TaskFence,
    TaskHalt,
    TaskSuspend,
)
from holdfast.store import granted_records, sqlite
from holdfast.store.interface import Work
from holdfast.store.sqlite import SqliteFile
from holdfast.store.sqlite_statements import EXISTING, STREAMS
from tests.requests import FAR, acquire, ask, create, heartbeat


class Told:
    """A connection that remembers what was read of records: the parameters of each such statement."""

    def __init__(self, path: str) -> None:
        self.reads: list[list[str]] = []
        self._connection = sqlite.connect(path)

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if "FROM promises p LEFT JOIN tasks" in statement or statement in (*EXISTING, STREAMS):
            [first, *_] = parameters
            self.reads.append(msgspec.json.decode(first) if first.startswith("[") else [*parameters])
        return self._connection.execute(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Opened:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = SqliteFile(path, connect=self._connect)
        self.file.open()
        self.commit(create("w", target="poll://any@g"), acquire("w"))

    def _connect(self, path: str) -> Told:
        self.told = Told(path)
        return self.told

    def commit(self, *requests: Request, now: int = 1_000) -> CommitOutcome:
        self.told.reads.clear()
        return self.file.run(lambda: run_group(requests, CommitContext(now, Rules(), debug=False)))

    def names_read(self) -> set[str]:
        return {name for names in self.told.reads for name in names}


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Opened]:
    opened = Opened(tmp_path / "holdfast.db")
    yield opened
    opened.file.close()


def fence(promise_id: str, task_id: str = "w", version: int = 1) -> Request:
    return ask(TaskFence(task_id, version, CreateAction(PromiseCreate(promise_id, FAR, Value()))))


def statuses(outcome: CommitOutcome) -> list[int]:
    return [reply.status for reply in outcome.replies]


def change(path: Path, statement: str) -> None:
    """By another process, as it were."""
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(statement)


def test_a_fence_does_not_read_the_task_that_this_file_has_granted(opened: Opened) -> None:
    assert statuses(opened.commit(fence("w:1"), fence("w:2"))) == [200, 200]
    assert opened.names_read() == {"w:1", "w:2"}


def test_a_heartbeat_reads_nothing_of_what_is_granted(opened: Opened) -> None:
    assert statuses(opened.commit(heartbeat("p", ("w", 1)), now=2_000)) == [200]
    assert opened.told.reads == []
    assert statuses(opened.commit(fence("w:1"), now=61_500)) == [200], "the lease that it has given counts"


def test_what_another_process_has_changed_is_read(opened: Opened) -> None:
    opened.commit(fence("w:1"))
    change(opened.path, "UPDATE tasks SET version = 2 WHERE id = 'w'")
    assert statuses(opened.commit(fence("w:2"))) == [409]
    assert statuses(opened.commit(fence("w:2", version=2))) == [200]


def test_what_was_read_again_after_another_process_wrote_is_kept_again(opened: Opened) -> None:
    change(opened.path, "UPDATE clock SET now = now + 1")
    opened.commit(fence("w:1"))
    assert opened.names_read() == {"w", "w:1"}
    opened.commit(fence("w:2"))
    assert opened.names_read() == {"w:2"}


def test_a_task_that_is_given_up_is_read(opened: Opened) -> None:
    opened.commit(fence("w:1"))
    assert statuses(opened.commit(ask(TaskHalt("w")))) == [200]
    assert statuses(opened.commit(fence("w:2"))) == [409]


def test_a_fence_sees_what_was_written_to_the_promise_of_its_task(opened: Opened) -> None:
    opened.commit(fence("w:1"))
    assert statuses(opened.commit(ask(PromiseSettle("w", "resolved", Value())))) == [200]
    assert statuses(opened.commit(fence("w:2"))) == [409]


def test_what_was_undone_is_not_kept(opened: Opened) -> None:
    """A commit fails after everything was saved: the claim that it gave has never been."""
    opened.commit(create("u", target="poll://any@g"))

    def failing() -> Work[None]:
        yield from run_group([acquire("u"), ask(TaskHalt("w"))], CommitContext(1_000, Rules(), debug=False))
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="full"):
        opened.file.run(failing)
    assert statuses(opened.commit(fence("u:1", "u"), fence("w:1"))) == [409, 200]


def test_large_records_are_not_kept(opened: Opened) -> None:
    data = "x" * granted_records.granted_record_bytes_max
    opened.commit(create("big", data=data, target="poll://any@g"), acquire("big"))
    opened.commit(fence("big:1", "big"))
    assert "big" in opened.names_read()


def test_no_more_records_are_kept_than_there_is_room_for(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granted_records, "granted_records_max", 3)
    names = [f"t{number}" for number in range(5)]
    for name in names:
        opened.commit(create(name, target="poll://any@g"), acquire(name))
    opened.commit(*(fence(f"{name}:1", name) for name in names))
    read = opened.names_read()
    assert [name in read for name in names] == [True, True, False, False, False]


def suspend(task_id: str, version: int = 1) -> tuple[Request, Request]:
    """It waits for a promise that nobody settles."""
    awaited = f"{task_id}:end"
    waits = RegisterAction("promise.register_callback", PromiseRegisterCallback(awaited, task_id))
    return create(awaited), ask(TaskSuspend(task_id, version, [waits]))


def tell(task_id: str, key: str | None = None) -> Request:
    return ask(StreamAppend(task_id, "in", Value(None, "MQ=="), key))


def numbers(outcome: CommitOutcome) -> list[int]:
    """Those that messages were given."""
    data = [reply.data for reply in outcome.replies]
    return [each.number for each in data if isinstance(each, StreamAppendReply)]


def test_a_message_to_a_suspended_execution_reads_its_key_and_its_place_at_once(opened: Opened) -> None:
    assert statuses(opened.commit(*suspend("w"))) == [200, 200]
    assert numbers(opened.commit(tell("w", "a"))) == [1]
    assert numbers(opened.commit(tell("w", "b"))) == [2]
    [names] = opened.told.reads
    assert sorted(names) == ["w:in.2", "w:in~b"]


def test_how_many_messages_another_process_has_appended_is_read(opened: Opened) -> None:
    opened.commit(*suspend("w"))
    opened.commit(tell("w"))
    change(opened.path, """UPDATE streams SET record = replace(record, '{"in":1}', '{"in":5}')""")
    assert numbers(opened.commit(tell("w"), tell("w"))) == [6, 7]


def test_a_message_that_was_undone_is_not_counted(opened: Opened) -> None:
    opened.commit(*suspend("w"))
    opened.commit(tell("w"))

    def failing() -> Work[None]:
        yield from run_group([tell("w")], CommitContext(1_000, Rules(), debug=False))
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="full"):
        opened.file.run(failing)
    assert numbers(opened.commit(tell("w"))) == [2]


def test_what_a_message_has_woken_is_not_taken_for_suspended(opened: Opened) -> None:
    """The next element is awaited: the message offers the task, and a claim of it is granted."""
    following = ask(TaskFence("w", 1, NextAction(StreamNext("w", "in", 1))))
    waits = RegisterAction("promise.register_callback", PromiseRegisterCallback("w:in.1", "w"))
    assert statuses(opened.commit(following, ask(TaskSuspend("w", 1, [waits])))) == [200, 200]
    assert statuses(opened.commit(tell("w"), acquire("w", version=1))) == [200, 200]
    assert statuses(opened.commit(fence("w:1", version=2))) == [200]


def test_what_is_suspended_takes_no_room_from_what_is_granted(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granted_records, "suspended_records_max", 2)
    names = [f"t{number}" for number in range(4)]
    for name in names:
        opened.commit(create(name, target="poll://any@g"), acquire(name))
        opened.commit(*suspend(name))
        opened.commit(tell(name))
    opened.commit(*map(tell, names), fence("w:1"))
    read = opened.names_read()
    assert [name in read for name in names] == [True, True, False, False]
    assert "w" not in read
