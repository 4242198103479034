"""Who changed what through the management API: one document a change, kept for 90 days.

1. That something was asked for is durable before it is done (`asked`); how it went is written afterwards. So
   no change is without a trace, and one that stays `asked` met a crash in between.
2. Payloads (arguments, values, messages) are not written down: they may be private, and large.
3. If it cannot be written, nothing is done.
"""

import asyncio
import logging
import secrets
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.node.documents import Documents
from holdfast.protocol.records import Millis

log = logging.getLogger("holdfast.server")

AUDIT: Final = "audit"
text_chars_max: Final = 200
body_bytes_max: Final = 2_048
PAYLOADS: Final = frozenset({"args", "kwargs", "value", "input", "message", "promiseParam"})


class Entry(Struct, omit_defaults=True):
    """`outcome`: asked, done, refused or failed."""

    at: Millis
    who: str
    method: str
    path: str
    about: str
    target: str = ""
    peer: str = ""
    body: Any = None
    outcome: str = "asked"
    status: int = 0
    code: str = ""
    error: str = ""


class AuditLog:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._number = 0
        self._writing: set[asyncio.Task[None]] = set()

    async def asked(self, entry: Entry) -> str:
        """Durable when this returns. Answers with its id, which grows with time."""
        self._number = (self._number + 1) % 1_000_000  # several in one millisecond stay in order
        entry_id = f"{entry.at:013d}-{self._number:06d}-{secrets.token_hex(4)}"
        await self._documents.put(AUDIT, entry_id, entry, entry.at)
        return entry_id

    def ended(self, entry_id: str, entry: Entry) -> None:
        """Nobody waits for this."""

        async def write() -> None:
            try:
                await self._documents.put(AUDIT, entry_id, entry, entry.at)
            except Exception:
                log.warning("the outcome of a change could not be written to the audit log", exc_info=True)

        task = asyncio.get_running_loop().create_task(write())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)


def shown_body(body: dict[str, Any]) -> Any:
    """What was asked for, without payloads."""
    kept = {name: "..." if name in PAYLOADS else value for name, value in body.items()}
    return kept if len(msgspec.json.encode(kept)) <= body_bytes_max else "..."
