"""Signatures and docstrings of public names, read from the sources: what a reader of the code would see.

From the sources and not from live objects, so that annotations read as they were written, on every Python.
"""

import ast
import inspect
import re
import textwrap
from typing import Any, Final

_width: Final = 100


def source_of(found: Any) -> ast.AST | None:
    try:
        text = textwrap.dedent(inspect.getsource(inspect.unwrap(found)))
    except (OSError, TypeError):
        return None
    return ast.parse(text).body[0]


def signature(found: Any, name: str, *, method: bool = False) -> str | None:
    """`name(a: int, *, b: str = "x") -> bool`, over several lines if it is long."""
    node = source_of(found)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return written(node, name, method=method)


def written(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, method: bool) -> str:
    given = node.args
    parts: list[str] = []
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for place, (argument, default) in enumerate(zip(plain, defaults, strict=True)):
        if method and place == 0 and argument.arg in ("self", "cls"):
            continue
        parts.append(_one(argument, default))
        if given.posonlyargs and place == len(given.posonlyargs) - 1 and len(plain) > place:
            parts.append("/")
    if given.vararg:
        parts.append("*" + _one(given.vararg, None))
    elif given.kwonlyargs:
        parts.append("*")
    parts += [_one(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        parts.append("**" + _one(given.kwarg, None))
    if parts and parts[0] == "/":
        parts.pop(0)
    result = f" -> {_text(node.returns)}" if node.returns else ""
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{start}{name}({', '.join(parts)}){result}"
    if len(line) <= _width:
        return line
    return f"{start}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _one(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_text(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return argument.arg + kind
    return f"{argument.arg}{kind}{' = ' if kind else '='}{_text(default)}"


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
        try:  # an annotation in quotes
            ast.parse(node.value, mode="eval")
            return node.value if "[" in node.value or node.value[:1].isupper() else repr(node.value)
        except SyntaxError:
            return repr(node.value)
    return ast.unparse(node) if node else ""


def fields(found: type) -> list[str]:
    """The annotated fields of a record, as they stand in its class."""
    node = source_of(found)
    if not isinstance(node, ast.ClassDef):
        return []
    return [
        ast.unparse(line)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and not line.target.id.startswith("_")
    ]


def members(found: type) -> dict[str, Any]:
    """Public methods and properties, also those of our own classes above it, in the order of the sources.

    Not those that a class of another library has too, without a word of our own: they say nothing new."""
    known: dict[str, Any] = {}
    others = [cls for cls in found.__mro__ if not cls.__module__.startswith("holdfast")]
    for cls in found.__mro__:
        if cls in others:
            continue
        for name, value in vars(cls).items():
            if name.startswith("_") or name in known:
                continue
            if not value.__doc__ and any(name in vars(other) for other in others):
                continue
            if isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value):
                known[name] = value
    return known


def document(found: Any) -> str:
    """The docstring, with what is code in it in blocks of code, and options as a list."""
    lines: list[str] = []
    inside = False
    for paragraph in _own_docstring(found).split("\n\n"):
        code = _is_code(paragraph)
        if inside and not code:
            lines += ["```"]
        lines += [""] if lines else []
        if code and not inside:
            lines += ["```text"]
        inside = code
        lines += textwrap.dedent(paragraph).splitlines() if code else _options_listed(paragraph)
    if inside:
        lines += ["```"]
    return "\n".join(lines).strip()


def _own_docstring(found: Any) -> str:
    """What it says itself. A method that overrides one of another library does not speak with its words."""
    text: Any = getattr(found, "__func__", found).__doc__
    return inspect.cleandoc(text) if isinstance(text, str) else ""


_option: Final = re.compile(r"(?:^|(?<=\. ))(?=`\w+`(?:, `\w+`)*: )")


def _options_listed(paragraph: str) -> list[str]:
    """A paragraph that explains two options or more, each as "`name`: what it does.", becomes a list."""
    parts = [part.strip() for part in _option.split(" ".join(paragraph.split())) if part]
    lead = parts[:1] if parts and not _option.match(parts[0]) else []
    options = parts[len(lead) :]
    if len(options) < 2:
        return paragraph.splitlines()
    return [*(line for text in lead for line in (text, "")), *(f"- {option}" for option in options)]


def _is_code(paragraph: str) -> bool:
    """Indented, an example with `>>>`, or something that Python can read."""
    if paragraph.startswith(("    ", ">>>")):
        return True
    try:
        ast.parse(paragraph)
    except SyntaxError:
        return False
    return "(" in paragraph
