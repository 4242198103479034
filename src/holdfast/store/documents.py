"""Small documents beside the records: who works here, who changed what, how much happened in a minute.

No promise depends on one, and no rule is about one: whoever writes it says what it means (node/documents.py).
They are kept by kind and id. Ids that grow with time are read from the newest on.
"""

from typing import Any, Final

from msgspec import Struct

from holdfast.protocol.records import Millis

documents_max: Final = 1_000  # of one read, or one delete

TABLE: Final = "holdfast_documents"


class Document(Struct, frozen=True):
    """`text` is JSON."""

    kind: str
    id: str
    at: Millis
    text: str


class PutDocuments(Struct, frozen=True):
    """Write these, each in place of what has its kind and id."""

    documents: tuple[Document, ...]


class FindDocuments(Struct, frozen=True):
    """Answer with those of a kind, by id: behind `after`; or from the newest on, before it."""

    kind: str
    after: str = ""
    limit: int = documents_max
    newest: bool = False
    id: str | None = None  # only this one


class DropDocuments(Struct, frozen=True):
    """Delete those of a kind that are older; with `before`, only ids before that. Answers how many.

    With `id`, delete that one, whatever its age."""

    kind: str
    older_than: Millis = 0
    before: str | None = None
    limit: int = documents_max
    id: str | None = None


DocumentStep = PutDocuments | FindDocuments | DropDocuments


_COLUMNS: Final = f"SELECT kind, id, at, text FROM {TABLE} WHERE kind = "  # noqa: S608
# One by its id; upwards after an id; the newest; the newest before an id.
_SQLITE: Final = (
    _COLUMNS + "? AND id = ?",
    _COLUMNS + "? AND id > ? ORDER BY id LIMIT ?",
    _COLUMNS + "? ORDER BY id DESC LIMIT ?",
    _COLUMNS + "? AND id < ? ORDER BY id DESC LIMIT ?",
)
_POSTGRES: Final = (
    _COLUMNS + "$1 AND id = $2",
    _COLUMNS + "$1 AND id > $2 ORDER BY id LIMIT $3",
    _COLUMNS + "$1 ORDER BY id DESC LIMIT $2",
    _COLUMNS + "$1 AND id < $2 ORDER BY id DESC LIMIT $3",
)


def find_statement(
    step: FindDocuments, statements: tuple[str, str, str, str]
) -> tuple[str, tuple[object, ...]]:
    """Ids are compared byte by byte in both databases."""
    one, after, newest, before = statements
    if step.id is not None:
        return one, (step.kind, step.id)
    if not step.newest:
        return after, (step.kind, step.after, step.limit)
    if not step.after:
        return newest, (step.kind, step.limit)
    return before, (step.kind, step.after, step.limit)


SQLITE_PUT: Final = (
    f"INSERT INTO {TABLE} (kind, id, at, text) VALUES (?, ?, ?, ?) "  # noqa: S608
    "ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, text = excluded.text"
)
SQLITE_DROP: Final = (
    f"DELETE FROM {TABLE} WHERE rowid IN (SELECT rowid FROM {TABLE} "  # noqa: S608
    "WHERE kind = ? AND at < ? AND (? IS NULL OR id < ?) ORDER BY id LIMIT ?)"
)
SQLITE_DROP_ONE: Final = f"DELETE FROM {TABLE} WHERE kind = ? AND id = ?"  # noqa: S608
POSTGRES_PUT: Final = (
    f"INSERT INTO {TABLE} (kind, id, at, text) "  # noqa: S608
    "SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) ORDER BY 1, 2 "
    "ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, text = excluded.text"
)
POSTGRES_DROP: Final = (
    f"WITH gone AS (DELETE FROM {TABLE} WHERE (kind, id) IN (SELECT kind, id FROM {TABLE} "  # noqa: S608
    "WHERE kind = $1 AND at < $2 AND ($3::text IS NULL OR id < $3) ORDER BY id LIMIT $4 "
    "FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone"
)
POSTGRES_DROP_ONE: Final = (
    f"WITH gone AS (DELETE FROM {TABLE} WHERE kind = $1 AND id = $2 RETURNING 1) "  # noqa: S608
    "SELECT count(*) FROM gone"
)


def perform_in_memory(known: dict[tuple[str, str], Document], step: DocumentStep) -> Any:
    if isinstance(step, PutDocuments):
        known.update(((each.kind, each.id), each) for each in step.documents)
        return None
    if isinstance(step, DropDocuments):
        if step.id is not None:
            return 0 if known.pop((step.kind, step.id), None) is None else 1
        old = [
            key
            for key, each in sorted(known.items(), key=lambda item: item[0])
            if each.kind == step.kind
            and each.at < step.older_than
            and (step.before is None or each.id < step.before)
        ][: step.limit]
        for key in old:
            del known[key]
        return len(old)
    if step.id is not None:
        found = known.get((step.kind, step.id))
        return [] if found is None else [found]
    ids = sorted((key for kind, key in known if kind == step.kind), reverse=step.newest)
    if step.after or not step.newest:
        ids = [key for key in ids if (key < step.after if step.newest else key > step.after)]
    return [known[step.kind, key] for key in ids[: step.limit]]


def perform_on_sqlite(connection: Any, step: DocumentStep) -> Any:
    if isinstance(step, PutDocuments):
        for each in step.documents:
            connection.execute(SQLITE_PUT, (each.kind, each.id, each.at, each.text))
        return None
    if isinstance(step, DropDocuments):
        if step.id is not None:
            return connection.execute(SQLITE_DROP_ONE, (step.kind, step.id)).rowcount
        parameters = (step.kind, step.older_than, step.before, step.before, step.limit)
        return connection.execute(SQLITE_DROP, parameters).rowcount
    return [Document(*row) for row in connection.execute(*find_statement(step, _SQLITE)).fetchall()]


async def perform_on_postgres(connection: Any, step: DocumentStep) -> Any:
    if isinstance(step, PutDocuments):
        columns = ([getattr(each, name) for each in step.documents] for name in ("kind", "id", "at", "text"))
        return await connection.execute(POSTGRES_PUT, *columns)
    if isinstance(step, DropDocuments):
        if step.id is not None:
            return await connection.fetchval(POSTGRES_DROP_ONE, step.kind, step.id)
        return await connection.fetchval(POSTGRES_DROP, step.kind, step.older_than, step.before, step.limit)
    statement, parameters = find_statement(step, _POSTGRES)
    return [Document(*row) for row in await connection.fetch(statement, *parameters)]
