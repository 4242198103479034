"""What the commands print: JSON for programs, tables and blocks for people."""

import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.cli.durations import format_duration
from holdfast.cli.payloads import decode_payload
from holdfast.protocol.records import Millis, Promise, Schedule, TaskView, Value


def now_ms() -> Millis:
    return time.time_ns() // 1_000_000


def print_line(line: str = "") -> None:
    sys.stdout.write(f"{line}\n")


def print_json(value: Any) -> None:
    """As on the wire, indented."""
    print_line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in ([name.upper() for name in columns], *rows):
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_block(entries: Iterable[tuple[str, str | None]]) -> None:
    present = [(name, text) for name, text in entries if text is not None]
    width = max(len(name) for name, _ in present)
    for name, text in present:
        print_line(f"{name.ljust(width)}  {text}")


def print_done(as_json: bool) -> None:
    """For requests whose reply has nothing to say."""
    print_line("{}" if as_json else "done")


def print_more(cursor: str | None) -> None:
    if cursor is not None:
        print_line(f"\nThere are more: --cursor {cursor!r} goes on, --all shows everything.")


def instant(value: Millis | None) -> str | None:
    """A point in time and how far away it is."""
    if value is None:
        return None
    try:
        date = datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(value)  # beyond the year 9999
    away = value - now_ms()
    return f"{date} ({f'in {format_duration(away)}' if away >= 0 else f'{format_duration(-away)} ago'})"


def brief(value: Any, most: int = 2_000) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def shown_payload(value: Value) -> str | None:
    return brief(decode_payload(value)) if value.data else None


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
            ("error", task.error),
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
            ("timeout", format_duration(schedule.promise_timeout)),
            ("param", shown_payload(schedule.promise_param)),
            ("tags", shown_entries(schedule.promise_tags)),
            ("overlap", schedule.overlap),
            ("catch-up", None if schedule.catch_up is None else str(schedule.catch_up)),
            ("created", instant(schedule.created_at)),
            ("last run", instant(schedule.last_run_at)),
            ("next run", instant(schedule.next_run_at)),
        ]
    )


def print_schedules(schedules: Sequence[Schedule]) -> None:
    rows = [
        [
            schedule.id,
            schedule.cron,
            instant(schedule.next_run_at) or "",
            instant(schedule.last_run_at) or "never",
        ]
        for schedule in schedules
    ]
    print_table(["id", "cron", "next run", "last run"], rows)
