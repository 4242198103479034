import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import installation
from tests.interop.programs import SDKS, Program, Sdk
from tests.processes import Server


@pytest.fixture(scope="session", autouse=True)
def _wanted() -> None:
    if not os.environ.get("HOLDFAST_INTEROP"):
        pytest.skip("the official SDKs are tested by `make interop`, which installs them")


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop") / "programs.log"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(
    scope="session",
    params=[pytest.param(sdk, id=sdk.name, marks=pytest.mark.xdist_group(sdk.name)) for sdk in SDKS],
)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    chosen: Sdk = request.param
    if reason := installation.missing(chosen.language):
        pytest.skip(reason)
    return chosen


@pytest.fixture(scope="session")
def caller(sdk: Sdk, server: Server, log: Path) -> Iterator[Program]:
    """The program that a test talks to."""
    with Program(sdk, server.url, f"{sdk.name}-callers", log) as program:
        yield program


@pytest.fixture(scope="session")
def worker(sdk: Sdk, server: Server, log: Path) -> Iterator[Program]:
    """Another process of another group, which the first one calls."""
    with Program(sdk, server.url, f"{sdk.name}-workers", log) as program:
        yield program
