"""Delivers messages to connected workers, and keeps those that nobody can take yet.

1. A message is an invitation, never the only trace of work: a task that nobody acquires is offered again
   from the store. So messages may be lost or doubled without harm, and this lives in memory.
2. What cannot be handed over waits, one message per key (a newer one replaces it), and goes to the first
   worker of its group that connects or has room again.
   They wait by recipient, a group or one member of it: if the first message of a recipient cannot go, none
   behind it can. So what waits is not looked at again by every reader.
3. Everything is bounded, by messages and by bytes: a mailbox, all mailboxes, the waiting room. Past that the
   message that has waited longest of all is dropped; rule 1 makes up for it.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.protocol import limits
from holdfast.protocol.address import Poll, Push, parse_address
from holdfast.protocol.ids import is_covered
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.messages import Message
from holdfast.protocol.sizes import message_bytes

log = logging.getLogger("holdfast.node")

waiting_max: Final = 10_000
mailbox_capacity: Final = 100
mailbox_bytes_max: Final = 1_048_576  # whatever one message has

Key = tuple[str, ...]
Recipient = tuple[str, str]  # a group, and the only member who may take it, or ""

PUSH: Final = ("", "")


class WorkerMailbox:
    """One connected worker's share: a bounded queue that it reads in order."""

    def __init__(self, router: "MessageRouter", group: str, member: str, capacity: int) -> None:
        self.group = group
        self.member = member
        self._router = router
        self._capacity = capacity
        self._messages: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self.bytes = 0
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def has_room(self) -> bool:
        if not self._messages:
            return self._router.mailbox_bytes < 2 * limits.messages_bytes_max
        return (
            len(self._messages) < self._capacity
            and self.bytes < mailbox_bytes_max
            and self._router.mailbox_bytes < limits.messages_bytes_max
        )

    @property
    def unread(self) -> list[Message]:
        return [*self._messages]

    def put(self, message: Message) -> None:
        self._messages.append(message)
        size = message_bytes(message)
        self.bytes += size
        self._router.mailbox_bytes += size
        self._arrived.set()

    async def receive(self) -> list[Message]:
        """All messages that are there, once there is one; none when the mailbox is closed."""
        while not self._messages and not self.is_closed:
            self._arrived.clear()
            await self._arrived.wait()
        return self.take()

    def take(self) -> list[Message]:
        taken = self._empty()
        if taken and not self.is_closed:
            self._router.refill(self)
        return taken

    def _empty(self) -> list[Message]:
        taken = [*self._messages]
        self._messages.clear()
        size, self.bytes = self.bytes, 0
        self._router.let_go(size)  # which may put something new into it
        return taken

    def close(self) -> None:
        """Stop receiving. What was not read goes to somebody else."""
        if not self.is_closed:
            self.is_closed = True
            self._arrived.set()
            self._router.forget(self)
            self._router.deliver(self._empty())


class MessageRouter:
    def __init__(self) -> None:
        self._mailboxes: dict[str, list[WorkerMailbox]] = {}
        self._waiting: dict[Recipient, OrderedDict[Key, Message]] = {}
        self._waiting_since: OrderedDict[tuple[Recipient, Key], int] = (
            OrderedDict()
        )  # bytes, oldest message first
        self.waiting_bytes = 0
        self.mailbox_bytes = 0
        self._push: Callable[[Message], None] | None = None
        self.is_paused = False
        self.drained: dict[
            str, str
        ] = {}  # members that shall get nothing new to do, in groups under a prefix
        self.dropped_count = 0
        # Told what nobody here can take; answers with what shall wait here all the same.
        self.elsewhere: Callable[[list[Message]], list[Message]] | None = None

    @property
    def waiting(self) -> list[Message]:
        return [message for held in self._waiting.values() for message in held.values()]

    @property
    def recipient_count(self) -> int:
        """For how many recipients something waits."""
        return len(self._waiting)

    @property
    def held_bytes(self) -> int:
        return self.waiting_bytes + self.mailbox_bytes

    @property
    def mailbox_count(self) -> int:
        return sum(len(mailboxes) for mailboxes in self._mailboxes.values())

    @property
    def members(self) -> list[tuple[str, str]]:
        """Who is connected: group and id of each."""
        return [(group, box.member) for group, boxes in self._mailboxes.items() for box in boxes]

    def has_workers(self, group: str) -> bool:
        return group in self._mailboxes

    def connect(self, group: str, member: str, capacity: int = mailbox_capacity) -> WorkerMailbox:
        mailbox = WorkerMailbox(self, group, member, capacity)
        self._mailboxes.setdefault(group, []).append(mailbox)
        self.refill(mailbox)
        return mailbox

    def set_push(self, push: Callable[[Message], None] | None) -> None:
        """Who posts messages to HTTP addresses. It must return at once and never raise."""
        self._push = push
        if push is not None:
            self._release(PUSH)

    def deliver(self, messages: Iterable[Message]) -> None:
        left = self.hand_over(messages)
        if left and self.elsewhere is not None and not self.is_paused:
            left = self.elsewhere(left)
        for message in left:
            self.hold(message)

    def hand_over(self, messages: Iterable[Message]) -> list[Message]:
        """Give messages to whoever can take them now; answers with those that nobody can.

        One that cannot be delivered at all is dropped: rule 1 makes up for it, and the others go on.
        """
        left: list[Message] = []
        for message in messages:
            try:
                if not self._hand_over_one(message):
                    left.append(message)
            except Exception:
                log.exception("a message was dropped", extra={"address": message.address})
        return left

    def hold(self, message: Message) -> None:
        self._hold(_recipient_of(parse_address(message.address)), message)

    def serves(self, text: str) -> bool:
        """Is anybody here who could take a message for this address, now or when there is room?"""
        address = parse_address(text)
        if isinstance(address, Push):
            return self._push is not None
        mailboxes = self._mailboxes.get(address.group, ())
        return any(not address.unicast or mailbox.member == address.member for mailbox in mailboxes)

    @property
    def groups(self) -> list[str]:
        return [*self._mailboxes]

    def has_room(self, group: str) -> bool:
        return any(mailbox.has_room for mailbox in self._mailboxes.get(group, ()))

    def waiting_for(self, group: str) -> list[Message]:
        recipients = [recipient for recipient in self._waiting if recipient[0] == group]
        return [message for recipient in recipients for message in self._waiting[recipient].values()]

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        for recipient in [*self._waiting]:
            self._release(recipient)

    def clear(self) -> None:
        self._waiting.clear()
        self._waiting_since.clear()
        self.waiting_bytes = 0

    def refill(self, mailbox: WorkerMailbox) -> None:
        """This worker has room: give it what waits for it."""
        self._release((mailbox.group, mailbox.member))
        self._release((mailbox.group, ""))

    def let_go(self, size: int) -> None:
        """A mailbox was emptied. If all of them together were full, others may have room now."""
        were_full = self.mailbox_bytes >= limits.messages_bytes_max
        self.mailbox_bytes -= size
        if were_full and self.mailbox_bytes < limits.messages_bytes_max:
            for recipient in [*self._waiting]:
                self._release(recipient)

    def forget(self, mailbox: WorkerMailbox) -> None:
        mailboxes = self._mailboxes[mailbox.group]
        mailboxes.remove(mailbox)
        if not mailboxes:
            del self._mailboxes[mailbox.group]

    def _hand_over_one(self, message: Message) -> bool:
        address = parse_address(message.address)
        if self.is_paused:
            return False
        if isinstance(address, Push):
            if self._push is not None:
                self._push(message)
            return self._push is not None
        mailbox = self._choose(address)
        if mailbox is not None:
            mailbox.put(message)
        return mailbox is not None

    def _choose(self, address: Poll) -> WorkerMailbox | None:
        """The member asked for if it has room, else (for `any`) the member with the least to read.

        Among equals they take turns: what one member cannot use reaches the others when it is offered again.
        """
        members = self._mailboxes.get(address.group, [])
        ready = [mailbox for mailbox in members if mailbox.has_room]
        named = [mailbox for mailbox in ready if mailbox.member == address.member]
        if address.unicast:
            return named[0] if named else None
        if self.drained:
            named, ready = (
                [each for each in some if not self.is_drained(each.member, each.group)]
                for some in (named, ready)
            )
        if named:
            return named[0]
        chosen = min(ready, key=len, default=None)
        if chosen is not None and len(members) > 1:
            members.remove(chosen)
            members.append(chosen)
        return chosen

    def is_drained(self, member: str, group: str) -> bool:
        """Whoever may drain the workers of a prefix drains nobody who listens elsewhere under the same id."""
        scope = self.drained.get(member)
        if not scope:
            return scope is not None
        return is_covered(queue_of(group) or group, scope)

    def _hold(self, recipient: Recipient, message: Message) -> None:
        held = self._waiting.setdefault(recipient, OrderedDict())
        known = held.get(message.key)
        if known is not None and message.is_older_than(known):
            return
        held[message.key] = message
        size = message_bytes(message)
        self.waiting_bytes += size - self._waiting_since.get((recipient, message.key), 0)
        self._waiting_since[recipient, message.key] = size
        while self._is_too_full and not self.is_paused:
            self._drop_oldest()

    @property
    def _is_too_full(self) -> bool:
        return (
            len(self._waiting_since) > waiting_max or self.waiting_bytes > limits.messages_bytes_max
        ) and len(self._waiting_since) > 1

    def _drop_oldest(self) -> None:
        recipient, key = next(iter(self._waiting_since))
        self._take_out(recipient, key)
        self.dropped_count += 1

    def _take_out(self, recipient: Recipient, key: Key) -> None:
        self.waiting_bytes -= self._waiting_since.pop((recipient, key))
        held = self._waiting[recipient]
        del held[key]
        if not held:
            del self._waiting[recipient]

    def _release(self, recipient: Recipient) -> None:
        """Try again to hand over what waits for a recipient, until one cannot go."""
        while held := self._waiting.get(recipient):
            key, message = next(iter(held.items()))
            if not self._hand_over_one(message):
                break
            self._take_out(recipient, key)


def _recipient_of(address: Poll | Push) -> Recipient:
    if isinstance(address, Push):
        return PUSH
    return address.group, (address.member or "") if address.unicast else ""
