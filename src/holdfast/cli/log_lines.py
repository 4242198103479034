"""What a worker logs, as lines for people, on standard error.

Messages and tracebacks quote what others wrote (ids, arguments, error texts). Control characters are shown as
their codes, and a line of a traceback is indented: nobody can forge a line of the log.
"""

import logging
import sys
from copy import copy
from typing import Any, Final

from holdfast.protocol.text import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


class PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """On a copy: a traceback that comes as text is indented like one that is formatted here."""
        shown = copy(record)
        if shown.exc_text:
            shown.exc_text = _indented(shown.exc_text)
        return super().format(shown)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging calls it so
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))


def write_lines(level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainLines(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
