"""What every test has around it."""

import logging
from collections.abc import Iterator

import pytest

from holdfast.store import postgres_connection, sqlite_search
from holdfast.store.postgres_statements import BEGIN_SEARCH

SEARCH_MS = 60_000  # what only a hang exceeds


@pytest.fixture(scope="session", autouse=True)
def searches_take_as_long_as_they_take() -> Iterator[None]:
    """A node ends a search after 50 ms and answers with a shorter page, because everybody waits for it.

    On a busy machine even a search of three records may take longer. Tests of that limit set it themselves.
    """
    begin = BEGIN_SEARCH.rpartition("=")[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_connection, "BEGIN_SEARCH", f"{begin}= {SEARCH_MS}")
        patch.setattr(sqlite_search, "search_ms_max", SEARCH_MS)
        yield


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """A server that a test runs in this process sends the logs elsewhere; the next test wants them back."""
    loggers = [logging.getLogger(name) for name in ("holdfast", "uvicorn")]
    kept = [(logger, [*logger.handlers], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
