"""What has changed in the store, for pages that show it: collected from commits, told a few times a second.

    commit -> Changes -> ChangeFeed: one frame for all readers -> server/management/changes.py
                             ^ |
             other nodes ----+ +----> other nodes, while somebody there reads (cluster.py)

1. Nothing is collected while nobody reads, here or at another node; and for a while after the last has left,
   so that whoever comes back goes on where he was.
2. A change after a silence is told at once (`first_s`), and so are the next few (`quick_max`): what one
   person starts, settles or cancels makes several commits, and he waits for the last of them.
3. A frame names at most `named_max` ids. Past that it says only that there is more, and a reader reads again
   what he shows. Commits stop collecting then, and the next frame is later (`busy_rest_s`). While changes
   never pause, frames come ever more rarely, down to that. The more readers there are, the longer is that
   rest (`reader_rest_s`): each of them reads something because of it. So their work is bounded, however many
   commits and readers there are.
4. Readers keep nothing here but the number of the last frame they saw. Frames are kept for a while; whoever
   is further behind than that is told to read everything again.
5. It may say too much, never too little: what may have changed without a name (a commit whose outcome is not
   known, another process on the same file) is `more`.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct, field

from holdfast.engine import WorkingSet
from holdfast.engine.newest import lane_of, listing_of
from holdfast.protocol import tags
from holdfast.protocol.address import poll_group
from holdfast.protocol.ids import is_covered
from holdfast.protocol.jobs import queue_of

named_max: Final = 500
first_s: Final = 0.03  # after a change that follows a silence
quick_max: Final = 4  # so many frames more come as soon as that
rest_s: Final = 0.2  # between two frames
busy_rest_s: Final = 1.0  # after one that could not name everything, or while changes never pause
reader_rest_s: Final = 0.02  # added to that for each reader
busy_rest_s_max: Final = 5.0
rest_growth: Final = 1.5
linger_s: Final = 30.0
frames_max: Final = 300
frames_bytes_max: Final = 4_194_304
scopes_max: Final = 100  # of which the text of one frame is kept

State = tuple[str | None, str | None, str | None]  # kind, status, name
UNKNOWN: Final[State] = (None, None, None)
NAMED: Final = ("executions", "queues", "schedules", "workers", "streams", "promises")


class Changes(Struct):
    """`executions` and background tasks, by id. `streams`: executions that were told or have said something.
    `promises`: those that are no part of an execution. `more`: there are others."""

    executions: dict[str, State] = field(default_factory=dict[str, State])
    queues: dict[str, None] = field(default_factory=dict[str, None])
    schedules: dict[str, None] = field(default_factory=dict[str, None])
    workers: dict[str, str] = field(default_factory=dict[str, str])  # and the group of each
    streams: dict[str, None] = field(default_factory=dict[str, None])
    promises: dict[str, None] = field(default_factory=dict[str, None])
    more: bool = False

    @property
    def count(self) -> int:
        return sum(len(getattr(self, name)) for name in NAMED)

    @property
    def is_empty(self) -> bool:
        return not (self.more or self.count)

    def add(self, other: "Changes") -> None:
        self.executions.update(
            (key, state)
            for key, state in other.executions.items()
            if state != UNKNOWN or key not in self.executions
        )
        for name in NAMED[1:]:
            getattr(self, name).update(getattr(other, name))
        self.more = self.more or other.more
        self.cut()

    def cut(self) -> None:
        """No more than may be named: those that came first."""
        over = self.count - named_max
        for name in reversed(NAMED):
            known = getattr(self, name)
            while over > 0 and known:
                known.popitem()
                over -= 1
                self.more = True

    def first(self, most: int) -> "Changes":
        """The first so many, and whether there are more."""
        found = Changes(more=self.more)
        for name in NAMED:
            for key, value in getattr(self, name).items():
                if found.count >= most:
                    found.more = True
                    return found
                getattr(found, name)[key] = value
        return found

    def within(self, prefix: str) -> "Changes":
        """What somebody may know of who sees only what a prefix covers."""

        def covered(name: str) -> bool:
            return is_covered(name, prefix)

        return Changes(
            {key: state for key, state in self.executions.items() if covered(key)},
            {key: None for key in self.queues if covered(key)},
            {key: None for key in self.schedules if covered(key)},
            {key: group for key, group in self.workers.items() if covered(queue_of(group) or group)},
            {key: None for key in self.streams if covered(key)},
            {key: None for key in self.promises if covered(key)},
            self.more,
        )


NO_CHANGES: Final = Changes()  # of a commit that saved nothing


def note_changes(ws: WorkingSet, found: Changes) -> None:
    """Add what a working set is about to save."""
    if ws.cleared or ws.forgotten:
        found.more = True
    room = named_max - found.count
    for task_id in ws.changed_tasks:
        if room <= 0:
            found.more = True
            return
        task, promise = ws.tasks[task_id], ws.promises.get(task_id)
        if task is None:
            continue
        listing = listing_of(task, promise)
        kind, _, status = lane_of(task, listing.outcome).partition(" ")
        found.executions[task_id] = kind, status, listing.name
        if (queue := queue_of(poll_group(task.target) or "")) is not None:
            found.queues[queue] = None
        room -= 1
    for promise_id in ws.changed_promises:
        if room <= 0:
            found.more = True
            return
        if promise_id in ws.changed_tasks or (promise := ws.promises[promise_id]) is None:
            continue
        owner = promise.tags.get(tags.PARENT) if promise.tags else None
        if owner is None or owner == promise_id:
            if ws.tasks.get(promise_id) is not None:
                found.executions.setdefault(promise_id, UNKNOWN)
            else:
                found.promises[promise_id] = None
        else:
            found.executions.setdefault(owner, UNKNOWN)
        room -= 1
    found.streams.update(ws.changed_streams)
    found.schedules.update(dict.fromkeys(ws.changed_schedules))
    found.queues.update(dict.fromkeys(ws.changed_queues))


class Frame:
    """What has changed in a fraction of a second, and how it is told."""

    __slots__ = ("_texts", "changes", "number")

    def __init__(self, number: int, changes: Changes) -> None:
        self.number = number
        self.changes = changes
        self._texts: dict[str, bytes] = {}

    def text(self, prefix: str = "") -> bytes | None:
        """As JSON; None if there is nothing in it for somebody who sees only what a prefix covers."""
        found = self._texts.get(prefix)
        if found is None:
            found = _encode(self.changes.within(prefix) if prefix else self.changes)
            if len(self._texts) < scopes_max:
                self._texts[prefix] = found
        return found or None


class ChangeFeed:
    """`say` passes on to other nodes what changed here."""

    def __init__(self) -> None:
        self.say: Callable[[Changes], None] | None = None
        self.readers = 0
        self.is_wanted = False  # False: nobody reads, so nobody needs to ask `is_read`
        self._life = secrets.token_hex(6)  # numbers of another one mean nothing here
        self._lives = 0
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._number = 0
        self._here = Changes()  # of commits of this node, since the last frame
        self._elsewhere = Changes()
        self._timer: asyncio.TimerHandle | None = None
        self._next_s = 0.0  # the next frame comes no earlier
        self._is_busy = False  # the last could not name everything
        self._rest_s = rest_s
        self._quick = quick_max  # frames that need not wait until then
        self._read_until_s = 0.0  # readers here; and those at other nodes
        self._heard_until_s = 0.0
        self._began_s = 0.0
        self._arrived = asyncio.Event()
        self._has_readers = asyncio.Event()

    # --- collecting ------------------------------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Must commits tell what they change?"""
        if self.readers:
            return True
        latest_s = max(self._read_until_s, self._heard_until_s)
        self.is_wanted = latest_s > asyncio.get_running_loop().time()
        return self.is_wanted

    @property
    def is_full(self) -> bool:
        """The frame that is being collected cannot name anything more."""
        return self._here.more

    @property
    def is_read_here(self) -> bool:
        if self.readers:
            return True
        return self._read_until_s > 0 and self._read_until_s > asyncio.get_running_loop().time()

    def read_elsewhere(self, seconds: float) -> None:
        """Somebody reads at another node."""
        self._heard_until_s = asyncio.get_running_loop().time() + seconds
        self.is_wanted = True

    def note(self, changes: Changes | None) -> None:
        """By a commit of this node; None if it did not collect what it changed: nobody read when it began, or
        there was no room for more."""
        if not self.is_read:
            return
        if changes is None:
            self._here.more = True
            self._set_timer()
        elif not changes.is_empty:
            self._here.add(changes)
            self._set_timer()

    def hear(self, changes: Changes) -> None:
        """From another node."""
        if self.is_read_here and not changes.is_empty:
            self._elsewhere.add(changes)
            self._set_timer()

    async def note_unknown(self) -> None:
        """Another process has written, or nobody knows what was written."""
        self.hear(Changes(more=True))

    def _set_timer(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait_s = self._next_s - loop.time()
            if wait_s <= 0:  # there was a pause since the last frame
                self._rest_s, self._quick = rest_s, quick_max
            elif self._quick > 0 and not self._is_busy:
                self._quick, wait_s = self._quick - 1, 0.0
            else:
                self._rest_s = min(self._busy_rest_s, self._rest_s * rest_growth)
            self._timer = loop.call_later(max(first_s, wait_s), self._flush)

    @property
    def _busy_rest_s(self) -> float:
        return max(busy_rest_s, min(busy_rest_s_max, busy_rest_s + self.readers * reader_rest_s))

    def _flush(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        here, self._here = self._here, Changes()
        elsewhere, self._elsewhere = self._elsewhere, Changes()
        self._is_busy = here.more or elsewhere.more
        self._next_s = loop.time() + (self._busy_rest_s if self._is_busy else self._rest_s)
        if self.say is not None and self._heard_until_s > loop.time() and not here.is_empty:
            self.say(here)
        if not self.is_read_here:
            return
        here.add(elsewhere)
        self._number += 1
        frame = Frame(self._number, here)
        self._frames.append(frame)
        self._bytes += len(frame.text() or b"")
        while len(self._frames) > frames_max or self._bytes > frames_bytes_max:
            self._bytes -= len(self._frames.popleft().text() or b"")
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # --- reading ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """One more reader."""
        if not self.is_read_here:  # nobody has collected until now: what is kept has a gap behind it
            self._frames.clear()
            self._bytes = 0
            self._lives += 1
            self._began_s = asyncio.get_running_loop().time()
        self.readers += 1
        self.is_wanted = True
        self._has_readers.set()

    def expect(self) -> None:
        """Somebody is about to read, from here on."""
        self.open()
        self.close()

    async def until_read(self) -> None:
        """Until somebody reads here."""
        while not self.is_read_here:
            self._has_readers.clear()
            await self._has_readers.wait()

    @property
    def is_new(self) -> bool:
        """Have the others just heard that somebody reads?"""
        return asyncio.get_running_loop().time() - self._began_s < linger_s / 2

    def close(self) -> None:
        self.readers -= 1
        self._read_until_s = asyncio.get_running_loop().time() + linger_s

    @property
    def number(self) -> int:
        """Of the last frame."""
        return self._number

    def name_of(self, number: int) -> str:
        return f"{self._life}.{self._lives}-{number}"

    def number_of(self, name: str) -> int | None:
        """None: it is of another life, or older than what is kept."""
        life, _, number = name.rpartition("-")
        if life != f"{self._life}.{self._lives}" or not (number.isascii() and number.isdigit()):
            return None
        found = int(number[:16])
        oldest = self._frames[0].number if self._frames else self._number + 1
        return found if oldest - 1 <= found <= self._number else None

    def after(self, number: int) -> list[Frame] | None:
        """The frames behind one; None if the next of them is gone."""
        if number >= self._number:
            return []
        if not self._frames or self._frames[0].number > number + 1:
            return None
        return [frame for frame in self._frames if frame.number > number]

    async def arrival(self) -> None:
        """Until there is another frame."""
        await self._arrived.wait()


_json: Final = msgspec.json.Encoder().encode


def _encode(changes: Changes) -> bytes:
    if changes.is_empty:
        return b""
    if changes.more:  # whoever hears that reads everything again: names would be of no use
        return b'{"more":true}'
    found: dict[str, object] = {}
    if changes.executions:
        found["executions"] = [(key, *state) for key, state in changes.executions.items()]
    for name in NAMED[1:]:
        if known := getattr(changes, name):
            found[name] = [*known]
    return _json(found)
