"""Finds SQL that is put together from texts, and what is put into it.

A text is put together by an f-string, `+`, `+=`, `%`, `format` or `join`. What is put in is harmless when it
is a constant: of the module, of one that it imports (in capitals), or of a loop over constants.

`PUT_IN` lists everything else that stores put into a text: names of tables and columns, pieces that were put
together the same way, marks for parameters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

# What a statement looks like, in whatever case; prose has other words between these.
SQL = re.compile(
    r"\bselect\b.*\bfrom\b|\binsert\s+into\b|\bupdate\s+\S+\s+set\b|\bdelete\s+from\b"
    r"|\b(drop|create|alter)\s+table\b|\bwhere\s+\S+\s*(=|<|>|in\b)"
    r"|^\s*(select|with\s+\S+\s+as|pragma|notify|listen|set\s+(local|session)|values)\b",
    re.IGNORECASE | re.DOTALL,
)
PUT_IN: dict[str, set[str]] = {
    "callers_sqlite.py": {"synchronous"},  # a number that the same PRAGMA has answered
    "callers_database.py": {
        "quote(str(source.absolute()))",
        "type(driver).__module__",
        "type(driver).__qualname__",
        "type(given).__module__",
        "type(given).__qualname__",
    },
    "interface.py": {
        "found",
        "instead",
        "key",
        "kind",
        "ms_max",
        "self.code",
        "sorted(names)",
    },
    "lines.py": {
        "IN_QUEUES.format(t='t.')",
        "line",
        "offered",
        "parameters",
        "parameters['group']",
        "ready",
    },
    "newest_sql.py": {
        "'?' * len(wanted.lanes)",
        "*choice.texts",
        "*stretch.texts",
        "*walk.texts",
        "choice.text",
        "every",
        "join",
        "lane",
        "looked",
        "marks",
        "number",
        "numbers",
        "part",
        "parts",
        "self.texts",
        "where",
        "words.parked",
    },
    "postgres_caller.py": {
        "facts.lock_timeout",  # the database's own setting, quoted by it
        "int(begun.number or 0)",
        "int(begun.tables or 0)",
    },
    "postgres_drivers.py": {
        "statements",  # constants of postgres_caller.py
    },
    "postgres_parts.py": {
        "kind.part",
    },
    "postgres_statements.py": {
        "','.join(map(str, values)).replace('None', 'NULL')",
        "'NULL' if value is None else _quoted(value)",
        "*(f'SET LOCAL {name} = {value}' for name, value in SETTINGS.items())",
        "PARTS[part]",
        "2 * limits.claim_bytes_max",
        "INSIST_ON_SYNC.format(local='true')",
        (
            "BEHIND.format(t='t.', ready=_READY, p='$6::bigint', u='$7::bigint', r='$8::bigint', "
            "c='$9::bigint', i='$10::text')"
        ),
        "IN_QUEUES.format(t='t.')",
        "LINE.format(t='t.')",
        "_TURN",
        "_TURN_OF_ALL",
        "which",
        "WITHIN.format(id='t.id', size='$6::int', prefix='$7::text', edge='$8::int')",
        "_array(name)",
        "_columns(columns)",
        "_columns(rows.PROMISE_COLUMNS, 'p')",
        "_columns(rows.QUEUE_COLUMNS)",
        "_columns(rows.SCHEDULE_COLUMNS)",
        "_columns(rows.TASK_COLUMNS)",
        "_columns(rows.TASK_COLUMNS, 't')",
        "_insert('streams', rows.STREAM_COLUMNS)",
        "_kind(column)",
        "_kind(name)",
        "_source(name, varying)",
        "_unnest(varying)",
        "changing",
        "f'{table}.{name}' if table else name",
        "found",
        "head",
        "index",
        "key",
        "limits.preload_records_max + 1",
        "limits.mended_records_max",
        "limits.replaced_max + 1",
        "map(str, values)",
        "name",
        "part",
        "steps",
        "text.replace(_separator, '\",\"')",
        "value",
        "values",
        "view",
        "view.replace(' FROM ', f', {_RECORD_COLUMNS} FROM ', 1)",
    },
    "sqlite_caller.py": {
        "'' if file is None else file.resolve()",
        "quote(str(file))",
        "quoted",
    },
    "place.py": {
        "file.resolve()",
        "hide_password(self._url)",
    },
    "rows.py": {
        "sha256(value.encode()).hexdigest()",
    },
    "scan_sql.py": {
        "'>' if span.deadline == 'ahead' else '<='",
        "'TRUE' if span.timer else 'NOT TRUE'",
        "[_TREE] * len(roots)",
        "choice",
        "choices",
        "chosen",
        "column",
        "found",
        "held",
        "join",
        "more",
        "name",
        "names",
        "number",
        "part",
        "parts",
        "query.conditions",
        "query.words.outcome",
        "rest",
        "root",
        "self.conditions",
        "table",
        "timer",
        "tree",
        "which",
        "words.offered",
        "words.parked",
    },
    "sqlite_log.py": {
        "path",
    },
    "sqlite_place.py": {"whole.name"},  # of a file
    "sqlite_statements.py": {
        "'?' * n",
        "'?' * len(varying)",
        "'?' * statement.width",
        "BEHIND.format(t='', ready=_READY, p='?4', u='?5', r='?6', c='?7', i='?8')",
        "IN_QUEUES.format(t='')",
        "LINE.format(t='')",
        "[row] * count",
        "_WITHIN * within",
        "_WITHOUT * without",
        "'NULL' if is_null else '?'",
        "_columns(columns)",
        "_columns(rows.PROMISE_COLUMNS, 'p')",
        "_columns(rows.SCHEDULE_COLUMNS)",
        "_columns(rows.TASK_COLUMNS)",
        "_columns(rows.TASK_COLUMNS, 't')",
        "changing",
        "columns[0]",
        "f'{table}.{name}' if table else name",
        "limits.preload_records_max + 1",
        "limits.mended_records_max",
        "limits.replaced_max + 1",
        "name",
        "names.get(place, '?')",
        "number",
        "row",
        "sources",
        "statement.into",
        "statement.tail",
        "table",
        "values",
    },
}
ERRORS = {"CannotOpen", "NotAStore"}  # those that are made in one place and raised in another
EXECUTING = {"execute", "executemany", "executescript", "fetchrow", "fetchval"}


def holes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, list[ast.expr]]]:
    """Each text that is put together, sentences for people left out: where, its words, what is put in."""
    skipped = {id(part) for node in ast.walk(tree) if _tells(node) for part in ast.walk(node)}
    texts = {name for node in ast.walk(tree) for name in _named_text(node)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            words, put_in = _opened(node, texts)
            if put_in:
                yield node, words, put_in


def constants(tree: ast.Module) -> set[str]:
    """Names that hold the same whatever happens: of the module, or of a loop over what is written there."""
    names = {name for node in tree.body for name in _bound(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and _is_written(node.iter):
            names |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
    return names


def is_constant(node: ast.expr, known: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return is_constant(node.left, known) and is_constant(node.right, known)
    if isinstance(node, ast.Attribute):  # of a module: sql.SELECT
        return isinstance(node.value, ast.Name) and node.value.id in known and node.attr.isupper()
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in known)


def is_quoted(node: ast.AST, part: ast.expr) -> bool:
    """Does it stand between quotation marks, as a value would?"""
    if not isinstance(node, ast.JoinedStr):
        return False
    before = [_word(each) or "" for each, after in pairwise(node.values) if _holds(after, part)]
    return any(word.endswith("'") for word in before)


def _holds(node: ast.expr, part: ast.expr) -> bool:
    return isinstance(node, ast.FormattedValue) and node.value is part


def findings(source: str, allowed: set[str]) -> tuple[list[str], set[str]]:
    """What a module of a store puts into texts though it must not; and all that is not constant."""
    tree = ast.parse(source)
    known = constants(tree)
    wrong: list[str] = []
    seen: set[str] = set()
    for node, _, put_in in holes(tree):
        for part in put_in:
            if not is_constant(part, known):
                name = ast.unparse(part)
                seen.add(name)
                if name not in allowed or is_quoted(node, part):
                    wrong.append(f"line {part.lineno}: {name}")
    return wrong, seen


def outside(source: str) -> list[str]:
    """Where a module that is no store puts SQL together, or executes some."""
    tree = ast.parse(source)
    built = [node for node, words, _ in holes(tree) if SQL.search(words)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    run = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in EXECUTING]
    return [f"line {getattr(node, 'lineno', 0)}" for node in [*built, *run]]


def _tells(node: ast.AST) -> bool:
    """Is it a sentence for people: in the log, or of an error?"""
    if isinstance(node, ast.Raise | ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in ERRORS
    return isinstance(node.func, ast.Attribute) and node.func.attr in (
        "debug", "info", "warning", "error", "exception"
    )  # fmt: skip


def _named_text(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign) and _is_text(node.value):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    if isinstance(node, ast.AnnAssign) and node.value is not None and _is_text(node.value):
        yield from [node.target.id] if isinstance(node.target, ast.Name) else []


def _is_text(node: ast.expr, texts: frozenset[str] | set[str] = frozenset()) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return _is_text(node.left, texts) or _is_text(node.right, texts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("format", "join") and _is_text(node.func.value, texts)
    named = isinstance(node, ast.Name) and node.id in texts
    return named or isinstance(node, ast.JoinedStr) or _word(node) is not None


def _word(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _opened(node: ast.AST, texts: set[str]) -> tuple[str, list[ast.expr]]:
    if isinstance(node, ast.JoinedStr):
        put_in = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        words = "".join(_word(part) or " " for part in node.values)
        return words, [part for part in put_in if not _is_text(part)]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        if isinstance(node.target, ast.Name) and node.target.id in texts and not _is_text(node.value):
            return "", [node.value]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod) and _is_text(node, texts):
        sides = [node.left, node.right]
        return " ".join(_word(side) or " " for side in sides), [s for s in sides if not _is_text(s, texts)]
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_text(node, texts | {"_"})
    ):
        given = [*node.args, *(word.value for word in node.keywords)]
        fixed = [_word(node.func.value), *(_word(part) for each in given for part in _parts(each))]
        return " ".join(word or " " for word in fixed), [
            part for each in given for part in _parts(each) if not _is_text(part, texts)
        ]
    return "", []


def _parts(node: ast.expr) -> list[ast.expr]:
    """What a join is given, one by one if it is written there."""
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    return [node.elt] if isinstance(node, ast.GeneratorExp | ast.ListComp) else [node]


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_written(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List) and all(_word(each) is not None for each in node.elts)
