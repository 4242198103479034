"""The layout is the architecture: each layer imports only from those above it in the list."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"

# What each layer may import from. `runtime` knows nothing of promises; everything else hangs on `protocol`.
BELOW = ("protocol", "runtime", "client")
_INNER: dict[str, set[str]] = {
    "protocol": set(),
    "engine": {"protocol"},
    "store": {"protocol", "engine"},
    "node": {"protocol", "engine", "store"},
    "console": set(),  # pages; no code of ours in Python
    "server": {"protocol", "engine", "store", "node", "console"},
    "runtime": set(),
    "client": {"protocol", "engine", "store", "node"},
    "payloads": {*BELOW},
    "steps": {*BELOW, "payloads"},
    "workflow": {*BELOW, "payloads", "steps"},
    "jobs": {*BELOW, "payloads", "steps", "workflow"},
    "host": {*BELOW, "engine", "store", "node", "server", "payloads", "steps", "workflow", "jobs"},
}
USERS = {"app", *_INNER}
LAYERS = _INNER | {"ext": USERS, "testing": USERS, "cli": {*USERS, "testing", "ext"}}
PURE = ("protocol", "engine", "runtime")
IMPURE_MODULES = {
    "asyncio",
    "socket",
    "threading",
    "sqlite3",
    "time",
    "subprocess",
    "os",
    "random",
    "selectors",
}


def modules(layer: str) -> list[Path]:
    return sorted((SOURCE / layer).rglob("*.py"))


@cache
def imports(path: Path) -> list[str]:
    return [*_imports(path)]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""


PRESENT = [layer for layer in LAYERS if (SOURCE / layer).is_dir()]


@pytest.mark.parametrize("layer", PRESENT)
def test_a_layer_imports_only_from_those_above_it(layer: str) -> None:
    allowed = LAYERS[layer] | {layer}
    for path in modules(layer):
        for name in imports(path):
            package, _, rest = name.partition(".")
            if package == "holdfast" and rest:
                assert rest.split(".")[0] in allowed, f"{path.relative_to(SOURCE)} imports {name}"


@pytest.mark.parametrize("layer", PURE)
def test_a_pure_layer_touches_no_clock_no_thread_and_no_file(layer: str) -> None:
    # The current fiber is kept per thread, which is all that the runtime may know of threads.
    allowed = {"src/holdfast/runtime/slot.py": {"threading"}}
    for path in modules(layer):
        used = {name.partition(".")[0] for name in imports(path)} & IMPURE_MODULES
        relative = path.relative_to(SOURCE.parent.parent).as_posix()
        assert used <= allowed.get(relative, set()), f"{relative} imports {used}"


def test_no_two_packages_import_each_other_not_even_by_a_detour() -> None:
    """Whatever the table above allows: the imports themselves have an order."""
    above = {
        layer: {
            name.split(".")[1]
            for path in modules(layer)
            for name in imports(path)
            if name.startswith("holdfast.")
        }
        - {layer}
        for layer in PRESENT
    }
    for graph in (above, LAYERS):
        order = [*TopologicalSorter(graph).static_order()]  # raises CycleError, which names the packages
        assert order.index("protocol") < order.index("engine") < order.index("host")


def test_every_folder_of_the_package_is_a_known_layer() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= LAYERS.keys()
