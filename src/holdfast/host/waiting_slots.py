"""The claim of a slot group that waits at the node: see `node/waiting_claims.py`.

1. Its slots are taken from when the node asks for it until the node says what became of it.
2. What it is granted is accepted like what any other claim is granted. So is a grant whose fate is unknown.
"""

from collections.abc import Callable, Sequence

from holdfast.client.caller import ask
from holdfast.host.slots import ClaimIntent, SlotGroup
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

Compose = Callable[[SlotGroup], ClaimIntent | None]
Claimed = Callable[[SlotGroup, ClaimIntent, float, Reply | None], None]


class WaitingSlots:
    def __init__(
        self,
        slots: SlotGroup,
        pid: str,
        compose: Compose,
        claimed: Claimed,
        returned: Callable[[SlotGroup], None],
        lease_end_s: Callable[[], float],
    ) -> None:
        self.pid = pid
        self._slots = slots
        self._compose = compose
        self._claimed = claimed
        self._returned = returned
        self._lease_end_s = lease_end_s
        self._lease_ends_s = 0.0
        self._request: Request | None = None
        self._intent: ClaimIntent | None = None  # of the request that was made last
        self.is_under_way = False

    @property
    def groups(self) -> Sequence[str]:
        return self._slots.groups

    def claim(self) -> Request | None:
        if self.is_under_way:
            return None
        intent = self._compose(self._slots)
        if intent is None:
            return None
        if intent is not self._intent or self._request is None:
            self._intent, self._request = intent, ask(intent.claim)
        self.is_under_way = True
        self._lease_ends_s = self._lease_end_s()  # the lease begins later, with the commit
        return self._request

    def answered(self, reply: Reply | None) -> None:
        assert self._intent is not None
        self.is_under_way = False
        self._request = None  # the next claim is another one
        self._claimed(self._slots, self._intent, self._lease_ends_s, reply)
        self._returned(self._slots)

    def returned(self) -> None:
        assert self._intent is not None
        self.is_under_way = False
        self._slots.hand_back(self._intent)
        self._returned(self._slots)
