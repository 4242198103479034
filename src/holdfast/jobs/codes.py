"""The error codes that Holdfast itself gives to tasks. All of them are reserved.

They are strings, so `error.error_code == "TASK_EXPIRED"` holds; a code of your own is any other text in
capitals with underscores. `retry_for` of a policy may name both kinds.
"""

import re
from enum import StrEnum
from typing import Final

from holdfast.jobs.errors import BadCode


class OperationalCode(StrEnum):
    """The function, or the process that ran it, did not end well."""

    UNHANDLED_EXCEPTION = "UNHANDLED_EXCEPTION"
    TASK_EXCEPTION = "TASK_EXCEPTION"
    TIME_LIMIT_EXCEEDED = "TIME_LIMIT_EXCEEDED"
    WORKER_CRASHED = "WORKER_CRASHED"
    WORKER_RESOLUTION_ERROR = "WORKER_RESOLUTION_ERROR"
    WORKER_SERIALIZATION_ERROR = "WORKER_SERIALIZATION_ERROR"
    RESULT_DESERIALIZATION_ERROR = "RESULT_DESERIALIZATION_ERROR"
    BROKER_ERROR = "BROKER_ERROR"  # reserved; nothing gives it


class ContractCode(StrEnum):
    """What was stored, or returned, is not what the annotations promise."""

    RETURN_TYPE_MISMATCH = "RETURN_TYPE_MISMATCH"
    ARGUMENT_TYPE_MISMATCH = "ARGUMENT_TYPE_MISMATCH"


class RetrievalCode(StrEnum):
    """Nothing is wrong with the task: its result could not be had (yet)."""

    WAIT_TIMEOUT = "WAIT_TIMEOUT"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    RESULT_NOT_AVAILABLE = "RESULT_NOT_AVAILABLE"
    RESULT_NOT_READY = "RESULT_NOT_READY"  # of a promise that is pending; handles say WAIT_TIMEOUT


class OutcomeCode(StrEnum):
    """How a task ended without a result of its function."""

    TASK_CANCELLED = "TASK_CANCELLED"
    TASK_EXPIRED = "TASK_EXPIRED"
    TASK_TIMED_OUT = "TASK_TIMED_OUT"


class SendCode(StrEnum):
    """Why a task was not sent."""

    VALIDATION_FAILED = "VALIDATION_FAILED"
    ENQUEUE_FAILED = "ENQUEUE_FAILED"
    PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"
    KEY_TAKEN = "KEY_TAKEN"


ReservedCode = OperationalCode | ContractCode | RetrievalCode | OutcomeCode | SendCode

RESERVED: Final[dict[str, ReservedCode]] = {
    code.value: code
    for family in (OperationalCode, ContractCode, RetrievalCode, OutcomeCode, SendCode)
    for code in family
}
code_chars_max: Final = 100
_shape: Final = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)


def check_code(code: str, *, own: bool = False) -> str:
    """The code, if it is well formed; `own` refuses a plain text that is reserved."""
    if not isinstance(code, str) or not _shape.fullmatch(code) or len(code) > code_chars_max:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadCode(f"{code!r} is not an error code")
    if own and type(code) is str and code in RESERVED:
        raise BadCode(f"{code} is reserved for Holdfast")
    return code


def as_code(text: str) -> str:
    """A code as it was stored: one of the reserved, or a code of the user's."""
    return RESERVED.get(text, text)
