"""The attributes of events: what is stored of them, and what of them can be matched.

An attribute that is a text, a number, true, false or None can be matched, by its JSON. Larger values travel
along, and cannot.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.payloads.errors import BadEvent
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.events import matchable
from holdfast.protocol.records import Value


def check_event_name(name: str) -> str:
    text: Any = name
    if not isinstance(text, str) or not text or len(text.encode()) > limits.event_name_bytes_max:
        raise BadEvent(
            f"{name!r} is not a name for an event: use a string of 1 to {limits.event_name_bytes_max} bytes"
        )
    return name


def encode_event(payloads: Payloads, attributes: Mapping[str, Any]) -> tuple[Value, dict[str, str]]:
    """What is sent: all attributes as one value, and those that can be matched."""
    if len(attributes) > limits.event_attributes_max:
        raise BadEvent(
            f"The event has {len(attributes)} attributes; the limit is {limits.event_attributes_max}"
        )
    match = {name: text for name, value in attributes.items() if (text := matchable(value)) is not None}
    return payloads.encode(dict(attributes)), match


def encode_match(attributes: Mapping[str, Any]) -> dict[str, str]:
    """What a wait compares."""
    if len(attributes) > limits.event_match_max:
        raise BadEvent(f"An event is matched by at most {limits.event_match_max} attributes")
    match: dict[str, str] = {}
    for name, value in attributes.items():
        text = matchable(value)
        if text is None:
            raise BadEvent(
                f"{name}={value!r} cannot be matched: use a string up to 250 bytes, a number, True or False"
            )
        match[name] = text
    return match
