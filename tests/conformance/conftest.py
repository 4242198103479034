"""One suite, every backend: each test gets an empty server whose clock stands still."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.conformance.wire import Backend, Wire, is_array

ENVELOPES_MAX = 1_000


def read_json(body: bytes) -> Any:
    """The JSON value in a body, or None, which is no envelope either."""
    try:
        value = json.loads(body.decode())
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


class OracleBackend:
    """The independent model, behind the same door as the servers."""

    def __init__(self, *, debug: bool) -> None:
        self._oracle: Any = importlib.import_module("tests.model.oracle").Oracle(debug=debug)

    def handle(self, body: Any) -> Any:
        if not is_array(body):
            return self._oracle.handle(body)
        if len(body) > ENVELOPES_MAX:
            return self._oracle.handle(None)
        return [self._oracle.handle(element) for element in body]

    def handle_bytes(self, body: bytes) -> bytes:
        return json.dumps(self.handle(read_json(body))).encode()

    def handle_within(self, scope: str, body: Any) -> Any:
        self._oracle.scope = scope
        try:
            return self._oracle.handle(body)
        finally:
            self._oracle.scope = None

    def close(self) -> None:
        pass


def available() -> list[str]:
    names = ["memory", "sqlite", "postgres"] if importlib.util.find_spec("tests.backends") else []
    return names + (["oracle"] if importlib.util.find_spec("tests.model") else [])


def open_named(name: str, *, debug: bool) -> Backend:
    if name == "oracle":
        return OracleBackend(debug=debug)
    return cast(Backend, importlib.import_module("tests.backends").open_backend(name, debug=debug))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bad input is refused before any store is asked, so `make test` leaves out the slowest one."""
    for item in items:
        if item.path.parent.name == "conformance" and item.path.name == "test_bad_input.py":
            callspec = getattr(item, "callspec", None)
            if callspec is not None and callspec.params.get("backend_name") == "postgres":
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=available())
def backend_name(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


@pytest.fixture(scope="session")
def backend(backend_name: str) -> Iterator[Backend]:
    opened = open_named(backend_name, debug=True)
    yield opened
    opened.close()


@pytest.fixture
def wire(backend: Backend) -> Wire:
    client = Wire(backend)
    answers = client.batch(("debug.reset", {}), ("debug.start", {}))
    assert [answer.status for answer in answers] == [200, 200]
    return client


@pytest.fixture
def plain_wire(backend_name: str) -> Iterator[Wire]:
    """A server that is not in debug mode."""
    opened = open_named(backend_name, debug=False)
    yield Wire(opened)
    opened.close()
