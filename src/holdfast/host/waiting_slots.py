"""The claims of a host that wait at the node of its process: see `node/waiting_claims.py`.

1. The slots of a claim are taken from when the node asks for it until the node says what became of it.
2. What it is granted is accepted like what any other claim is granted; and if its fate is unknown, that is
   looked up like that of any other.
3. The node calls from wherever a commit ended, for whoever began that. What is run for the grant sees nothing
   of his context variables.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context

from holdfast.client.caller import ask
from holdfast.client.interface import KeepsClaims
from holdfast.host.slots import ClaimIntent, SlotGroup
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

Compose = Callable[[SlotGroup], ClaimIntent | None]
Claimed = Callable[[SlotGroup, ClaimIntent, float, Reply | None], None]


class WaitingSlots:
    """The claim of one slot group."""

    def __init__(self, slots: SlotGroup, pid: str, all_of: "WaitingHost") -> None:
        self.pid = pid
        self._slots = slots
        self._all = all_of
        self._lease_ends_s = 0.0
        self._request: Request | None = None
        self._intent: ClaimIntent | None = None  # of the request that was made last
        self._context = copy_context()
        self._is_under_way = False

    @property
    def groups(self) -> Sequence[str]:
        return self._slots.groups

    def claim(self) -> Request | None:
        if self._is_under_way:
            return None
        intent = self._all.compose(self._slots)
        if intent is None:
            return None
        if intent is not self._intent or self._request is None:
            self._intent, self._request = intent, ask(intent.claim)
        self._is_under_way = True
        self._all.began()
        self._lease_ends_s = self._all.lease_end_s()  # the lease begins later, with the commit
        return self._request

    def answered(self, reply: Reply | None) -> None:
        assert self._intent is not None
        self._is_under_way = False
        self._request = None  # the next claim is another one
        try:
            self._context.run(self._all.claimed, self._slots, self._intent, self._lease_ends_s, reply)
        finally:
            self._context.run(self._all.ended, self._slots)

    def returned(self) -> None:
        assert self._intent is not None
        self._is_under_way = False
        self._slots.hand_back(self._intent)
        self._context.run(self._all.ended, self._slots)


class WaitingHost:
    """All of them."""

    def __init__(
        self,
        pid: str,
        compose: Compose,
        claimed: Claimed,
        lease_end_s: Callable[[], float],
        nudge: Callable[[], None],
    ) -> None:
        self.compose = compose
        self.claimed = claimed
        self.lease_end_s = lease_end_s
        self._pid = pid
        self._nudge = nudge
        self._left: dict[SlotGroup, Callable[[], None]] = {}  # and how to withdraw
        self._under_way = 0
        self._none_under_way = asyncio.Event()
        self._none_under_way.set()

    def leave(self, client: KeepsClaims, slots: SlotGroup) -> None:
        if slots not in self._left:
            self._left[slots] = client.leave_claim(WaitingSlots(slots, self._pid, self))

    def withdraw(self) -> None:
        """Nothing more is asked for. What is under way is answered."""
        for withdraw in self._left.values():
            withdraw()

    async def until_answered(self) -> None:
        """Until none is under way."""
        await self._none_under_way.wait()

    def began(self) -> None:
        self._under_way += 1
        self._none_under_way.clear()

    def ended(self, slots: SlotGroup) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._none_under_way.set()
        if slots.may_have_work:
            self._nudge()
