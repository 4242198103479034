"""House style, checked by machine."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from holdfast.protocol import tags
from tests.sources import SOURCES, text_of, tree_of

ROOT = Path(__file__).parent.parent
LINES_MAX = 470
_PREFIXES = ("resonate:", "holdfast:")
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
# Each of them was the name of something once, and said nothing to whoever looked for it.
METAPHORS = re.compile(
    "pen|surroundings|news|desk|home|steering|wish|conclusion|verdict|wordless|misfit|outsiders?|guest|lent|lend"
    "|borrow|manner|sole|mind|hands|heart|errand|unawaited|heed|performers?"
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.splitlines()] if listed.returncode == 0 else SOURCES


def test_a_module_says_what_it_owns_and_is_one_idea_long() -> None:
    for path in SOURCES:
        text = text_of(path)
        if text.strip():
            assert ast.get_docstring(tree_of(path)), f"{path}: a module opens with a docstring"
        assert text.count("\n") <= LINES_MAX, f"{path}: look for the second idea in this file"


def test_no_module_has_a_vague_name() -> None:
    assert not [path for path in SOURCES if path.stem in VAGUE]


def test_no_name_is_a_metaphor() -> None:
    """Names are what a reader would look for: docs/architecture.md has the words."""
    for path in SOURCES:
        names = {path.stem} | {
            str(getattr(node, field))
            for node in ast.walk(tree_of(path))
            for field in ("name", "id", "attr", "arg")
            if isinstance(getattr(node, field, None), str)
        }
        words = {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
        assert not [word for word in words if METAPHORS.fullmatch(word)], path


def test_a_class_has_a_name_of_its_own() -> None:
    """A reader who looks for a name finds one thing. What a library wants called so may be called so."""
    names = Counter(
        node.name
        for path in SOURCES
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    doubled = {name for name, count in names.items() if count > 1}
    assert doubled <= {"BulkProgress", "Execution"}, doubled  # stored and shown; Django's model


def test_requests_are_built_in_one_place() -> None:
    """With `ask`. What is read from the wire, the engine's own sweep, and what a node asks itself in a bulk
    operation, are nothing that a client asks."""
    allowed = {"client/caller.py", "protocol/wire.py", "engine/sweep.py", "node/bulk.py"}
    found = {
        path.relative_to(ROOT / "src/holdfast").as_posix()
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Request"
    }
    assert found == allowed


def test_the_name_of_a_tag_is_spelled_in_one_place() -> None:
    names = {name for name in vars(tags).values() if isinstance(name, str) and name.startswith(_PREFIXES)}
    assert len(names) > 10
    found = [
        (path.name, node.value)
        for path in SOURCES
        if path.name != "tags.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]
    assert not found


def test_a_seed_has_one_name_and_is_chosen_in_one_place() -> None:
    asks = re.compile(r"""environ(\.get\(|\[)\s*["'](HOLDFAST_)?(\w+_)?(SEED|COUNT)["']""")
    found = [
        path.name for path in sorted((ROOT / "tests").rglob("*.py")) if asks.search(path.read_text("utf-8"))
    ]
    assert found == ["seeds.py"]


def test_no_path_of_a_development_machine_is_committed() -> None:
    private = re.compile(rb"/(root|home|work)/[a-z.]")
    for path in tracked():
        if (
            path.suffix in {".py", ".md", ".toml", ".sql", ".yml", ".yaml", ".in", ".lock", ".sh", ""}
            and path.is_file()
        ):
            assert not private.search(path.read_bytes()), path
