"""Structured logs: one JSON object a line, on standard error.

Whatever is logged beside a message is a field of the line, except for names that payloads, headers and
secrets go by. Of an exception the class and the frames are shown and not its text, which may quote a payload.
Control characters are escaped, so nobody can forge a line or control a terminal with an id.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from holdfast.protocol.text import hide_password, printable_json

# What Python puts on every record.
standard_fields: Final = frozenset(
    (*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message")
)
_denied: Final = re.compile(
    r"auth|authorization|body|cookie|credentials?|data|headers?|param|passw(or)?d|payload|secret|tags|value"
    r"|.*(password|secret|token|_key)s?",
    re.IGNORECASE,
)
field_chars_max: Final = 1_000


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in standard_fields and value is not None and not _denied.fullmatch(name):
                line.setdefault(name, _shown(value))
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _where(record)
        return printable_json(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def _shown(value: object) -> object:
    """Numbers and texts as they are; of what somebody else's code put there, only text."""
    if isinstance(value, bool | int | float):
        return value
    try:
        text = str(value)
        is_url = "://" in text and not text.startswith("poll://")
        return (hide_password(text) if is_url else text)[:field_chars_max]
    except Exception as error:
        return f"<its __str__ raised {type(error).__name__}>"


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
