"""The YAML files, and the workflows that test and release."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.deployment import (
    DEPLOY,
    ROOT,
    documents,
)

YAML_FILES = sorted([*DEPLOY.rglob("*.yaml"), *(ROOT / ".github").rglob("*.yml")])
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_every_yaml_file_can_be_read_and_names_nothing_twice(path: Path) -> None:
    class Strict(yaml.SafeLoader):
        pass

    def mapping(loader: Strict, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len({*keys}), f"{path.name} names a key twice: {keys}"
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    assert [*yaml.load_all(path.read_text("utf-8"), Strict)]


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_is_bounded_asks_for_few_rights_and_runs_targets_that_there_are(name: str) -> None:
    [workflow] = documents(ROOT / ".github" / "workflows" / name)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in MAKE_TARGETS
            for folder in re.findall(r"\btests/\w+", step.get("run", "")):
                assert (ROOT / folder).is_dir()


def test_ci_tries_every_python_that_is_declared() -> None:
    [workflow] = documents(ROOT / ".github" / "workflows" / "ci.yml")
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert workflow["jobs"]["linux"]["strategy"]["matrix"]["python"] == declared


def test_the_readme_says_on_what_it_runs() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    [said] = re.findall(r"^It runs on .*$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert re.findall(r"3\.\d+", said) == re.findall(r"Python :: (3\.\d+)", declared)
    systems = re.findall(r"Operating System :: (?:\w+ :: )?(\w+)", declared)
    assert [name.lower() for name in systems] == ["linux", "macos", "windows"]
    assert re.findall(r"linux|macos|windows", said.lower()) == ["linux", "macos", "windows"]


def test_a_release_is_published_without_a_token_and_signed_for() -> None:
    [workflow] = documents(ROOT / ".github" / "workflows" / "release.yml")
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "password" not in text
    assert "secrets." not in text
    jobs = workflow["jobs"]
    used = {step.get("uses", "").split("@")[0] for job in jobs.values() for step in job["steps"]}
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "pypa/gh-action-pypi-publish"} <= used
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["environment"]["name"] == "pypi"
