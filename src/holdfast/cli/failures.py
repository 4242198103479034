"""What went wrong, for a person or for a program, and the exit code that says so."""

import json
import sys
from typing import Any, Final

from holdfast.client.errors import InvalidToken, InvalidUrl, Refused
from holdfast.protocol.errors import HoldfastError

REFUSED: Final = 1
USAGE: Final = 2
NO_ANSWER: Final = 3
UNKNOWN_STORE: Final = "HF2004"  # its class would bring the stores along, which most commands do without


class UsageError(ValueError):
    """The command line asks for something that makes no sense."""


def report(error: Exception, *, as_json: bool) -> int:
    """Write the error to stderr; the exit code. What is a defect of this program is raised again."""
    if isinstance(error, Refused):
        return _write(error.what, {"status": error.status}, REFUSED, as_json=as_json)
    if isinstance(error, HoldfastError):
        is_usage = isinstance(error, InvalidUrl | InvalidToken | ValueError) or error.code == UNKNOWN_STORE
        exit_code = USAGE if is_usage else NO_ANSWER
        return _write(str(error), {"code": error.code}, exit_code, as_json=as_json)
    if isinstance(error, ValueError):  # a request that could not be built: the protocol says why
        return _write(str(error), {}, USAGE, as_json=as_json)
    raise error


def _write(sentence: str, more: dict[str, Any], exit_code: int, *, as_json: bool) -> int:
    sys.stderr.write(json.dumps({"error": sentence, **more}) if as_json else f"error: {sentence}")
    sys.stderr.write("\n")
    return exit_code
