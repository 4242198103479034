"""What every test has around it."""

import logging
from collections.abc import Iterator

import pytest


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
