"""Background tasks on every store, the clock a variable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from tests.backends import BACKENDS, open_backend
from tests.conformance.wire import Backend
from tests.job_rules.wire import JobWire


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    opened = cast(Backend, open_backend(cast(str, request.param), debug=True))
    yield opened
    opened.close()


@pytest.fixture
def wire(backend: Backend) -> JobWire:
    client = JobWire(backend)
    for kind in ("debug.reset", "debug.start"):
        assert client.send(kind, {}).status == 200
    return client
