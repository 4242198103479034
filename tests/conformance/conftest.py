"""One suite, every backend: each test gets an empty server whose clock stands still."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.conformance.wire import Backend, Wire, is_array


class OracleBackend:
    """The independent model, behind the same door as the servers."""

    def __init__(self) -> None:
        self._oracle: Any = importlib.import_module("tests.model.oracle").Oracle()

    def handle(self, body: Any) -> Any:
        if is_array(body):
            return [self._oracle.handle(element) for element in body]
        return self._oracle.handle(body)

    def handle_bytes(self, body: bytes) -> bytes:
        raise NotImplementedError("the oracle reads values, not bytes")

    def close(self) -> None:
        pass


def available() -> list[str]:
    names = ["memory", "sqlite"] if importlib.util.find_spec("tests.backends") else []
    return names + (["oracle"] if importlib.util.find_spec("tests.model") else [])


def open_named(name: str) -> Backend:
    if name == "oracle":
        return OracleBackend()
    return cast(Backend, importlib.import_module("tests.backends").open_backend(name))


@pytest.fixture(scope="session", params=available())
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    opened = open_named(cast(str, request.param))
    yield opened
    opened.close()


@pytest.fixture
def wire(backend: Backend) -> Wire:
    client = Wire(backend)
    for kind in ("debug.reset", "debug.start"):
        assert client.send(kind, {}).status == 200
    return client


@pytest.fixture
def bytes_wire(wire: Wire) -> Wire:
    """A wire whose backend reads bytes; the oracle does not."""
    if isinstance(wire.backend, OracleBackend):
        pytest.skip("the oracle reads values, not bytes")
    return wire
