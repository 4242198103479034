"""Where a node keeps its records, as one text: `sqlite:///path`, `postgresql://host/database`, `memory:`."""

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
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(unquote(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        from holdfast.store.postgres import PostgresStore

        return PostgresStore(url)
    raise UnknownStore(
        f"{hide_password(url)!r} names no store. "
        f"Use sqlite:///path, postgresql://host/database or memory:. [{UnknownStore.code}]"
    )
