import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.cli import main
from tests.processes import Outcome, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def run(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """The console in this process, which is faster than one of its own, talking to a real server."""
    monkeypatch.setenv("HOLDFAST_URL", server.url)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)

    def command(*words: str) -> Outcome:
        try:
            code = main(words)
        except SystemExit as left:  # argparse leaves by itself
            code = left.code if isinstance(left.code, int) else 1
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return command


@pytest.fixture
def data(run: Callable[..., Outcome]) -> Callable[..., Any]:
    """The same with --json, read."""

    def command(*words: str) -> Any:
        outcome = run(*words, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    return command
