"""Fields in log records: with the standard library, structlog and loguru."""

import importlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.ext.logs import LogFields, loguru_fields, structlog_fields

Log = Callable[[str], None]
Found = Callable[[], dict[str, dict[str, Any]]]


def standard() -> tuple[Log, Found]:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.getLogger("shop of the tests")
    logger.setLevel(logging.INFO)
    handler = Keep()
    handler.addFilter(LogFields())
    logger.handlers = [handler]
    return logger.info, lambda: {record.getMessage(): vars(record) for record in records}


def structured() -> tuple[Log, Found]:
    structlog: Any = importlib.import_module("structlog")
    lines: list[str] = []

    class Lines:
        def msg(self, text: str) -> None:
            lines.append(text)

        info = msg

    logger = structlog.wrap_logger(
        Lines(), processors=[structlog_fields, structlog.processors.JSONRenderer()]
    )
    return logger.info, lambda: {event["event"]: event for event in map(json.loads, lines)}


def guru() -> tuple[Log, Found]:
    logger: Any = importlib.import_module("loguru").logger
    records: list[Any] = []
    logger.remove()

    def keep(message: Any) -> None:
        records.append(message.record)

    logger.add(keep, format="{message}")
    logger.configure(patcher=loguru_fields)
    return logger.info, lambda: {record["message"]: record["extra"] for record in records}


@pytest.mark.parametrize("library", [standard, structured, guru])
def test_a_record_inside_a_step_or_task_says_which_one(
    tmp_path: Path, library: Callable[[], tuple[Log, Found]]
) -> None:
    info, found = library()
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    failures = [ValueError("once")]

    def in_thread() -> None:
        if failures:
            raise failures.pop()
        info("in a thread")

    async def on_loop() -> None:
        info("on the loop")

    @app.task
    def mail(to: str) -> None:
        info("in a task")

    @app.workflow
    async def order() -> None:
        await hf.run(in_thread, retry=hf.Retry(attempts=2, delay=0.001))
        await hf.run(on_loop)
        await hf.call(mail, "ada")

    info("outside")
    with app:
        order.with_options(id="o").start().result()

    def fields(message: str) -> dict[str, Any]:
        wanted = ("execution", "workflow", "task", "step", "attempt")
        return {name: value for name, value in found()[message].items() if name in wanted}

    assert fields("outside") == {}
    assert fields("in a thread") == {"execution": "o", "workflow": "order", "step": "o:1", "attempt": 2}
    assert fields("on the loop") == {"execution": "o", "workflow": "order", "step": "o:2", "attempt": 1}
    assert fields("in a task") == {"execution": "o:3", "task": "mail", "attempt": 1}
