"""Test cases of CPython that drive a loop from outside, rewritten so that they run inside of one.

A case of `test_tasks` makes a loop of its own and calls `loop.run_until_complete(x)`. The code of a workflow
is in its loop already, so there it is `await x`. The source comes with the interpreter, and is rewritten when
it is loaded: calls that drive the loop are awaited, a method that awaits is a coroutine function, and so are
those that have its name in other classes.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from copy import deepcopy
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest


async def run_until_complete(work: Any) -> Any:
    return await asyncio.ensure_future(work)


async def run_briefly(*given: Any) -> None:
    """The loop turns until nothing is ready; so many turns are enough for all cases."""
    for _ in range(10):
        await asyncio.sleep(0)


async def assert_raises(kind: Any, work: Any) -> None:
    with pytest.raises(kind):
        await run_until_complete(work)


# What a call of this name is instead.
driving: dict[str, Any] = {
    "run_until_complete": run_until_complete,
    "run_briefly": run_briefly,
    "_run_loop": run_briefly,
    "advance_time": asyncio.sleep,
    "assert_raises": assert_raises,
}


class _Awaiting(ast.NodeTransformer):
    """Awaits calls of these methods in the body of one function. `found`: there were such."""

    def __init__(self, methods: set[str]) -> None:
        self._methods = methods
        self.found = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return node
        name = node.func.attr
        if name == "assertRaises" and len(node.args) > 1 and _drives(node.args[1]):
            name, node.args = "assert_raises", [node.args[0], *node.args[2:]]
        if name in driving:
            node.func = ast.Name(name, ast.Load())
        elif name not in self._methods:
            return node
        self.found = True
        return ast.Await(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        inner = _Awaiting(self._methods)
        node.body = [inner.visit(each) for each in node.body]
        return node


def _drives(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in driving


def _rewrite(module: ast.Module) -> None:
    kinds = [kind for kind in module.body if isinstance(kind, ast.ClassDef)]
    methods = {each for kind in kinds for each in kind.body if isinstance(each, ast.FunctionDef)}
    names: set[str] = set()
    while True:  # until no other method is found that awaits
        found = {each.name for each in methods if each.name in names or _awaits(each, names)}
        if found == names:
            break
        names = found
    for kind in kinds:
        kind.body = [_rewritten(each, names) for each in kind.body]


def _awaits(method: ast.FunctionDef, names: set[str]) -> bool:
    awaiting = _Awaiting(names)
    for statement in deepcopy(method).body:
        awaiting.visit(statement)
    return awaiting.found and method.name not in driving


def _rewritten(statement: ast.stmt, names: set[str]) -> ast.stmt:
    if not isinstance(statement, ast.FunctionDef) or statement.name not in names:
        return statement
    awaiting = _Awaiting(names)
    statement.body = [awaiting.visit(each) for each in statement.body]
    made = ast.AsyncFunctionDef(**{name: getattr(statement, name) for name in statement._fields})
    return ast.copy_location(made, statement)


def load(name: str) -> ModuleType:
    """A module of CPython's own tests, rewritten. Raises ImportError where they are not installed."""
    original = import_module(f"test.test_asyncio.{name}")
    tree = ast.parse(inspect.getsource(original))
    _rewrite(tree)
    made = ModuleType(f"rewritten.{name}")
    vars(made).update(driving, __package__=original.__package__, __file__=original.__file__)
    exec(compile(ast.fix_missing_locations(tree), str(original.__file__), "exec"), vars(made))
    return made


def prepare(case: Any) -> None:
    """Give a case the loop that runs, in place of those that it would make."""
    loop: Any = asyncio.get_running_loop()

    def find_loop(*given: Any, **more: Any) -> Any:
        return loop

    def make_task(its_loop: Any, work: Any, *given: Any, **more: Any) -> Any:
        return loop.create_task(work)

    def make_future(its_loop: Any) -> Any:
        return loop.create_future()

    case.new_test_loop, case.set_event_loop = find_loop, find_loop
    case.new_task, case.new_future = make_task, make_future
    case.loop = case.one_loop = case.other_loop = loop
