"""Every dependency is pinned with its hash, and the list of what is shipped is whole."""

import json
import re
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement

from tests.processes import environment
from tests.supply_chain import ROOT, document, normal, read_lock, shipped

# Extras that only name the releases of a library for which an adapter is written. They are not in the lock.
CHOSEN = {"langgraph", "mcp", "openai-agents", "pydantic-ai"}


def test_every_pin_has_a_hash() -> None:
    pins = read_lock()
    assert len(pins) > 20
    assert [name for name, pin in pins.items() if not pin.hashes] == []


def test_everything_that_is_shipped_is_pinned_and_listed() -> None:
    listed = {component["name"] for component in document()["components"]}
    assert listed == {*shipped()} - {"holdfast"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name: texts for name, texts in project["optional-dependencies"].items() if name not in CHOSEN}
    groups = [project["dependencies"], *extras.values()]
    declared = {normal(re.split(r"[\[<>=!~;]", text)[0]) for group in groups for text in group}
    assert declared <= listed


def test_a_library_that_an_application_has_chosen_is_pinned_where_it_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = read_lock(ROOT / "tests" / "integrations" / "requirements.txt")
    for extra in CHOSEN:
        [text] = project["optional-dependencies"][extra]
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[normal(requirement.name)].version), extra


def test_the_page_on_dependencies_names_every_direct_one() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    for name in shipped()["holdfast"]:
        assert name in page, name


def test_the_same_lock_gives_the_same_document() -> None:
    """Whatever the hashes are: two builds can be compared."""

    def printed(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.supply_chain"]
        env = environment({"PYTHONHASHSEED": hash_seed})
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    first = printed("1")
    assert json.loads(first) == document()
    assert printed("2") == first


def test_an_application_chooses_the_versions_itself_and_gets_uvloop_where_there_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        bounds = [each.version for each in requirement.specifier if each.operator.startswith("<")]
        assert all(re.fullmatch("[0-9]+", bound) for bound in bounds), f"{requirement}: whole versions only"
        if requirement.name == "uvloop":
            assert requirement.marker is not None
            found = {
                system: requirement.marker.evaluate({"sys_platform": system}) for system in ("linux", "win32")
            }
            assert found == {"linux": True, "win32": False}
