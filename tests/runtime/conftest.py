"""Every scheduler a test opens is taken down after it: no suspended body is left to the garbage collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.runtime import open_schedulers


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    for scheduler in list(open_schedulers):
        scheduler.close()
