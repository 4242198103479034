"""What the commands print: JSON for programs, tables and blocks for people.

1. Everything that a command writes to standard output goes through `print_line` or `print_json_text`.
2. They write no control character but the line feed at the end of a line: ids, tags, pids, payloads and error
   texts are written by others, and a terminal obeys what it reads.
"""

import json
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.cli.durations import format_duration
from holdfast.cli.payloads import decode_payload, decode_text
from holdfast.protocol import tags
from holdfast.protocol.limits import instant_ms_max
from holdfast.protocol.records import Millis, Promise, Schedule, TaskView, Value
from holdfast.protocol.text import printable, printable_json

Shown = str | list[str]  # one line, or several


def now_ms() -> Millis:
    return time.time_ns() // 1_000_000


def print_line(line: str = "") -> None:
    sys.stdout.write(f"{printable(line)}\n")


def print_json(value: Any) -> None:
    """As on the wire, indented."""
    print_json_text(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_text(text: str) -> None:
    sys.stdout.write(f"{printable_json(text)}\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = [[name.upper() for name in columns], *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_block(entries: Iterable[tuple[str, Shown | None]]) -> None:
    """A name and a text a line. What has several lines goes on below itself, not below the names."""
    present = [(name, text) for name, text in entries if text is not None]
    width = max(len(name) for name, _ in present)
    for name, text in present:
        first, *more = text if isinstance(text, list) else [text]
        print_line(f"{name.ljust(width)}  {first}")
        for line in more:
            print_line(f"{' ' * width}  {line}")


def print_done(as_json: bool) -> None:
    """For requests whose reply has nothing to say."""
    print_line("{}" if as_json else "done")


def print_more(cursor: str | None) -> None:
    if cursor is not None:
        print_line()
        print_line(f"There are more: --cursor {cursor!r} shows the next page, --all shows everything.")


def instant(value: Millis | None) -> str | None:
    """A point in time and how far away it is."""
    if value is None:
        return None
    if value == instant_ms_max:
        return "never"
    try:
        date = datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(value)  # beyond the year 9999
    away = value - now_ms()
    return f"{date} ({f'in {format_duration(away)}' if away >= 0 else f'{format_duration(-away)} ago'})"


def brief(text: str, most: int = 2_000) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}..." if most < 500 else f"{text[:most]}... ({len(text)} characters)"


def shown_payload(value: Value) -> Shown | None:
    """A text as its lines, anything else as JSON."""
    if not value.data:
        return None
    found = decode_payload(value)
    if not isinstance(found, str):
        try:
            return brief(printable_json(json.dumps(found, ensure_ascii=False, separators=(",", ":"))))
        except RecursionError:
            found = decode_text(value)
    return brief(found).split("\n")


def shown_halt(task: TaskView | None, most: int = 300) -> str | None:
    """Why a task was halted, where that is known."""
    if task is None or task.halted is None:
        return None
    reason, code = task.halted.reason, task.halted.code
    text = reason if not code or f"[{code}]" in reason else f"{reason} [{code}]"
    return brief(text, most)


def ago(value: Millis) -> str:
    return f"{format_duration(max(0, now_ms() - value))} ago"


def shown_entries(entries: dict[str, str] | None) -> str | None:
    return " ".join(f"{key}={entry}" for key, entry in sorted(entries.items())) if entries else None


def print_promise(promise: Promise) -> None:
    print_block(
        [
            ("id", promise.id),
            ("state", promise.state),
            ("created", instant(promise.created_at)),
            ("deadline", instant(promise.timeout_at) if promise.settled_at is None else None),
            ("settled", instant(promise.settled_at)),
            ("param", shown_payload(promise.param)),
            ("value", shown_payload(promise.value)),
            ("tags", shown_entries(promise.tags)),
        ]
    )


def print_promises(promises: Sequence[Promise]) -> None:
    rows = [
        [
            promise.id,
            promise.state,
            instant(promise.created_at) or "",
            format_duration(promise.settled_at - promise.created_at) if promise.settled_at else "",
        ]
        for promise in promises
    ]
    print_table(["id", "state", "created", "took"], rows)


def print_task(task: TaskView) -> None:
    print_block(
        [
            ("id", task.id),
            ("state", task.state),
            ("version", str(task.version)),
            ("resumes", str(task.resumes)),
            ("pid", task.pid),
            ("ttl", None if task.ttl is None else format_duration(task.ttl)),
            ("started", instant(task.started_at)),
            ("retries", str(task.retries) if task.retries else None),
            ("halted", None if task.halted is None else instant(task.halted.at)),
            ("reason", shown_halt(task)),
            ("error", None if task.halted is not None else task.error),
        ]
    )


def print_tasks(tasks: Sequence[TaskView]) -> None:
    rows = [
        [
            task.id,
            task.state,
            str(task.version),
            str(task.resumes),
            task.pid or "",
            brief(task.error or "", 60),
        ]
        for task in tasks
    ]
    print_table(["id", "state", "version", "resumes", "pid", "error"], rows)


def print_schedule(schedule: Schedule) -> None:
    print_block(
        [
            ("id", schedule.id),
            ("cron", schedule.cron),
            ("timezone", schedule.timezone),
            ("promise", schedule.promise_id),
            ("timeout", _timeout(schedule)),
            ("param", shown_payload(schedule.promise_param)),
            ("tags", shown_entries(schedule.promise_tags)),
            ("overlap", schedule.overlap),
            ("catch-up", None if schedule.catch_up is None else str(schedule.catch_up)),
            ("created", instant(schedule.created_at)),
            ("last run", instant(schedule.last_run_at)),
            ("next run", None if schedule.paused_at is not None else instant(schedule.next_run_at)),
            ("paused", instant(schedule.paused_at)),
            ("declared by", schedule.promise_tags.get(tags.DECLARED_BY)),
        ]
    )


def _timeout(schedule: Schedule) -> str:
    timeout_ms = schedule.promise_timeout
    return "none" if timeout_ms >= instant_ms_max else format_duration(timeout_ms)


def print_schedules(schedules: Sequence[Schedule], known: tuple[str, Collection[str]] | None = None) -> None:
    """`known`: the group of an app and the schedules that it declares; its others are orphans."""
    rows = [
        [
            schedule.id,
            schedule.cron,
            "paused" if schedule.paused_at is not None else instant(schedule.next_run_at) or "",
            instant(schedule.last_run_at) or "never",
            _declared_by(schedule, known),
        ]
        for schedule in schedules
    ]
    print_table(["id", "cron", "next run", "last run", "declared by"], rows)


def _declared_by(schedule: Schedule, known: tuple[str, Collection[str]] | None) -> str:
    group = schedule.promise_tags.get(tags.DECLARED_BY, "")
    is_orphan = known is not None and group == known[0] and schedule.id not in known[1]
    return f"{group} (orphan)" if is_orphan else group
