"""Finds a piece of code by its syntax and replaces it: this is how a mutant is planted.

A pattern is an expression or statements of Python. Renaming or moving the code that it describes does not
break it:

1. A name of a variable, function or class stands for any name: equal names for equal names, different names
   for different ones. `self` and builtins stand for themselves.
2. Attributes, keywords and constants are meant as they are written. If such a pattern is found nowhere,
   attributes and keywords are taken for names: they may have been renamed.
3. `...` stands for any expression. In a body, arguments or elements it stands for any number of items, and
   `**...` for any number of keywords. The first `...` of the replacement is what the first one of the pattern
   was, and so on.
4. A pattern has exactly one place in its folder. A replacement uses no name that its file does not know: a
   suite that turns red because of a NameError proves nothing.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeGuard

from msgspec import Struct

_builtin_names: Final = frozenset(dir(builtins))
_not_compared: Final = ("ctx", "type_comment", "kind")
_any: Final = ast.Constant(...)

Match = tuple[dict[str, str], list[list[Any]]]  # what the names and the `...` of a pattern stand for


class NoSinglePlace(ValueError):
    """The pattern of a mutant has no place in the sources, or several."""


class Place(Struct):
    """Where a pattern was found: items `start` to `end` of a field of a node."""

    path: Path
    text: str
    field: int  # the number of the field in the file
    start: int
    end: int
    match: Match

    @property
    def line(self) -> int:
        parent, field = _parsed(self.text).fields[self.field]
        return getattr(_items(parent, field)[self.start], "lineno", 0)


class Parsed(Struct, frozen=True):
    """A file: its tree, and the fields of its nodes in which code stands.

    `expressions` are those of a kind: the number of the field, and which of its items it is. `blocks` are the
    numbers of the fields that hold statements.
    """

    tree: ast.Module
    fields: list[tuple[ast.AST, str]]
    expressions: dict[type[ast.AST], list[tuple[int, int]]]
    blocks: list[int]


def parse(text: str) -> Parsed:
    tree = ast.parse(text)
    fields = _fields_of(tree)
    expressions: dict[type[ast.AST], list[tuple[int, int]]] = {}
    blocks: list[int] = []
    for number, (parent, field) in enumerate(fields):
        items = _items(parent, field)
        for index, item in enumerate(items):
            if isinstance(item, ast.expr):
                expressions.setdefault(type(item), []).append((number, index))
        if items and isinstance(items[0], ast.stmt):
            blocks.append(number)
    return Parsed(tree, fields, expressions, blocks)


def _fields_of(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    return [
        (parent, field)
        for parent in ast.walk(tree)
        for field, value in ast.iter_fields(parent)
        if isinstance(value, ast.expr | list)
    ]


_parsed: Final = cache(parse)  # shared: nobody changes what it returns


def planted(old: str, new: str, folder: Path) -> tuple[Path, str]:
    """The file in which `old` stands, and its text with `new` instead."""
    old_pattern, new_pattern = _parse_pair(old, new)
    place = _single(find(old_pattern, folder), old)
    if ast.dump(ast.Module(old_pattern, [])) == ast.dump(ast.Module(new_pattern, [])):
        raise ValueError(f"The replacement changes nothing: {new}")
    _check_names(new_pattern, place)
    return _replaced(place, _build_items(new_pattern, place.match))


def planted_in_text(old: str, new: str, folder: Path) -> tuple[Path, str]:
    """The same for a part of a string constant, such as SQL. It occurs once in all of them."""
    texts = (each for each in _expressions(folder, ast.Constant) if _is_text(each[1]))
    found = [(place, node.value) for place, node in texts if old in node.value]
    place = _single([place for place, text in found for _ in range(text.count(old))], old)
    [(_, text)] = found
    return _replaced(place, [ast.Constant(text.replace(old, new))])


def _replaced(place: Place, replacement: list[Any]) -> tuple[Path, str]:
    tree = ast.parse(place.text)
    parent, field = _fields_of(tree)[place.field]
    if isinstance(getattr(parent, field), list):
        items = _items(parent, field)
        items[place.start : place.end] = replacement
        if not items and field == "body":
            items.append(ast.Pass())
    else:
        [single] = replacement
        setattr(parent, field, single)
    return place.path, ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def find(pattern: Sequence[ast.AST], folder: Path) -> list[Place]:
    exact = [*_find(pattern, folder, renamed_attributes=False)]
    return exact or [*_find(pattern, folder, renamed_attributes=True)]


def _parse_pair(old: str, new: str) -> tuple[list[Any], list[Any]]:
    """Both as expressions if both are; otherwise both as statements."""
    try:
        return [_expression(old)], [_expression(new)]
    except SyntaxError:
        return _statements(old), _statements(new)


def _expression(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text).strip()).body


def _single(places: list[Place], pattern: str) -> Place:
    if len(places) == 1:
        return places[0]
    found = ", ".join(f"{place.path.name}:{place.line}" for place in places) or "nowhere"
    raise NoSinglePlace(f"Expected one place, found {found}. Write the pattern anew:\n{pattern}")


# --- finding -----------------------------------------------------------------------------------------------


def _find(pattern: Sequence[ast.AST], folder: Path, *, renamed_attributes: bool) -> Iterator[Place]:
    matcher = _Matcher(renamed_attributes)
    if isinstance(pattern[0], ast.expr):
        for place, node in _expressions(folder, type(pattern[0])):
            match = matcher.one(pattern[0], node, ({}, []))
            if match is not None:
                place.match = match
                yield place
        return
    for path, text in _texts(folder):
        parsed = _parsed(text)
        for number in parsed.blocks:
            items = _items(*parsed.fields[number])
            for start in range(len(items)):
                match = matcher.sequence([*pattern, _any], items[start:], ({}, []))
                if match is not None:
                    names, gaps = match
                    rest = gaps.pop()
                    yield Place(path, text, number, start, len(items) - len(rest), (names, gaps))


def _expressions(folder: Path, kind: type[ast.AST]) -> Iterator[tuple[Place, Any]]:
    for path, text in _texts(folder):
        parsed = _parsed(text)
        for number, index in parsed.expressions.get(kind, ()):
            node = _items(*parsed.fields[number])[index]
            yield Place(path, text, number, index, index + 1, ({}, [])), node


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, path.read_text("utf-8")


def _items(parent: ast.AST, field: str) -> list[Any]:
    value: Any = getattr(parent, field)
    return value if _is_list(value) else [value]


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Matcher(Struct, frozen=True):
    """Compares a pattern with code. Each method returns the match with what it has learnt, or None."""

    renamed_attributes: bool

    def one(self, wanted: Any, found: Any, match: Match) -> Match | None:
        names, gaps = match
        if _is_any(wanted):
            return (names, [*gaps, [found]]) if isinstance(found, ast.expr) else None
        if type(wanted) is not type(found):
            return None
        if _is_list(wanted):
            return self.sequence(wanted, found, match)
        if not isinstance(wanted, ast.AST):
            return match if wanted == found else None
        for field, value in ast.iter_fields(wanted):
            if field in _not_compared:
                continue
            other = getattr(found, field)
            if isinstance(value, str) and isinstance(other, str) and _is_name(wanted, field):
                learnt = _same_name(value, other, match)
            elif self.renamed_attributes and _is_attribute(wanted, field) and value and other:
                learnt = _same_name(f".{value}", f".{other}", match)
            else:
                learnt = self.one(value, other, match)
            if learnt is None:
                return None
            match = learnt
        return match

    def sequence(self, wanted: Sequence[Any], found: Sequence[Any], match: Match) -> Match | None:
        if not wanted:
            return None if found else match
        if _is_any(wanted[0]):
            for count in range(len(found) + 1):
                names, gaps = match
                learnt = self.sequence(wanted[1:], found[count:], (names, [*gaps, [*found[:count]]]))
                if learnt is not None:
                    return learnt
            return None
        learnt = self.one(wanted[0], found[0], match) if found else None
        return None if learnt is None else self.sequence(wanted[1:], found[1:], learnt)


def _is_name(node: ast.AST, field: str) -> bool:
    match node:
        case ast.Name() | ast.arg():
            return field in ("id", "arg")
        case (
            ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler() | ast.MatchAs()
        ):
            return field == "name"
        case _:
            return False


def _is_attribute(node: ast.AST, field: str) -> bool:
    return (field, type(node)) in (("attr", ast.Attribute), ("arg", ast.keyword))


def _same_name(wanted: str, found: str, match: Match) -> Match | None:
    if wanted == found and (wanted == "self" or wanted in _builtin_names):
        return match
    names, gaps = match
    if wanted not in names:
        is_free = found not in names.values() and not {wanted, found} & (_builtin_names | {"self"})
        return ({**names, wanted: found}, gaps) if is_free else None
    return match if names[wanted] == found else None


def _is_any(node: object) -> bool:
    if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg is None):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


# --- replacing ---------------------------------------------------------------------------------------------


def _check_names(new: list[Any], place: Place) -> None:
    names, _ = place.match
    used = {node.id for each in new for node in ast.walk(each) if isinstance(node, ast.Name)}
    known = {
        name
        for node in ast.walk(_parsed(place.text).tree)
        for name in (getattr(node, "id", None), getattr(node, "name", None), getattr(node, "asname", None))
    }
    unknown = used - {*names} - known - _builtin_names
    if unknown:
        raise ValueError(
            f"{place.path.name} knows no {', '.join(sorted(unknown))}; write the replacement anew"
        )


def _build_items(items: Sequence[Any], match: Match) -> list[Any]:
    """The replacement with the names of the place it goes to. It uses up the `...` of the match in order."""
    built: list[Any] = []
    for item in items:
        if _is_any(item):
            _, gaps = match
            if not gaps:
                raise ValueError("The replacement has more `...` than the pattern")
            built += gaps.pop(0)
        else:
            built.append(_build(item, match))
    return built


def _build(node: Any, match: Match) -> Any:
    if not isinstance(node, ast.AST):
        return node
    names, _ = match
    copy = deepcopy(node)
    for field, value in ast.iter_fields(node):
        if _is_list(value):
            setattr(copy, field, _build_items(value, match))
        elif isinstance(value, ast.AST):
            built = _build_items([value], match)
            if len(built) != 1:
                raise ValueError(f"`...` stands for {len(built)} items, and here for one")
            setattr(copy, field, built[0])
        elif isinstance(value, str) and _is_name(node, field):
            setattr(copy, field, names.get(value, value))
        elif isinstance(value, str) and _is_attribute(node, field):
            setattr(copy, field, names.get(f".{value}", f".{value}").removeprefix("."))
    return copy
