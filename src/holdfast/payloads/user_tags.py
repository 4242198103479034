"""Ids, keys and tags that people give to executions, promises and messages."""

from collections.abc import Mapping
from typing import Any, Final, cast

from holdfast.payloads.errors import BadId, BadTags
from holdfast.protocol import limits
from holdfast.protocol.tags import RESERVED_TAGS
from holdfast.protocol.text import check_entries, check_text

RESERVED: Final = RESERVED_TAGS

count_max: Final = 48  # the protocol's own need room too


def check_user_tags(given: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of them, or BadTags that says what is wrong."""
    entries = dict(given or {})
    for key, value in cast(dict[Any, Any], entries).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise BadTags(f"The tag {key!r}: {value!r} is not valid: its name and its value must be strings")
        if key.startswith(RESERVED) or not key:
            raise BadTags(
                f"The tag {key!r} cannot be used: names that begin with {' or '.join(RESERVED)} are reserved"
            )
    if len(entries) > count_max:
        raise BadTags(f"{len(entries)} tags are too many: the limit is {count_max}")
    try:
        check_entries("tags", entries)
    except ValueError as error:
        raise BadTags(f"The tags cannot be stored: {error}") from error
    return entries


def check_id(given: Any) -> str:
    """The id, or BadId that says what is wrong: nothing is asked of the node with it."""
    if not isinstance(given, str):
        is_handle = isinstance(getattr(given, "id", None), str)
        raise BadId(f"The id {given!r} is not a string{': pass its .id' if is_handle else ''}")
    try:
        check_text("it", given)
    except ValueError as error:
        raise BadId(f"The id {given[:40]!r} cannot be used: {error}") from None
    return given


def check_key(given: Any) -> str:
    """The same for the key under which a message is sent once."""
    if not isinstance(given, str):
        raise BadId(f"The key {given!r} is not a string")
    try:
        check_text("it", given, limits.stream_key_bytes_max)
    except ValueError as error:
        raise BadId(f"The key {given[:40]!r} cannot be used: {error}") from None
    return given
