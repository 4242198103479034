"""What a caller may touch: everything, or what lies under one prefix.

A prefix `a` covers the id `a` and every id that continues it after a delimiter (`a:1`, `a.b`, `a-b`, `a/b`),
not `admin`. The same rule holds for groups of workers and for everything else that a request names.
"""

from typing import Final

from msgspec import Struct

from holdfast.protocol.address import Poll, parse_address
from holdfast.protocol.ids import delimiters, is_covered
from holdfast.protocol.jobs import queue_of
from holdfast.server.errors import Forbidden

_last: Final = "\U0010ffff"


class Grant(Struct, frozen=True):
    """`prefix` empty: everything."""

    prefix: str = ""

    @property
    def is_admin(self) -> bool:
        return not self.prefix

    def covers(self, name: str) -> bool:
        return not self.prefix or is_covered(name, self.prefix)

    def require(self, what: str, name: str) -> None:
        if not self.covers(name):
            raise Forbidden(f"The {what} {name[:80]!r} is outside what this token covers")

    def require_admin(self, what: str) -> None:
        if not self.is_admin:
            raise Forbidden(f"{what} needs the role admin")

    def require_group(self, group: str) -> None:
        """The group of a queue's workers is covered if the queue is."""
        queue = queue_of(group)
        if queue is None or not self.covers(queue):
            self.require("group", group)

    def require_address(self, address: str) -> None:
        """A worker's group must be covered; only an admin may have messages posted to an HTTP address."""
        if self.is_admin:
            return
        try:
            where = parse_address(address)
        except ValueError:
            raise Forbidden(f"The address {address[:80]!r} cannot be read") from None
        if not isinstance(where, Poll):
            raise Forbidden("Posting messages to an HTTP address needs the role admin")
        self.require_group(where.group)

    def narrow(self, prefix: str) -> str:
        """The prefix to search by, so that little else than what is covered is found."""
        if prefix.startswith(self.prefix):
            return prefix
        if self.prefix.startswith(prefix):
            return self.prefix
        raise Forbidden(f"The prefix {prefix[:80]!r} is outside what this token covers")

    def continue_after(self, cursor: str | None) -> str | None:
        """A cursor that names nothing foreign and skips nothing covered; None when no more is covered."""
        if cursor is None or self.covers(cursor):
            return cursor
        prefix = self.prefix
        if not cursor.startswith(prefix):
            return None
        following = next((mark for mark in delimiters if mark > cursor[len(prefix)]), None)
        return None if following is None else prefix + chr(ord(following) - 1) + _last


ADMIN: Final = Grant()
