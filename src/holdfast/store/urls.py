"""Where a node keeps its records, as one text: `sqlite:///path`, `postgresql://host/database`, `memory:`."""

from pathlib import Path
from urllib.parse import unquote

from holdfast.protocol.text import hide_password
from holdfast.store.interface import Store, StoreError


class UnknownStore(StoreError):
    """The URL names no store that this installation can open."""

    code = "HF2004"


def open_store(url: str) -> Store:
    """The store that a URL names, not yet opened.

    `sqlite:///holdfast.db` is a file in the working directory, `sqlite:////var/lib/holdfast.db` an absolute
    path.
    """
    if url in ("memory:", "memory://"):
        from holdfast.store.memory import MemoryStore

        return MemoryStore()
    if (file := file_of(url)) is not None:
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(file)
    if url.startswith(("postgresql://", "postgres://")):
        from holdfast.store.postgres import PostgresStore

        return PostgresStore(url)
    raise UnknownStore(
        f"{hide_password(url)!r} names no store. "
        f"Use sqlite:///path, postgresql://host/database or memory:. [{UnknownStore.code}]"
    )


def file_of(url: str) -> Path | None:
    """The SQLite file that a URL names, if it names one."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Path(unquote(url.removeprefix("sqlite:///")))
    return None


def is_missing(url: str) -> bool:
    """Does it name a SQLite file that is not there? To open it would make one."""
    file = file_of(url)
    return file is not None and not file.exists()
