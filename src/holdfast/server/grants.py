"""What a caller may access: everything, or what lies under one prefix; and whether it may change that.

A prefix `a` covers the id `a` and every id that continues it after a delimiter (`a:1`, `a.b`, `a-b`, `a/b`),
not `admin`. The same rule holds for groups of workers and for everything else that a request names.
"""

from typing import Final

from msgspec import Struct

from holdfast.protocol.address import NODE_GROUPS, Poll, parse_address
from holdfast.protocol.ids import delimiters, edge_of, is_covered
from holdfast.protocol.jobs import queue_of
from holdfast.server.errors import Forbidden, ReadOnly


class Grant(Struct, frozen=True):
    """`prefix` empty: everything. `read_only`: it may look, and change nothing. `name`: for the audit log."""

    prefix: str = ""
    read_only: bool = False
    name: str = ""

    @property
    def is_admin(self) -> bool:
        return not self.prefix

    def covers(self, name: str) -> bool:
        return not self.prefix or is_covered(name, self.prefix)

    def require(self, what: str, name: str) -> None:
        if not self.covers(name):
            raise Forbidden(f"The {what} {name[:80]!r} is outside what this token covers")

    def require_change(self, what: str) -> None:
        if self.read_only:
            raise ReadOnly(f"{what} needs a token that may change things")

    def require_admin(self, what: str) -> None:
        if not self.is_admin:
            raise Forbidden(f"{what} needs the role admin")

    def require_group(self, group: str) -> None:
        """The group of a queue's workers is covered if the queue is, and only then: `queue` covers no queue
        but those of that name. The groups of nodes are an admin's, whatever the prefix is called: what is
        sent there is done for everybody."""
        if group in NODE_GROUPS:
            self.require_admin(f"The group {group[:80]!r}")
        queue = queue_of(group)
        if queue is None:
            self.require("group", group)
        else:
            self.require("queue", queue)

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

    def require_prefix(self, prefix: str) -> None:
        """Searches are answered with what is covered of what they ask for. Is there any overlap at all?"""
        if not (prefix.startswith(self.prefix) or self.prefix.startswith(prefix)):
            raise Forbidden(f"The prefix {prefix[:80]!r} is outside what this token covers")

    def require_template(self, what: str, template: str, head: str) -> None:
        """Whatever comes after `head`, the whole is covered only if the head has passed the delimiter."""
        if not (self.covers(head) and len(head) > edge_of(self.prefix)):
            raise Forbidden(
                f"The {what} {template[:80]!r} may become an id outside what this token covers. "
                f"Let it begin with {self.prefix[:80]!r} and a delimiter ({' '.join(delimiters)})"
            )


ADMIN: Final = Grant()
