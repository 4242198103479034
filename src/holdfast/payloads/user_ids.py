"""Ids that people give to executions and promises."""

from typing import Any

from holdfast.payloads.errors import BadId
from holdfast.protocol.text import check_text


def check_id(given: Any) -> str:
    """The id, or BadId that says what is wrong: nothing is asked of the node with it."""
    if not isinstance(given, str):
        raise BadId(f"The id {given!r} is not a text")
    try:
        check_text("it", given)
    except ValueError as error:
        raise BadId(f"The id {given[:40]!r} cannot be used: {error}") from None
    return given
