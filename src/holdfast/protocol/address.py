"""Where messages go: `poll://any@group[/id]`, `poll://uni@group/id`, `http://...`, `https://...`.

The group is taken as it is written, case, spaces and all: clients use it raw.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from holdfast.protocol.text import check_text

BULK_GROUP: Final = "holdfast.bulk"  # whose workers are the nodes: they perform bulk operations
READERS_GROUP: Final = "holdfast.readers"  # by which a node hears that promises have settled
NODE_GROUPS: Final = frozenset({BULK_GROUP, READERS_GROUP})


class Poll(Struct, frozen=True):
    """Workers that hold a stream open. `any` prefers `member` when connected; `uni` means only it."""

    group: str
    member: str | None
    unicast: bool


class Push(Struct, frozen=True):
    """An HTTP endpoint that messages are posted to."""

    url: str


Address = Poll | Push


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address:
    """Read an address; ValueError with a sentence when it is none."""
    check_text("address", text)
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "poll":
        return _parse_poll(text, rest)
    if separator and scheme in ("http", "https"):
        host = rest.partition("/")[0].partition("?")[0]
        if host and not any(character.isspace() for character in rest):
            return Push(text)
    raise ValueError(
        f"address {text[:80]!r} is not one of poll://any@group, poll://uni@group/id, http://host, https://host"
    )


def _parse_poll(text: str, rest: str) -> Poll:
    cast, at, where = rest.partition("@")
    group, slash, member = where.partition("/")
    if not at or cast not in ("any", "uni") or not group or "@" in group or (slash and not member):
        raise ValueError(f"address {text[:80]!r} is not of the form poll://any@group or poll://uni@group/id")
    if cast == "uni" and not member:
        raise ValueError(f"address {text[:80]!r} names one worker and lacks its id: poll://uni@group/id")
    return Poll(group, member or None, cast == "uni")


def target_of(group: str) -> str:
    """Where the tasks of a group go: to its workers; a group that is an HTTP URL is itself the address."""
    return group if is_pushed_to(group) else f"poll://any@{group}"


def is_pushed_to(group: str) -> bool:
    return group.startswith(("http://", "https://"))


@lru_cache(maxsize=4096)
def poll_group(text: str) -> str | None:
    """The group of an address that workers poll; None for a pushed one."""
    address = parse_address(text)
    return address.group if isinstance(address, Poll) else None


@lru_cache(maxsize=4096)
def claim_group(text: str) -> str | None:
    """The group any of whose workers may claim a task with this target, if there is one."""
    address = parse_address(text)
    return address.group if isinstance(address, Poll) and not address.unicast else None
