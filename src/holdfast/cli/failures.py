"""What went wrong, for a person or for a program, and the exit code that says so.

Texts of errors quote what others wrote: no control character of theirs reaches the terminal.
"""

import json
import sys
import traceback
from types import TracebackType
from typing import Any, Final

from holdfast.client.errors import InvalidToken, InvalidUrl, Refused
from holdfast.protocol.errors import HoldfastError, Refusal
from holdfast.protocol.text import printable, printable_json

REFUSED: Final = 1
USAGE: Final = 2
NO_ANSWER: Final = 3
UNKNOWN_STORE: Final = "HF2004"  # its class would bring the stores along, which most commands do without
CONFLICTS: Final = ("HF5203", "HF5204", "HF6021")  # an id is taken, the promise is settled already


class AskedInVain(Exception):
    """An execution gave no answer, refused the message, or has no such stream."""


class UsageError(ValueError):
    """The command line asks for something that makes no sense."""


def report(error: Exception, *, as_json: bool) -> int:
    """Write the error to stderr; the exit code. What is a defect of this program is raised again."""
    if isinstance(error, Refused):
        more: dict[str, Any] = {"status": error.status}
        if error.reply_code is not None:
            more["code"] = error.reply_code
        return _write(error.what, more, REFUSED, as_json=as_json)
    if isinstance(error, AskedInVain):
        return _write(str(error), {}, REFUSED, as_json=as_json)
    if isinstance(error, Refusal):
        return _write(str(error), {"status": error.status, "code": error.code}, REFUSED, as_json=as_json)
    if isinstance(error, HoldfastError):
        is_usage = isinstance(error, InvalidUrl | InvalidToken | ValueError) or error.code == UNKNOWN_STORE
        exit_code = USAGE if is_usage else REFUSED if error.code in CONFLICTS else NO_ANSWER
        return _write(str(error), {"code": error.code}, exit_code, as_json=as_json)
    if isinstance(error, ValueError):  # a request that could not be built: the protocol says why
        return _write(str(error), {}, USAGE, as_json=as_json)
    raise error


def show_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write a traceback of this program, or of a module that it imports, to stderr: a `sys.excepthook`."""
    for part in traceback.format_exception(kind, error, trace):
        for line in part.removesuffix("\n").split("\n"):
            sys.stderr.write(f"{printable(line)}\n")


def _write(sentence: str, more: dict[str, Any], exit_code: int, *, as_json: bool) -> int:
    line = (
        printable_json(json.dumps({"error": sentence, **more}))
        if as_json
        else printable(f"error: {sentence}")
    )
    sys.stderr.write(f"{line}\n")
    return exit_code
