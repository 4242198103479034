"""Tells in the log of claims that the node refuses: a token that is not known, a group that is not allowed.

A worker claims again each second, because the token may be put right at any time. A line for each refusal
would hide everything else, so there is one when it starts, one when the refusal becomes another one, one
every ten minutes while it lasts, and one when claims are granted again.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.protocol.replies import Reply
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.worker")

told_again_s: Final = 600.0


class ClaimRefusal(Struct):
    """What the claims for some slots are answered at present."""

    code: str | None
    why: str
    since_s: float
    told_s: float


class RefusedClaims:
    def __init__(self, pid: str, time: Callable[[], float]) -> None:
        self._pid = pid
        self._time = time
        self.by_kind: dict[str, ClaimRefusal] = {}  # by the kind of slots

    def refused(self, kind: str, groups: Sequence[str], reply: Reply) -> None:
        now_s, why = self._time(), str(reply.data)
        known = self.by_kind.get(kind)
        if known is None or (known.code, known.why) != (reply.code, why):
            since_s = now_s if known is None else known.since_s
            known = self.by_kind[kind] = ClaimRefusal(reply.code, why, since_s, now_s)
            self._tell("claims are refused, and are tried again each second: %s", groups, known)
        elif now_s - known.told_s >= told_again_s:
            known.told_s = now_s
            minutes = round((now_s - known.since_s) / 60)
            self._tell(f"claims have been refused for {minutes} minutes: %s", groups, known)

    def granted(self, kind: str) -> None:
        if self.by_kind.pop(kind, None) is not None:
            log.info("claims are granted again", extra={"worker": self._pid})

    def _tell(self, message: str, groups: Sequence[str], refused: ClaimRefusal) -> None:
        fields = {"worker": self._pid, "code": refused.code, "group": ", ".join(map(printable, groups))}
        log.error(message, printable(refused.why), extra=fields)
