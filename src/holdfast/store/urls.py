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
    path. With `?beside=1` our tables may be made beside those of an application, in its own file or schema.
    """
    if url in ("memory:", "memory://"):
        from holdfast.store.memory import MemoryStore

        return MemoryStore()
    if (file := file_of(url)) is not None:
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(file, beside=_is_beside(url))
    if url.startswith(("postgresql://", "postgres://")):
        from holdfast.store.postgres import PostgresStore

        return PostgresStore(url)
    raise UnknownStore(
        f"{hide_password(url)!r} names no store. "
        f"Use sqlite:///path, postgresql://host/database or memory:. [{UnknownStore.code}]"
    )


def file_of(url: str) -> Path | None:
    """The SQLite file that a URL names, if it names one."""
    path, _ = _parts(url)
    if url.startswith("sqlite:///") and path:
        return Path(unquote(path))
    return None


def _parts(url: str) -> tuple[str, str]:
    """The path of a SQLite file, and what is asked for it. (A question mark of a name is written %3F.)"""
    path, mark, query = url.removeprefix("sqlite:///").rpartition("?")
    return (path, query) if mark and "=" in query else (url.removeprefix("sqlite:///"), "")


def _is_beside(url: str) -> bool:
    _, query = _parts(url)
    if query not in ("", "beside=1", "beside=0"):
        raise UnknownStore(
            f"{hide_password(url)!r} asks for {query!r}, which is not known. "
            f"The only option of a SQLite file is ?beside=1. [{UnknownStore.code}]"
        )
    return query == "beside=1"


def is_missing(url: str) -> bool:
    """Does it name a SQLite file that is not there? To open it would make one."""
    file = file_of(url)
    return file is not None and not file.exists()
