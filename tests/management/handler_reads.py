"""What a handler of the management API reads of its call, found in its code and in what it calls.

A name counts where it is asked for: `call.text("queue")`, `call.body.get("value")`, or `span(call, "delay")`
of a helper whose parameter is the name.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

PACKAGE = "holdfast.server.management"
READERS = {"text", "texts", "integer", "page_limit", "seconds", "flag", "field", "text_fields"}


def names_read(function: Callable[..., Any]) -> set[str]:
    """By it and by all functions of the package that it calls."""
    return _found(function, set())


def _found(function: Any, seen: set[Any]) -> set[str]:
    if function in seen:
        return set()
    seen.add(function)
    found: set[str] = set()
    for node in _nodes(function):
        if isinstance(node, ast.Call):
            found |= {text for each in _asked(node) if (text := _text(each)) is not None}
            if isinstance(node.func, ast.Attribute) and _is(node.func, "call", "tags"):
                found.add("tag")
            if (helper := _helper(node, function)) is not None:
                found |= _given(node, helper) | _found(helper, seen)
        elif isinstance(node, ast.Compare) and _is(node.comparators[0], "call", "body"):
            found |= {text for text in [_text(node.left)] if text is not None}  # "value" in call.body
    return found


def _nodes(function: Any) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))


def _asked(node: ast.Call) -> list[ast.expr]:
    """The argument that is the name, if this asks the call for something."""
    asks = isinstance(node.func, ast.Attribute) and (
        (node.func.attr in READERS and _is(node.func.value, "call"))
        or (node.func.attr == "get" and _is(node.func.value, "call", "body"))
    )
    return node.args[:1] if asks else []


def _helper(node: ast.Call, function: Any) -> Any:
    found = function.__globals__.get(node.func.id) if isinstance(node.func, ast.Name) else None
    return found if inspect.isfunction(found) and found.__module__.startswith(PACKAGE) else None


def _given(node: ast.Call, helper: Any) -> set[str]:
    """What is given to the parameters of a helper by which it asks: one name, or several."""
    asked = {each.id for call in _nodes(helper) if isinstance(call, ast.Call) for each in _asked(call)
             if isinstance(each, ast.Name)}  # fmt: skip
    looped = {loop.iter.id for loop in _nodes(helper) if isinstance(loop, ast.For)
              and isinstance(loop.iter, ast.Name) and isinstance(loop.target, ast.Name)
              and loop.target.id in asked}  # fmt: skip
    given = zip(inspect.signature(helper).parameters, node.args, strict=False)
    return {
        part.value
        for name, value in given
        if name in asked | looped
        for part in ast.walk(value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is(node: ast.expr, *path: str) -> bool:
    """Is it this name, or this attribute of it?"""
    return ast.unparse(node) == ".".join(path)
