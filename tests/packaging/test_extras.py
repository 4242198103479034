"""Everything but a server does without the packages of the extras; what is missing is named."""

import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import holdfast
from tests.processes import Outcome, environment

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
IMPORTED_AS = {"pyjwt": ["jwt", "cryptography"]}
EXTRAS = {
    extra: [module for package in packages for module in IMPORTED_AS.get(package, [package])]
    for extra, packages in (
        (extra, [Requirement(text).name for text in texts])
        for extra, texts in PROJECT["optional-dependencies"].items()
    )
}
CHOSEN = {"langgraph", "mcp", "openai-agents", "pydantic-ai"}  # libraries of the application, not ours
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Missing())
"""
CONSOLE = "from holdfast.cli import main\nsys.exit(main())"


def without(extras: list[str], program: str, *words: str, cwd: Path | None = None) -> Outcome:
    """Run a program where the packages of these extras are not installed."""
    missing = [package for extra in extras for package in EXTRAS[extra]]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing) + program, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        cwd=cwd,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_the_extras_are_those_of_the_documents() -> None:
    assert sorted({*EXTRAS} - CHOSEN) == ["jwt", "otel", "postgres", "sentry", "server"]
    assert {*EXTRAS} > CHOSEN
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    for extra in EXTRAS:
        assert f"extra `{extra}`" in page


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_server_says_which_extra_it_needs(command: str, tmp_path: Path) -> None:
    refused = without(["server"], CONSOLE, command, cwd=tmp_path)
    assert refused.code == 2
    sentence = "A server needs uvicorn, which is not installed. Run: pip install 'holdfast[server]' [HF3204]"
    assert refused.err == f"error: {sentence}\n"


def test_a_server_explains_its_settings_without_the_extra() -> None:
    shown = without(["server"], CONSOLE, "serve", "--help")
    assert shown.code == 0
    assert "--body-bytes-max" in shown.out


def test_postgresql_and_jwt_say_which_extra_they_need(tmp_path: Path) -> None:
    refused = without(["postgres"], CONSOLE, "tree", "x", "-S", "postgresql://127.0.0.1/x", cwd=tmp_path)
    assert (refused.code, "holdfast[postgres]" in refused.err, "HF2007" in refused.err) == (3, True, True)
    flags = ("--store", "memory:", "--port", "0", "--jwt-key", "key.pem")
    refused = without(["jwt"], CONSOLE, "serve", *flags, cwd=tmp_path)
    assert (refused.code, "holdfast[jwt]" in refused.err, "HF3204" in refused.err) == (2, True, True)


def test_a_defect_of_an_import_is_not_taken_for_a_missing_extra(tmp_path: Path) -> None:
    program = "sys.modules['holdfast.server.connection'] = None\n"
    failed = without([], program + CONSOLE, "serve", cwd=tmp_path)
    assert failed.code == 1
    assert "HF3204" not in failed.err
    assert "holdfast.server.connection" in failed.err


def test_only_the_server_and_the_drivers_need_an_extra() -> None:
    """Every other module can be imported; whoever adds an import finds out here."""
    own = {
        found.name
        for found in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
        if not found.name.endswith("__main__")
    }
    program = f"""
import importlib, json
from holdfast.ext.optional import MissingLibrary
needy = []
for name in {sorted(own)!r}:
    try:
        importlib.import_module(name)
    except MissingLibrary:
        assert name.startswith("holdfast.ext."), name
    except ModuleNotFoundError as error:
        needy.append(name)
print(json.dumps(needy))
"""
    done = without([*EXTRAS], program)
    needy = {
        f"holdfast.server.{name}"
        for name in ("connection", "exchange", "node_process", "serving", "supervisor")
    }
    assert {*json.loads(done.out)} == needy, done.err


APP = """
import holdfast as hf
app = hf.App("sqlite:///holdfast.db")

@app.workflow
async def double(number: int) -> int:
    return await hf.run(pow, number, 1, name="pow") * 2

@app.task
def triple(number: int) -> int:
    return 3 * number

print(double.start(4).result(30), triple.send(4).get(30).ok_value)
"""


def test_an_embedded_app_needs_no_extra(tmp_path: Path) -> None:
    done = without([*EXTRAS], APP, cwd=tmp_path)
    assert done.out == "8 12\n", done.err


def test_the_demo_needs_no_extra(tmp_path: Path) -> None:
    done = without([*EXTRAS], CONSOLE, "demo", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "✓ order-17 (order)" in done.out
