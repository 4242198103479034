"""The parts of one save on PostgreSQL: which rows go into which statement.

Rows travel as columns, each an array. But the rows of one save are nearly always alike in all but a few
columns (`VARYING`): tasks of one queue, claimed by one worker, completed in one instant. Then what is alike
is sent once, which is half the work for the database and for us.
"""

from collections.abc import Container, Sequence
from typing import Any, Final

from holdfast.engine import WorkingSet
from holdfast.store import postgres_statements as sql, rows


class Records:
    """Which columns of a row are written, and which of them differ from row to row, as a rule."""

    def __init__(self, part: str, row: Sequence[str], columns: Sequence[str]) -> None:
        self.part = part
        self.columns = [row.index(name) for name in columns]
        self.varying = [row.index(name) for name in sql.VARYING[part]]
        self.alike = [index for index in self.columns if index not in self.varying]


NEW_PROMISES: Final = Records("insert_promises", rows.PROMISE_COLUMNS, rows.PROMISE_COLUMNS)
CHANGED_PROMISES: Final = Records("update_promises", rows.PROMISE_CHANGES, rows.PROMISE_CHANGES)
NEW_TASKS: Final = Records("insert_tasks", rows.TASK_COLUMNS, rows.TASK_COLUMNS)
CHANGED_TASKS: Final = Records("update_tasks", rows.TASK_COLUMNS, sql.TASK_CHANGES)


class Parts:
    """Their names and their parameters, side by side."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arguments: list[Any] = []

    def add(self, name: str, *arguments: Any) -> None:
        self.names.append(name)
        self.arguments += arguments

    def add_rows(self, name: str, records: Sequence[rows.Row]) -> None:
        if records:
            self.add(name, *map(sql.array_text, zip(*records, strict=True)))

    def add_records(self, kind: Records, records: Sequence[rows.Row]) -> None:
        if not records:
            return
        columns = list(zip(*records, strict=True))
        alike = [columns[index] for index in kind.alike]
        if all(map(rows.is_alike, alike)):
            varying = [sql.array_text(columns[index]) for index in kind.varying]
            self.add(f"{kind.part}_alike", *[column[0] for column in alike], *varying)
        else:
            self.add(kind.part, *[sql.array_text(columns[index]) for index in kind.columns])

    def add_obligations(self, ws: WorkingSet) -> None:
        """What was both added and discharged is never written."""
        gone = ws.discharged | ws.forgotten
        self.add_rows("insert_callbacks", [pair for pair in ws.added_callbacks if pair[0] not in gone])
        self.add_rows(
            "insert_listeners",
            [
                (key, address, listener.dialect)
                for (key, address), listener in ws.added_listeners.items()
                if key not in gone
            ],
        )
        if gone:
            self.add("drop_callbacks", list(gone))
            self.add("drop_listeners", list(gone))
        self.add_rows("drop_some_callbacks", [pair for pair in ws.removed_callbacks if pair[0] not in gone])
        if ws.forgotten:
            self.add("drop_waits", list(ws.forgotten))

    def add_promises_and_tasks(self, ws: WorkingSet, held: Container[str]) -> None:
        """`held`: the ids that have rows."""
        new: list[rows.Row] = []
        changed: list[rows.Row] = []
        replaced: list[rows.Row] = []
        for key in ws.changed_promises:
            promise = ws.promises[key]
            if promise is not None and key in ws.replaced and key in held:
                replaced.append(rows.promise_row(promise, ws.is_watched(key)))
            elif promise is not None and key in held:
                changed.append(rows.promise_changes(promise, ws.is_watched(key)))
            elif promise is not None:
                new.append(rows.promise_row(promise, ws.is_watched(key)))
        tasks = rows.changed_task_rows(ws)
        if ws.forgotten:
            for name in ("drop_promises", "drop_tasks", "drop_streams"):
                self.add(name, list(ws.forgotten))
        self.add_records(NEW_PROMISES, new)
        self.add_records(CHANGED_PROMISES, changed)
        self.add_rows("replace_promises", replaced)
        again = [row for key, row in tasks.items() if key in ws.replaced and key in held]
        self.add_rows("replace_tasks", again)
        if again:
            tasks = {key: row for key, row in tasks.items() if key not in ws.replaced or key not in held}
        self.add_records(NEW_TASKS, [row for key, row in tasks.items() if key not in held])
        self.add_records(CHANGED_TASKS, [row for key, row in tasks.items() if key in held])


def payload_chars(ws: WorkingSet) -> int:
    changed = [promise for key in ws.changed_promises if (promise := ws.promises[key]) is not None]
    return sum([len(promise.param.data or "") + len(promise.value.data or "") for promise in changed])


def drop_reborn(ws: WorkingSet, held: set[str]) -> Parts:
    """What is gone and there again goes before it comes: the parts of one statement have no order."""
    parts = Parts()
    reborn = [key for key in ws.forgotten if ws.promises[key] is not None]
    for name in ("promises", "tasks", "streams", "callbacks", "listeners", "waits") if reborn else ():
        parts.add(f"drop_{name}", reborn)
    held.difference_update(reborn)
    for key in reborn:
        del ws.forgotten[key]
    return parts
