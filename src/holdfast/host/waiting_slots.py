"""The claims of a host that wait at the node of its process: see `node/waiting_claims.py`.

1. The slots of a claim are taken from when the node asks for it until the node says what became of it.
2. What it is granted is accepted like what any other claim is granted; and if its fate is unknown, that is
   looked up like that of any other.
3. What a commit is about to offer is not known, and that it is over soon is not, either: it may wait for what
   somebody has locked. Whoever hears meanwhile of other work takes such a claim back, after a moment.
4. The node calls from wherever a commit ended, for whoever began that. What is run for the grant sees nothing
   of his context variables.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Final

from holdfast.client.caller import ask
from holdfast.client.interface import KeepsClaims
from holdfast.host.slots import ClaimIntent, SlotGroup
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

moment_s: Final = 0.02  # nearly every commit is over by then

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
        self._free: list[None] = []  # one, until it is being carried out or taken back: whoever pops it
        self._has_begun = False
        self._is_back = False
        self._since_s = 0.0

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
        self._free, self._has_begun, self._is_back = [None], False, False
        self._all.began()
        self._since_s = self._all.now_s()
        self._lease_ends_s = self._all.lease_end_s()  # the lease begins later, with the commit
        return self._request

    def begin(self) -> bool:
        self._has_begun = self._has_begun or self._pop()  # what is run again has it already
        return self._has_begun

    def _pop(self) -> bool:
        try:
            self._free.pop()
        except IndexError:
            return False
        return True

    def left_s(self) -> float | None:
        """After so long it may be taken back; None: there is nothing to take back."""
        if not self._is_under_way or not self._free:
            return None
        return self._since_s + moment_s - self._all.now_s()

    def take_back(self) -> None:
        """Unless it is being carried out. The node says later that it was not."""
        if self._is_under_way and self._pop():
            assert self._intent is not None
            self._is_back = True
            self._slots.hand_back(self._intent)
            self._all.ended(self._slots)

    def answered(self, reply: Reply | None) -> None:
        assert self._intent is not None
        self._is_under_way = False
        if self._is_back:
            return
        self._request = None  # the next claim is another one
        try:
            self._context.run(self._all.claimed, self._slots, self._intent, self._lease_ends_s, reply)
        finally:
            self._context.run(self._all.ended, self._slots)

    def returned(self) -> None:
        assert self._intent is not None
        self._is_under_way = False
        if self._is_back:
            return
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
        self._loop = asyncio.get_running_loop()
        self._claims: dict[SlotGroup, WaitingSlots] = {}
        self._withdrawals: list[Callable[[], None]] = []
        self._timers: dict[SlotGroup, asyncio.TimerHandle] = {}
        self._under_way = 0
        self._none_under_way = asyncio.Event()
        self._none_under_way.set()

    def leave(self, client: KeepsClaims, slots: SlotGroup) -> None:
        if slots not in self._claims:
            claim = self._claims[slots] = WaitingSlots(slots, self._pid, self)
            self._withdrawals.append(client.leave_claim(claim))

    def withdraw(self) -> None:
        """Nothing more is asked for. What is under way is answered."""
        for withdraw in self._withdrawals:
            withdraw()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def take_back(self) -> None:
        """What is not being carried out yet shall not be."""
        for claim in self._claims.values():
            claim.take_back()

    def make_way(self, slots: SlotGroup) -> None:
        """If there may be other work for these slots, take back their claim, once it is long under way."""
        claim = self._claims.get(slots) if slots.may_have_work else None
        left_s = None if claim is None else claim.left_s()
        if claim is None or left_s is None or slots in self._timers:
            return
        if left_s <= 0:
            claim.take_back()
        else:
            self._timers[slots] = self._loop.call_later(left_s, self._rung, slots)

    def _rung(self, slots: SlotGroup) -> None:
        del self._timers[slots]
        if slots.may_have_work:
            self._nudge()

    def now_s(self) -> float:
        return self._loop.time()

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
