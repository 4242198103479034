"""How a node is doing, in numbers that are cheap to have: its store, its disk, its commits."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from holdfast.protocol.errors import Refusal, StoreUnavailable
from holdfast.store.interface import FileGone, Store

samples_max: Final = 500  # the latest commits


def shown_times(latest: Iterable[tuple[float, int]]) -> dict[str, Any]:
    """Of commits: how long each took, in seconds, and how many requests it had."""
    found = [*latest]
    if not found:
        return {"samples": 0}
    took = sorted(seconds for seconds, _ in found)
    return {
        "samples": len(took),
        "p50": round(took[len(took) // 2] * 1_000, 3),
        "p99": round(took[min(len(took) - 1, len(took) * 99 // 100)] * 1_000, 3),
        "groupSize": round(sum(requests for _, requests in found) / len(found), 2),
    }


def failure_of(error: BaseException) -> Refusal:
    """What callers are told of a store that failed. SQLite has a fixed sentence for each reason (the disk is
    full, the file is locked). That of another database may quote what is stored, so its class is named."""
    if isinstance(error, FileGone):
        return error
    said = str(error) if type(error).__module__ == "sqlite3" else ""
    return StoreUnavailable(f"The store failed: {said or type(error).__name__}")


def store_kind(store: Store) -> str:
    name = type(store).__name__.lower()
    return next((kind for kind in ("sqlite", "postgres", "memory") if kind in name), name)


def store_facts(store: Store) -> dict[str, int]:
    """The size of a file, and what is left on its disk. A database elsewhere knows its own."""
    path = getattr(getattr(store, "_file", None), "_path", None)
    if path is None or path == ":memory:":
        return {}
    files = [Path(path), Path(f"{path}-wal")]
    try:
        size = sum(each.stat().st_size for each in files if each.exists())
        return {"dbBytes": size, "diskFreeBytes": shutil.disk_usage(files[0].parent).free}
    except OSError:
        return {}
