"""Structured logs: one JSON object a line, on standard error.

What is logged is chosen field by field: never a payload, a header or a token. JSON escapes CR and LF, so
nobody can forge a line with an id.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

known_fields: Final = (
    "kind",
    "requests",
    "group",
    "url",
    "store",
    "code",
    "status",
    "signal",
    "host",
    "count",
)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in known_fields:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _where(record)
        return msgspec.json.encode(line).decode()


def _where(record: logging.LogRecord) -> list[str]:
    """The frames of a failure, without what was in them: an exception's text may quote a payload."""
    frames: list[str] = []
    trace = record.exc_info[2] if record.exc_info else None
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-12:]


def write_logs(level: str, stream: TextIO | None = None) -> None:
    """Send what Holdfast and its HTTP server log to a stream, as JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, least in (("holdfast", level), ("uvicorn", "error")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least.upper())
        logger.propagate = False
