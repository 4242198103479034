"""Many nodes on one store: which node must be notified of what, and what happens if a notification is lost.

1. A message that nobody here can take is announced to all nodes; each hands it to a worker of its own, if
   it has one. An execute may so reach several workers: one of them gets the task, the others are refused.
2. When something falls due sooner than the others know, they are told, so that they look then even if this
   node is dead.
3. Calls may be lost. So every node looks at the store now and then, and often while it cannot hear itself:
   for what is due, and for tasks that its own workers could take.
4. While somebody reads the changes at one node (changes.py), the others are told so now and then, and tell
   it theirs. If one such call may be lost, readers are told to read again.

An unblock waits here too, because the store has forgotten it, until a worker of its group connects to any
node. An execute does not: whoever connects asks the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from holdfast.node.changes import UNKNOWN, Changes
from holdfast.node.end_tasks import end_tasks
from holdfast.node.message_router import MessageRouter
from holdfast.node.observed import Observed
from holdfast.protocol.address import parse_address
from holdfast.protocol.dialect import Dialect
from holdfast.protocol.messages import Execute, Message, Unblock
from holdfast.protocol.records import Millis, Promise
from holdfast.store.interface import Bus

log = logging.getLogger("holdfast.node")

look_s: Final = 60.0
look_deaf_s: Final = 1.0
echo_s_max: Final = 2.0
offers_max: Final = 100
announced_max: Final = 10_000
reading_s: Final = 10.0  # between two calls that somebody reads the changes
reading_lasts_s: Final = 30.0
told_max: Final = 60  # changes in one call: the rest is `more`


class Settled(Struct, frozen=True, array_like=True):
    """An unblock without its promise, which may be larger than a call: whoever can deliver it loads it."""

    address: str
    promise_id: str
    dialect: Dialect


class NodeCall(Struct, array_like=True):
    """What one node tells the others."""

    sender: str
    executes: list[Execute] = []
    settled: list[Settled] = []
    due: Millis | None = None
    groups: list[str] = []  # a worker of these has connected to the sender
    is_reading: bool = False  # somebody reads the changes at the sender
    changes: list[Changes] = []


class ClusterNode(Protocol):
    """What the cluster needs of its node."""

    router: MessageRouter
    observed: Observed

    def note_due(self, instant: Millis) -> None: ...

    def want_sweep(self) -> None: ...

    async def offers(self, group: str, limit: int) -> list[Execute]: ...

    async def find_promises(self, promise_ids: Sequence[str]) -> list[Promise]: ...


_Item = Execute | Settled | str | Changes  # a Changes without any: somebody reads here
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(NodeCall).decode


class Cluster:
    def __init__(self, node: ClusterNode, bus: Bus, chance: Random) -> None:
        self.name = f"{chance.getrandbits(128):032x}"
        self._chance = chance
        self.is_deaf = True
        self._node = node
        self._bus = bus
        self._outbox: list[_Item] = []
        self._due: Millis | None = None
        self._has_mail = asyncio.Event()
        self._echo = asyncio.Event()
        self._look_now = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        await self._bus.start(self._hear, self._missed)
        self._node.router.elsewhere = self.announce
        self._node.observed.feed.say = self.announce_changes
        self._spawn(self._speak())
        self._spawn(self._keep_looking())
        self._spawn(self._keep_reading())

    async def stop(self) -> None:
        self._node.router.elsewhere = None
        self._node.observed.feed.say = None
        await end_tasks(self._tasks)
        await self._bus.stop()

    def _spawn(self, work: "Awaitable[None]") -> None:
        async def run() -> None:
            try:
                await work
            except Exception:
                log.exception("a notification from another node could not be handled")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    # --- telling -------------------------------------------------------------------------------------

    def announce(self, messages: Sequence[Message]) -> list[Message]:
        """Tell the others what nobody here can take; answers with what shall wait here all the same."""
        for message in messages:
            self._put(_item(message))
        router = self._node.router
        return [
            message for message in messages if isinstance(message, Unblock) or router.serves(message.address)
        ]

    def announce_due(self, instant: Millis) -> None:
        if self._due is None or instant < self._due:
            self._due = instant
            self._has_mail.set()

    def announce_worker(self, group: str) -> None:
        self._put(group)

    def announce_changes(self, changes: Changes) -> None:
        self._put(changes.first(told_max))

    def _put(self, item: "_Item") -> None:
        if len(self._outbox) < announced_max:  # past that, tasks are found in the store
            self._outbox.append(item)
        self._has_mail.set()

    async def _speak(self) -> None:
        """One call at a time; what comes up meanwhile goes into the next."""
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            items, self._outbox = self._outbox, []
            due, self._due = self._due, None
            await self._bus.say(_texts(self.name, items, due, self._bus.text_bytes_max))

    # --- hearing -------------------------------------------------------------------------------------

    def _hear(self, text: str) -> None:
        try:
            call = _decode(text)
            for address in [each.address for each in call.executes] + [each.address for each in call.settled]:
                parse_address(address)
        except (msgspec.MsgspecError, ValueError):
            log.warning(
                "a notification from another node could not be read; is a node of another version running?"
            )
            return
        if call.sender == self.name:
            self._echo.set()
            return
        router = self._node.router
        if call.is_reading:
            self._node.observed.feed.read_elsewhere(reading_lasts_s)
        for changes in call.changes:
            self._node.observed.feed.hear(changes)
        if (
            call.executes and self._node.observed.feed.is_read_here
        ):  # a caller's own transaction tells nothing else
            self._node.observed.feed.hear(
                Changes(dict.fromkeys([each.task.id for each in call.executes], UNKNOWN))
            )
        if call.due is not None:
            self._node.note_due(call.due)
        if call.executes:
            self._take(call.executes)
        wanted = [settled for settled in call.settled if router.serves(settled.address)]
        if wanted:
            self._spawn(self._unblock(wanted))
        for group in call.groups:
            for message in router.waiting_for(group):
                if isinstance(message, Unblock):
                    self._put(Settled(message.address, message.promise.id, message.dialect))

    def _take(self, messages: Sequence[Message]) -> None:
        router = self._node.router
        for message in router.hand_over(messages):
            if router.serves(message.address):  # they are busy, and take it when they have room
                router.hold(message)

    async def _unblock(self, wanted: list[Settled]) -> None:
        found = await self._node.find_promises([settled.promise_id for settled in wanted])
        promises = {promise.id: promise for promise in found}
        self._take(
            [
                Unblock(settled.address, promise, settled.dialect)
                for settled in wanted
                if (promise := promises.get(settled.promise_id)) is not None
            ]
        )

    # --- reading changes -----------------------------------------------------------------------------

    async def _keep_reading(self) -> None:
        """Tell the others while somebody reads here. What they did before they were told is `more`."""
        feed = self._node.observed.feed
        while True:
            await feed.until_read()
            self._put(Changes())
            await asyncio.sleep(1.0)
            if feed.is_new:
                await feed.note_unknown()
            await asyncio.sleep(reading_s - 1.0)

    def _missed(self) -> None:
        self._look_now.set()
        self._spawn(self._node.observed.feed.note_unknown())

    # --- looking -------------------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while True:
            self._echo.clear()
            self._has_mail.set()  # a call with nothing in it comes back if calls come through
            if not self.is_deaf and not await self._happens(self._echo, echo_s_max):
                self.is_deaf = True
                self._bus.reconnect()
            rest_s = look_deaf_s if self.is_deaf else look_s
            await self._happens(self._look_now, rest_s * self._chance.uniform(0.75, 1.25))
            self._look_now.clear()
            self.is_deaf = not self._echo.is_set()
            if self.is_deaf:
                await self._node.observed.feed.note_unknown()
            self._node.want_sweep()
            try:
                await self._look_for_offers()
            except Exception:
                log.warning("the poll for pending tasks failed", exc_info=True)

    async def _happens(self, event: asyncio.Event, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        return event.is_set()

    async def _look_for_offers(self) -> None:
        router = self._node.router
        for group in router.groups:
            if router.has_room(group):
                self._take(await self._node.offers(group, offers_max))


def write_calls(
    sender: str, messages: Sequence[Message], due: Millis | None, text_bytes_max: int
) -> list[str]:
    """What the nodes must be told of a commit that none of them made."""
    if not messages and due is None:
        return []
    return _texts(sender, [_item(message) for message in messages], due, text_bytes_max)


def _item(message: Message) -> "Execute | Settled":
    if isinstance(message, Execute):
        return message
    return Settled(message.address, message.promise.id, message.dialect)


def _texts(sender: str, items: "Sequence[_Item]", due: Millis | None, text_bytes_max: int) -> list[str]:
    """As few texts as hold it all. One that is too long even alone is left out: rule 3."""
    call = NodeCall(sender, [], [], due, [], False, [])
    for item in items:
        if isinstance(item, Execute):
            call.executes.append(item)
        elif isinstance(item, Settled):
            call.settled.append(item)
        elif isinstance(item, Changes):
            if item.is_empty:
                call.is_reading = True
            else:
                call.changes.append(item)
        else:
            call.groups.append(item)
    text = _encode(call)
    if len(text) <= text_bytes_max:
        return [text.decode()]
    if len(items) < 2:
        if items and isinstance(items[0], Changes) and items[0].count:
            return _texts(sender, [Changes(more=True)], due, text_bytes_max)
        log.warning(
            "a notification to the other nodes is too long and was not sent", extra={"bytes": len(text)}
        )
        return []
    middle = len(items) // 2
    return [
        *_texts(sender, items[:middle], due, text_bytes_max),
        *_texts(sender, items[middle:], None, text_bytes_max),
    ]
