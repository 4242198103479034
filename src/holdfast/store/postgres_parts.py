"""The parts of one save on PostgreSQL: which rows go where, and how they travel.

Rows travel as columns, each an array. But the rows of one save are nearly always alike in all but a few
columns (`VARYING`): tasks of one queue, claimed by one worker, completed in one instant. Then what is alike
is sent once, which is half the work for the database and for us.
"""

from collections.abc import Sequence
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
        if ws.forgotten:
            self.add("drop_waits", list(ws.forgotten))
