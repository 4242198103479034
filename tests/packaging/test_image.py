"""The Dockerfile: instructions, files, user, health check."""

import ast
import json
import re

from tests.packaging.deployment import (
    DEPLOY,
    ROOT,
    check_server,
)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_dockerfile_has_only_instructions_that_there_are() -> None:
    known = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    found = [word for word, _ in instructions()]
    assert {*found} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert found[0] == "FROM"
    assert found.count("ENTRYPOINT") == found.count("CMD") == found.count("HEALTHCHECK") == 1


def test_the_image_installs_extras_that_there_are_from_files_that_there_are() -> None:
    [install] = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    [extras] = re.findall(r"'\.\[([a-z,]+)\]'", install)
    assert sorted(extras.split(",")) == ["jwt", "postgres", "server"]
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists()
                assert f"!{name}" in allowed


def test_the_image_runs_a_server_as_a_user_without_rights() -> None:
    words = dict(instructions())
    assert words["USER"].isdigit()
    assert int(words["USER"]) != 0
    assert json.loads(words["ENTRYPOINT"]) == ["holdfast"]
    settings = check_server(json.loads(words["CMD"]), {"HOLDFAST_TOKENS": "a-long-token"})
    assert words["EXPOSE"] == str(settings.port)
    assert words["STOPSIGNAL"] == "SIGTERM"


def test_the_health_check_of_the_image_is_a_program_that_asks_a_path_that_is_answered() -> None:
    check = dict(instructions())["HEALTHCHECK"]
    python, flag, program = json.loads(check[check.index("CMD ") + 4 :])
    assert (python, flag) == ("python", "-c")
    ast.parse(program)
    assert "http://127.0.0.1:8001/ready" in program
